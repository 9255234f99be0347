//! The commands of pages that are followed step by step, run as they stand: blocks between fences, and calls of the
//! programs within the text. Where a page shows replies they are compared, and blocks of options are taken by the server.
//!
//! What cannot be as on the reader's machine stands in three tables: [`REPLACED`], [`STAND_INS`] and [`NOT_RUN`].
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../server/tests/process/mod.rs"]
mod process;

use process::{free_port, program};
use std::cell::RefCell;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Text of the pages, and what is run in its place; `~` is the test's directory.
const REPLACED: &[(&str, &str)] = &[
    ("/var/lib/", "~/var/lib/"),
    ("/etc/", "~/etc/"),
    ("/backup", "~/backup"),
    ("--rdb FILE", "--rdb ~/fetched.rdb"),
    ("SECONDS", "4102444800"),
    // On the copy that the page has made before.
    ("appendonly.aof.manifest", "~/backup/appendonlydir-*/appendonly.aof.manifest"),
];

/// Programs that are not there, or need another user; `~` is the directory, `PORT` its server's.
const STAND_INS: &[(&str, &str)] = &[
    ("warmline-cli", "exec \"$CLIENT\" -p PORT $FORMAT \"$@\""),
    ("valkey-cli", "exec \"$CLIENT\" -p PORT \"$@\""),
    // Without the service's user.
    ("install", "while [ \"$1\" = -o ] || [ \"$1\" = -g ]; do shift 2; done; exec /usr/bin/install \"$@\""),
    // One service, which is there as soon as its server answers.
    (
        "systemctl",
        "[ \"$2\" = warmline ] || exit 5
stop() {
    # The server refuses while its first append-only file is written, which a page says.
    for try in $(seq 300); do warmline-cli info persistence | grep -q aof_rewrite_in_progress:0 && break; sleep 0.1; done
    warmline-cli shutdown
}
start() {
    warmline-server ~/etc/warmline/warmline.conf >~/log 2>&1 &
    echo $! >~/pid
    for try in $(seq 300); do warmline-cli ping >~/answer 2>&1 && grep -q PONG ~/answer && return; sleep 0.1; done
    cat ~/log >&2; exit 1
}
case $1 in start) start ;; stop) stop ;; restart) stop; start ;; *) exit 6 ;; esac",
    ),
];

/// Beginnings of commands that are not run, and why.
const NOT_RUN: &[(&str, &str)] = &[
    ("cargo build --profile dist", "the package: .ci/steps/package.sh builds, installs and upgrades it"),
    ("/var/log/warmline/warmline.log {", "a configuration of logrotate, which is not installed"),
    ("podman build", "the image: packaging/container/test.sh"),
    ("import redis", "Python with redis-py: tests/clients/python"),
    ("warmline-benchmark -q", "a minute of load: crates/bench/tests/programs.rs"),
];

/// Programs whose calls within the text are run too.
const OF_TEXT: [&str; 4] = ["warmline-cli ", "warmline-server ", "warmline-check-", "warmline-benchmark "];

/// What a reader types, and what the page says comes back.
#[derive(Debug)]
enum Step {
    /// Lines of a shell.
    Run(String),
    /// A command, and the reply below it.
    Shown { command: String, reply: String },
    /// Lines of the configuration.
    Options(String),
    /// In another language.
    Other(String),
}

fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    for (number, part) in page.split("\n```").enumerate() {
        if number % 2 == 0 {
            let spans = part.split('`').skip(1).step_by(2);
            let calls = spans.filter(|span| OF_TEXT.iter().any(|program| span.starts_with(program)));
            steps.extend(calls.map(|call| Step::Run(call.to_owned())));
            continue;
        }
        let (language, block) = part.split_once('\n').unwrap();
        match language {
            "sh" => steps.push(Step::Run(block.to_owned())),
            "" if block.starts_with("$ ") => {
                for shown in block[2..].split("\n$ ") {
                    let (command, reply) = shown.split_once('\n').unwrap_or((shown, ""));
                    let (command, reply) = (command.to_owned(), reply.trim_end().to_owned());
                    steps.push(Step::Shown { command, reply });
                }
            }
            // Lines that the server writes.
            "log" => {}
            "" => steps.push(Step::Options(block.to_owned())),
            _ => steps.push(Step::Other(block.to_owned())),
        }
    }
    steps
}

/// A machine of which a page's paths are in one directory; what runs on it ends with it.
struct Machine {
    root: PathBuf,
    port: u16,
    left_out: RefCell<Vec<&'static str>>,
}

impl Machine {
    fn new(name: &str, options: &str) -> Self {
        let root = std::env::temp_dir().join(format!("warmline-pages-{}-{name}", std::process::id()));
        for directory in ["bin", "backup", "var/lib/warmline", "var/lib/valkey", "etc/warmline", "etc/valkey"]
        {
            std::fs::create_dir_all(root.join(directory)).unwrap();
        }
        let machine = Machine { root, port: free_port(), left_out: RefCell::default() };
        for program_name in ["warmline-server", "warmline-check-rdb", "warmline-check-aof"] {
            symlink(program(), machine.root.join("bin").join(program_name)).unwrap();
        }
        for (name, script) in STAND_INS {
            let script = machine.placed(script).replace("PORT", &machine.port.to_string());
            let path = machine.write(&format!("bin/{name}"), &format!("#!/bin/bash\n{script}\n"));
            std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
        }
        let text = format!("port {}\nbind 127.0.0.1\ndir ~/var/lib/warmline\n{options}", machine.port);
        machine.write("etc/warmline/warmline.conf", &machine.placed(&text));
        machine
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.root.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn placed(&self, text: &str) -> String {
        text.replace("~/", &format!("{}/", self.root.display()))
    }

    fn shell(&self, text: &str, format: &str) -> Output {
        let path = format!("{}/bin:{}", self.root.display(), std::env::var("PATH").unwrap());
        Command::new("timeout")
            .args(["120", "bash", "-euc", text])
            .env("PATH", path)
            .env("CLIENT", env!("CARGO_BIN_EXE_warmline-cli"))
            .env("FORMAT", format)
            .current_dir(&self.root)
            .output()
            .unwrap()
    }

    #[track_caller]
    fn run(&self, text: &str, format: &str) -> String {
        let output = self.shell(text, format);
        let (stdout, stderr) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
        let stdout = String::from_utf8(stdout.clone()).unwrap();
        // What the client is refused is no failure to it.
        let is_fine = output.status.success() && !stdout.lines().any(|line| line.starts_with("ERR "));
        assert!(is_fine, "{text}\n{:?}\n{stdout}{stderr}", output.status);
        stdout
    }

    fn is_left_out(&self, text: &str) -> bool {
        let entry = NOT_RUN.iter().find(|(beginning, _)| text.starts_with(beginning));
        self.left_out.borrow_mut().extend(entry.map(|(beginning, _)| *beginning));
        entry.is_some()
    }

    /// Does all that the page says.
    fn follow(&self, page: &str, steps_min: usize) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
        let (mut told, mut steps_done) = (String::new(), 0);
        let replaced = |text: &str| {
            self.placed(&REPLACED.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to)))
        };
        for step in steps(&std::fs::read_to_string(path).unwrap()) {
            let (Step::Run(text)
            | Step::Options(text)
            | Step::Other(text)
            | Step::Shown { command: text, .. }) = &step;
            if self.is_left_out(text) {
                continue;
            }
            steps_done += 1;
            match &step {
                Step::Run(text) => told += &self.run(&replaced(text), ""),
                Step::Shown { command, reply } => {
                    let output = self.run(&replaced(command), "--no-raw");
                    assert_eq!(output.trim_end(), reply, "{page}: {command}");
                }
                Step::Options(lines) => {
                    let file = self.write("options.conf", lines);
                    self.run(&format!("warmline-server --check-config {}", file.display()), "");
                }
                Step::Other(text) => panic!("{page}: nothing runs this:\n{text}"),
            }
        }
        assert!(steps_done >= steps_min, "{page}: {steps_done} steps");
        told
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        for name in ["pid", "old.pid"] {
            if let Ok(pid) = std::fs::read_to_string(self.root.join(name)) {
                let _ = Command::new("kill").args(["-9", pid.trim()]).output();
            }
        }
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

#[test]
fn getting_started() {
    let machine = Machine::new("start", "");
    machine.run("systemctl start warmline", "");
    machine.follow("getting-started.md", 9);
    assert_eq!(
        *machine.left_out.borrow(),
        ["cargo build --profile dist", "podman build", "warmline-benchmark -q", "import redis"]
    );
    let written = std::fs::read_to_string(machine.root.join("etc/warmline/warmline.conf")).unwrap();
    assert!(written.contains("appendonly yes"), "{written}");
    // After the restart that the page ends with.
    assert_eq!(machine.run("warmline-cli get greeting", ""), "hello\n");
}

#[test]
fn migrating() {
    let machine = Machine::new("move", "");
    machine
        .write("etc/valkey/valkey.conf", "bind 127.0.0.1\nmaxmemory 100mb\nsave 3600 1\nactivedefrag yes\n");
    let old = "warmline-server --port PORT --bind 127.0.0.1 --dir ~/var/lib/valkey >~/old.log 2>&1 & echo $! >~/old.pid
for try in $(seq 300); do warmline-cli ping 2>&1 | grep -q PONG && break; sleep 0.1; done
warmline-cli set key value; warmline-cli rpush list a b; warmline-cli save; cp ~/var/lib/valkey/dump.rdb ~/dump.rdb";
    machine.run(&machine.placed(old).replace("PORT", &machine.port.to_string()), "");
    machine.follow("migrating.md", 5);
    assert_eq!(machine.run("warmline-cli dbsize; warmline-cli get key", ""), "2\nvalue\n");
}

#[test]
fn operations() {
    let machine = Machine::new("operate", "appendonly yes\naof-timestamp-enabled yes\n");
    machine.run("systemctl start warmline; warmline-cli set key value", "");
    let told = machine.follow("operations.md", 5);
    assert!(told.contains("rdb_last_bgsave_status:ok") && told.contains("good"), "{told}");
    assert_eq!(machine.run("ls backup | wc -l", ""), "2\n");
    let fetched = std::fs::metadata(machine.root.join("fetched.rdb")).unwrap();
    assert_eq!(fetched.permissions().mode() & 0o027, 0);
    // The backup is one: a server that has nothing else has the data.
    machine.run(
        &machine.placed("systemctl stop warmline; rm -r ~/var/lib/warmline/*; cp -r ~/backup/appendonlydir-* ~/var/lib/warmline/appendonlydir; systemctl start warmline"),
        "",
    );
    assert_eq!(machine.run("warmline-cli get key", ""), "value\n");
}
