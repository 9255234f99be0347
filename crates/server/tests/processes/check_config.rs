//! `--check-config`, `--print-config` and the tools that check files, as a process of their own; the log file that the
//! configuration names.

use crate::process::certificates::Certificates;
use crate::process::{self, copy_program, free_port};
use std::fs::Permissions;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder that goes away with its test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("warmline-check-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path.canonicalize().unwrap())
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        std::fs::write(self.0.join(name), text).unwrap();
        self.0.join(name)
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_warmline-server"))
            .args(arguments)
            .current_dir(&self.0)
            .output()
            .unwrap()
    }

    fn check(&self, file: &Path) -> Output {
        self.run(&["--check-config", file.to_str().unwrap()])
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_good_configuration_is_told_and_nothing_touched() {
    let folder = Folder::new("good");
    // Somebody listens there already, and the data is none.
    let port = free_port();
    let _listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    folder.write("dump.rdb", "not a snapshot");
    let file = folder.write(
        "good.conf",
        &format!(
            "port {port}\nlogfile made.log\npidfile made.pid\nunixsocket made.socket\nappendonly yes\ndaemonize yes\n\
             user alice on >secret ~* +@all\nrename-command FLUSHALL \"\"\n"
        ),
    );
    let before = folder.names();
    let output = folder.check(&file);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stderr, b"");
    assert_eq!(folder.names(), before);
    assert!(folder.run(&["--check-config", "--port", "7000"]).status.success());
}

#[test]
fn what_is_wrong_is_told_with_file_line_and_word() {
    let folder = Folder::new("bad");
    folder.write("included.conf", "# nothing\nhz x\n");
    folder.write("users.acl", "user bob on +nosuch\n");
    for (text, wanted) in [
        ("port 1\nmaxmemry 1gb\n", &["bad.conf, line 2, directive 'maxmemry'", "Bad directive"][..]),
        ("appendonly maybe\n", &["line 1, directive 'appendonly'", "'yes' or 'no'", "'appendonly maybe'"]),
        ("\ninclude included.conf\n", &["included.conf, line 2, directive 'hz'", "integer"]),
        ("include nowhere.conf\n", &["can't open config file 'nowhere.conf'", "bad.conf, line 1"]),
        ("requirepass \"open\n", &["line 1, directive 'requirepass'", "Unbalanced quotes"]),
        ("rename-command NOSUCH x\n", &["line 1, directive 'rename-command'", "No such command"]),
        ("user bob on +nosuch\n", &["+nosuch", "bad.conf, line 1"]),
        ("user bob on %Q~x\n", &["%Q~x", "bad.conf, line 1, directive 'user'"]),
        ("aclfile users.acl\n", &["users.acl:1", "nosuch"]),
        ("aclfile nowhere.acl\n", &["nowhere.acl", "No such file"]),
        ("dir /nonexistent\n", &["line 1, directive 'dir'", "No such file"]),
        ("logfile nowhere/x.log\n", &["Can't open the log file"]),
        (
            "tls-port 7\ntls-cert-file nowhere.crt\ntls-key-file nowhere.key\ntls-auth-clients no\n",
            &["nowhere"],
        ),
        ("loadmodule x.so\n", &["no modules", "line 1, directive 'loadmodule'"]),
        ("cluster-enabled yes\nport 60000\n", &["port 60000 is too high for a cluster"]),
        ("cluster-enabled yes\nreplicaof 127.0.0.1 1\n", &["not allowed in cluster mode"]),
        ("rdma-port 6379\n", &["No RDMA building support.", "line 1, directive 'rdma-port'"]),
        ("locale-collate nosuch\n", &["Invalid locale name", "line 1, directive 'locale-collate'"]),
    ] {
        let output = folder.check(&folder.write("bad.conf", text));
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}{error}");
        for word in wanted {
            assert!(error.contains(word), "{text}lacks {word:?}:\n{error}");
        }
    }
    assert_eq!(folder.names(), ["bad.conf", "included.conf", "users.acl"]);
}

/// What the machine does not grant is found without trying it, in the words of a server that tries it.
#[test]
fn what_the_machine_refuses_is_told_as_at_the_start() {
    let folder = Folder::new("refused");
    folder.write("taken", "");
    let certificates = Certificates::new();
    let tls = certificates.options().join(" ").replace(" --", "\n").replace("--", "");
    let port = free_port();
    for (text, wanted) in [
        ("port PORT\nbind nosuch.invalid\n".to_owned(), &["Could not resolve", "nosuch.invalid:PORT"][..]),
        (
            "port PORT\nbind 192.0.2.1\n".to_owned(),
            &["Could not listen on 192.0.2.1:PORT", "no network interface"],
        ),
        (
            "port PORT\nbind 127.0.0.1 127.0.0.1\n".to_owned(),
            &["127.0.0.1:PORT", "port has this address twice"],
        ),
        ("port PORT\nhttp-port PORT\n".to_owned(), &["PORT: port and http-port have the same port"]),
        (format!("port PORT\ntls-port PORT\n{tls}\n"), &["PORT: port and tls-port have the same port"]),
        (
            "port 0\nhttp-port PORT\nhttp-bind \"\"\n".to_owned(),
            &["HTTP port PORT", "http-bind names no address"],
        ),
        ("port PORT\nunixsocket nowhere/x\n".to_owned(), &["nowhere/x: No such file or directory"]),
        ("port PORT\nunixsocket taken/x\n".to_owned(), &["taken/x: Not a directory"]),
        ("port PORT\nunixsocket x\nunixsocketgroup nosuch\n".to_owned(), &["there is no group 'nosuch'"]),
        (
            "port PORT\nappendonly yes\nappenddirname taken\n".to_owned(),
            &["Can't open or create", folder.0.to_str().unwrap(), "Not a directory"],
        ),
    ] {
        let file = folder.write("refused.conf", &text.replace("PORT", &port.to_string()));
        for arguments in [&["--check-config", file.to_str().unwrap()][..], &[file.to_str().unwrap()]] {
            let output = folder.run(arguments);
            let told = [output.stderr, output.stdout].concat();
            let told = String::from_utf8(told).unwrap();
            assert_eq!(output.status.code(), Some(1), "{arguments:?} {text}{told}");
            for word in wanted {
                let word = word.replace("PORT", &port.to_string());
                assert!(told.contains(&word), "{arguments:?} {text}lacks {word:?}:\n{told}");
            }
            assert!(!told.contains("os error"), "{told}");
        }
    }
    assert_eq!(folder.names(), ["refused.conf", "taken"]);
}

/// A folder in which any user may run the server.
fn everyones(name: &str) -> Folder {
    let folder = Folder::new(name);
    copy_program(&folder.0.join("server"));
    std::fs::set_permissions(&folder.0, Permissions::from_mode(0o777)).unwrap();
    folder
}

/// A line of the shell in the folder, by a user whom permissions concern.
fn by_a_user(folder: &Folder, line: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(&folder.0);
    if rustix::process::geteuid().is_root() {
        command.uid(65534).gid(65534);
    }
    command
}

#[test]
fn a_directory_that_cannot_be_written_to_is_told() {
    let folder = everyones("closed");
    let data = folder.0.join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::set_permissions(&data, Permissions::from_mode(0o555)).unwrap();
    let check = |options: &str| {
        let line = format!("./server --check-config --dir data {options}");
        let output = by_a_user(&folder, &line).output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let denied = format!("{}: Permission denied\n", data.display());
    let warning = format!("No snapshot can be saved in the working directory {denied}");
    assert_eq!(check(""), (true, warning));
    assert_eq!(check("--save ''"), (true, String::new()));
    let log =
        format!("Can't open or create append-only dir {}/appendonlydir: Permission denied\n", data.display());
    assert_eq!(check("--appendonly yes"), (false, log.clone()));
    let start = format!("./server --dir data --appendonly yes --port {}", free_port());
    let output = by_a_user(&folder, &start).output().unwrap();
    assert_eq!((output.status.success(), String::from_utf8(output.stderr).unwrap()), (false, log));
    // A socket's directory likewise.
    let refusal = format!("Could not listen on {}/x: Permission denied\n", data.display());
    assert_eq!(check("--save '' --unixsocket x"), (false, refusal));
}

/// The umask may deny a file to others, and not to the server that writes it.
#[test]
fn a_umask_that_denies_everything_leaves_a_log_that_can_be_opened_again() {
    let folder = everyones("umask");
    let line = format!("umask 0777; exec ./server --port {} --logfile server.log", free_port());
    let mut server = by_a_user(&folder, &line).spawn().unwrap();
    let log = folder.0.join("server.log");
    let has = |text: &str| std::fs::read_to_string(&log).is_ok_and(|log| log.contains(text));
    process::eventually("it starts", || has("Ready to accept"));
    assert_eq!(std::fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o600);
    let pid = rustix::process::Pid::from_child(&server);
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    process::eventually("the log is opened again", || has("the log file is reopened"));
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(server.wait().unwrap().success());
}

#[test]
fn what_has_no_effect_is_told() {
    let folder = Folder::new("warned");
    let output = folder.check(&folder.write("warned.conf", "activedefrag yes\nactiverehashing yes\n"));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && told.lines().count() == 1, "{told}");
    assert!(
        told.starts_with("activedefrag has no effect. Active defragmentation is not supported yet"),
        "{told}"
    );
}

#[test]
fn the_file_that_is_printed_is_a_good_one() {
    let folder = Folder::new("printed");
    let printed = folder.run(&["--print-config"]);
    let file = folder.write("printed.conf", std::str::from_utf8(&printed.stdout).unwrap());
    let output = folder.check(&file);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

/// The server's options and the names of links run the same tools.
#[test]
fn files_are_checked_under_either_name() {
    let folder = Folder::new("tools");
    std::fs::write(folder.0.join("good.rdb"), b"REDIS0011\xff\0\0\0\0\0\0\0\0").unwrap();
    folder.write("bad.rdb", "REDIS0011x");
    folder.write("good.aof", "*1\r\n$4\r\nPING\r\n");
    folder.write("bad.aof", "*1\r\n$4\r\nPI");
    for (tool, arguments, code, usage) in [
        ("check-rdb", &["good.rdb"][..], 0, ""),
        ("check-rdb", &["good.rdb", "--stats", "--format", "csv"], 0, ""),
        ("check-rdb", &["bad.rdb"], 1, ""),
        ("check-rdb", &["missing.rdb"], 1, ""),
        ("check-rdb", &["--version"], 0, ""),
        ("check-rdb", &[], 1, "<rdb-file-name>"),
        ("check-aof", &["good.aof"], 0, ""),
        ("check-aof", &["bad.aof"], 1, ""),
        ("check-aof", &["--truncate-to-timestamp", "x", "good.aof"], 1, "[--fix|"),
        ("check-aof", &[], 1, "[--fix|"),
    ] {
        let option = format!("--{tool}");
        let by_option = folder.run(&[&[option.as_str()], arguments].concat());
        let by_name = Command::new(env!("CARGO_BIN_EXE_warmline-server"))
            .arg0(format!("warmline-{tool}"))
            .args(arguments)
            .current_dir(&folder.0)
            .output()
            .unwrap();
        assert_eq!(by_option.status.code(), Some(code), "{option} {arguments:?}: {by_option:?}");
        assert_eq!(by_name.status.code(), Some(code), "{tool} {arguments:?}: {by_name:?}");
        assert_eq!(by_option.stdout, by_name.stdout, "{option} {arguments:?}");
        if !usage.is_empty() {
            let told = String::from_utf8(by_option.stderr).unwrap();
            assert!(told.starts_with(&format!("Usage: warmline-server {option} {usage}")), "{told}");
        }
    }
}

#[test]
fn mistyped_options_are_told_with_what_they_were_meant_to_be() {
    let folder = Folder::new("mistyped");
    let told = |arguments: &[&str]| {
        let output = folder.run(arguments);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let file = folder.write("bad.conf", "maxmemry 1gb\n").display().to_string();
    for (arguments, meant) in [
        (&["--check-config", &file][..], Some("maxmemory")),
        (&[&file], Some("maxmemory")),
        (&["--prot", "6379"], Some("port")),
        (&["--chek-rdb", "dump.rdb"], Some("check-rdb")),
        (&["--check-config", "--rename-comand", "a", "b"], Some("rename-command")),
        (&["--rename-command", "a"], None),
        (&["--nonsense", "1"], None),
    ] {
        let error = told(arguments);
        let reason = match meant {
            Some(meant) => format!("\nBad directive or wrong number of arguments. Did you mean '{meant}'?\n"),
            None => "\nBad directive or wrong number of arguments\n".to_owned(),
        };
        assert!(error.contains(&reason), "{arguments:?}: {error}");
    }
}

/// Whoever rotates logs finds the rest in a new file of the same name.
/// The check is complete even if its output has no reader.
#[test]
fn readers_may_leave_early() {
    let folder = Folder::new("unread");
    let good = "*1\r\n$4\r\nPING\r\n";
    let broken = folder.write("broken.aof", &format!("{good}*2\r\n$3"));
    folder.write("answer", "y\n");
    for (name, arguments) in [
        ("warmline-server", &["--version"][..]),
        ("warmline-server", &["--help"]),
        ("warmline-server", &["--print-config"]),
        ("warmline-server", &["--check-config"]),
        ("warmline-check-rdb", &["--version"]),
        ("warmline-check-aof", &["--fix", "broken.aof"]),
    ] {
        let unread = || std::io::pipe().unwrap().1;
        let status = Command::new(env!("CARGO_BIN_EXE_warmline-server"))
            .arg0(name)
            .args(arguments)
            .current_dir(&folder.0)
            .stdin(std::fs::File::open(folder.0.join("answer")).unwrap())
            .stdout(unread())
            .stderr(unread())
            .status();
        assert_eq!(status.unwrap().code(), Some(0), "{name} {arguments:?}");
    }
    assert_eq!(std::fs::read_to_string(broken).unwrap(), good);
}

#[test]
fn a_log_that_is_moved_away_begins_anew() {
    let folder = Folder::new("log");
    std::fs::create_dir(folder.0.join("data")).unwrap();
    let file = folder.write("log.conf", &format!("port {}\nlogfile server.log\ndir data\n", free_port()));
    let mut server = Command::new(env!("CARGO_BIN_EXE_warmline-server"))
        .arg(&file)
        .current_dir(&folder.0)
        .spawn()
        .unwrap();
    // Relative to `dir`, as all paths are.
    let log = folder.0.join("data/server.log");
    let has = |path: &Path, text: &str| std::fs::read_to_string(path).is_ok_and(|log| log.contains(text));
    let deadline = std::time::Instant::now() + process::PATIENCE;
    while !has(&log, "Ready to accept") {
        assert!(std::time::Instant::now() < deadline, "{:?}", std::fs::read_to_string(&log));
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let rotated = folder.0.join("data/server.log.1");
    std::fs::rename(&log, &rotated).unwrap();
    let pid = rustix::process::Pid::from_child(&server);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(server.wait().unwrap().success());
    assert!(has(&log, "bye bye") && !has(&rotated, "bye bye"));
    assert_eq!(folder.names(), ["data", "log.conf"]);
}
