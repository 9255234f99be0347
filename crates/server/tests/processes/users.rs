//! Users of a server in a process of its own: from lines of its configuration and from a file of their own, and back.

use crate::process::{self, Client, PATIENCE, Process, free_port, program};
use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// SHA-256 of `a`.
const DIGEST: &str = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb";

/// A folder with `server.conf`, and with files of users.
struct Folder(PathBuf);

impl Folder {
    fn new(config: &str) -> Folder {
        static FOLDERS: AtomicUsize = AtomicUsize::new(0);
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("warmline-users-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        let folder = Folder(path);
        folder.write("server.conf", &format!("save \"\"\n{config}"));
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn command(&self, port: u16) -> Command {
        let mut command = Command::new(program());
        command.args(["server.conf", "--port", &port.to_string()]).current_dir(&self.0);
        command
    }

    fn start(&self) -> Process {
        let port = free_port();
        let child = self.command(port).stdout(Stdio::null()).spawn().unwrap();
        let process = Process::adopt(child, port);
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(started.elapsed() < PATIENCE, "the server does not listen");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        process
    }

    /// What a server says that does not start.
    fn refusal(&self) -> String {
        let output = self.command(free_port()).output().unwrap();
        assert!(!output.status.success(), "the server starts");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn log_in(process: &Process, name: &str, password: &str) -> Client<TcpStream> {
    let mut client = process.connect();
    assert_eq!(client.ask(&format!("AUTH {name} {password}")), "OK");
    client
}

fn files_in(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn lines_of_the_configuration_make_users_and_are_written_back() {
    let folder = Folder::new(
        "user alice on >a ~* +@all -config|set\n\
         # a comment\n\
         user bob off (+get ~a) (%R~b +set)\n\
         user default on nopass ~* &* +@all\n",
    );
    let process = folder.start();
    let mut client = process.connect();
    let listed = client.ask("ACL LIST");
    assert_eq!(
        listed,
        format!(
            "[user alice on #{DIGEST} ~* resetchannels +@all -config|set \
             user bob off resetchannels -@all (~a resetchannels -@all +get) (%R~b resetchannels -@all +set) \
             user default on nopass ~* &* +@all]"
        )
    );
    assert_eq!(log_in(&process, "alice", "a").ask("ACL WHOAMI"), "alice");
    assert_eq!(client.ask("AUTH alice b"), "WRONGPASS invalid username-password pair or user is disabled.");
    // Quotes in a pattern are quotes in a line of words.
    client.send(&[b"ACL", b"SETUSER", b"carol's", b"on", b"~it's", b"(%R~\"'\\\"'\" +get)", b"~\\"]);
    assert_eq!(process::shown(&client.receive().unwrap()), "OK");
    assert_eq!(client.ask("ACL DELUSER bob"), "1");
    let before = client.ask("ACL LIST");
    assert_eq!(client.ask("CONFIG REWRITE"), "OK");
    drop(process);
    let text = folder.read("server.conf");
    assert!(text.contains("# a comment"), "{text}");
    let process = folder.start();
    assert_eq!(process.connect().ask("ACL LIST"), before, "{text}");
}

#[test]
fn requirepass_is_the_password_of_default() {
    let folder = Folder::new("requirepass a\n");
    let process = folder.start();
    let mut client = process.connect();
    assert_eq!(client.ask("GET x"), "NOAUTH Authentication required.");
    assert_eq!(client.ask("AUTH a"), "OK");
    assert_eq!(client.ask("ACL LIST"), format!("[user default on #{DIGEST} ~* &* +@all]"));
    assert_eq!(client.ask("ACL SETUSER default >b"), "OK");
    assert_eq!(process.connect().ask("AUTH b"), "OK");
    assert_eq!(client.ask("CONFIG SET requirepass c"), "OK");
    let mut other = process.connect();
    assert!(other.ask("AUTH a").starts_with("WRONGPASS"));
    assert!(other.ask("AUTH b").starts_with("WRONGPASS"));
    assert_eq!(other.ask("AUTH default c"), "OK");
}

#[test]
fn a_file_of_users_is_read_at_the_start_and_written_whole() {
    let folder = Folder::new("aclfile users.acl\n");
    folder.write("users.acl", "user alice on >a ~* &* +@all\n\n  user bob off\r\n");
    let process = folder.start();
    let mut client = process.connect();
    assert_eq!(client.ask("ACL USERS"), "[alice bob default]");
    assert_eq!(client.ask("ACL SETUSER carol on nopass ~it's"), "OK");
    let inode = fs::metadata(folder.path("users.acl")).unwrap().ino();
    assert_eq!(client.ask("ACL SAVE"), "OK");
    assert_ne!(fs::metadata(folder.path("users.acl")).unwrap().ino(), inode, "it is another file");
    assert_eq!(files_in(&folder.0), ["server.conf", "users.acl"]);
    let written = format!(
        "user alice on #{DIGEST} ~* &* +@all\nuser bob off resetchannels -@all\n\
         user carol on nopass ~it's resetchannels -@all\nuser default on nopass ~* &* +@all\n"
    );
    assert_eq!(folder.read("users.acl"), written);
    assert_eq!(client.ask("ACL LOAD"), "OK");
    assert_eq!(client.ask("ACL SAVE"), "OK");
    assert_eq!(folder.read("users.acl"), written);
    // Where users have a file, the configuration has none.
    assert_eq!(client.ask("CONFIG REWRITE"), "OK");
    assert!(!folder.read("server.conf").contains("user "), "{}", folder.read("server.conf"));
    // It cannot be written where there is no folder.
    fs::remove_dir_all(&folder.0).unwrap();
    assert!(client.ask("ACL SAVE").starts_with("ERR There was an error trying to save the ACLs."));
    assert!(client.ask("ACL LOAD").starts_with("ERR Error loading ACLs, opening file 'users.acl': "));
}

#[test]
fn loading_closes_clients_of_users_who_have_gone_or_may_no_longer_listen() {
    let folder = Folder::new("aclfile users.acl\n");
    let all = "on nopass ~* &* +@all";
    folder.write("users.acl", &format!("user gone {all}\nuser narrowed {all}\nuser same {all}\n"));
    let process = folder.start();
    let mut client = process.connect();
    let mut gone = log_in(&process, "gone", "x");
    let (mut narrowed, mut silent) = (log_in(&process, "narrowed", "x"), log_in(&process, "narrowed", "x"));
    let (mut same, mut allowed) = (log_in(&process, "same", "x"), log_in(&process, "narrowed", "x"));
    narrowed.ask("SUBSCRIBE b");
    allowed.ask("SUBSCRIBE a1");
    same.ask("PSUBSCRIBE *");
    folder.write(
        "users.acl",
        &format!("user narrowed on nopass ~* +@all &a*\nuser same {all}\nuser new {all}\n"),
    );
    assert_eq!(client.ask("ACL LOAD"), "OK");
    assert!(gone.is_closed_by_server());
    assert!(narrowed.is_closed_by_server());
    assert_eq!(silent.ask("ACL WHOAMI"), "narrowed");
    assert_eq!(client.ask("PUBLISH a1 x"), "2");
    assert_eq!(log_in(&process, "new", "x").ask("ACL WHOAMI"), "new");
    drop((same, allowed));
    // The loading client gets its reply before it is closed itself.
    let mut own = log_in(&process, "new", "x");
    folder.write("users.acl", "");
    assert_eq!(own.ask("ACL LOAD"), "OK");
    assert!(own.is_closed_by_server());
    assert_eq!(client.ask("ACL LIST"), "[user default on nopass ~* &* +@all]");
}

#[test]
fn a_file_with_errors_changes_nothing_and_they_are_all_told() {
    let folder = Folder::new("aclfile users.acl\n");
    folder.write("users.acl", "user alice on nopass ~* &* +@all\n");
    let process = folder.start();
    let mut client = process.connect();
    let before = client.ask("ACL LIST");
    folder.write(
        "users.acl",
        "user bob on\nusers carol\nuser dave on +nosuch %Q~a +@nosuch ~a&\nuser dave\nuser e (+get\nuser\nuser \tf\nuser bob\n",
    );
    assert_eq!(
        client.ask("ACL LOAD"),
        "ERR users.acl:2 should start with user keyword followed by the username. \
         users.acl:3: Error in applying operation '+nosuch': Unknown command or category name in ACL. \
         users.acl:3: Syntax error. \
         users.acl:3: Error in applying operation '+@nosuch': Unknown command or category name in ACL. \
         WARNING: Duplicate user 'dave' found on line 4. \
         users.acl:5: Unmatched parenthesis in selector definition.\
         users.acl:6 should start with user keyword followed by the username. \
         'users.acl:7: username '\tf' contains invalid characters. \
         WARNING: Duplicate user 'bob' found on line 8. \
         WARNING: ACL errors detected, no change to the previously active ACL rules was performed"
    );
    assert_eq!(client.ask("ACL LIST"), before);
}

/// Who is described in an included file is not copied into the main one as long as that is true; who has changed since is
/// described anew behind it, and that counts.
#[test]
fn users_of_included_files_survive_a_rewrite() {
    let included = "user alice on >a ~* +@all\nuser bob on >a ~b +get\nuser carol on >a +@all\n\
                    user default on nopass ~* &* +@all\n";
    let folder = Folder::new("user erin on >a ~e +get\ninclude included.conf\nuser frank on >a ~f +get\n");
    folder.write("included.conf", included);
    let mut process = folder.start();
    let mut client = process.connect();
    assert_eq!(client.ask("CONFIG REWRITE"), "OK");
    let main = folder.read("server.conf");
    assert!(!["alice", "bob", "carol", "default"].iter().any(|name| main.contains(name)), "{main}");
    for change in ["SETUSER bob +set", "DELUSER carol", "SETUSER dave on >a ~* +ping", "SETUSER frank off"] {
        assert!(matches!(client.ask(&format!("ACL {change}")).as_str(), "OK" | "1"), "{change}");
    }
    let mut listed = client.ask("ACL LIST");
    let mut rewritten = String::new();
    for round in 0..3 {
        assert_eq!(client.ask("CONFIG REWRITE"), "OK");
        let text = folder.read("server.conf");
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with("port "));
        let main: String = lines.map(|line| format!("{line}\n")).collect();
        assert!(!main.contains("alice") && main.matches("user bob ").count() == 1, "{main}");
        if round > 1 {
            assert_eq!(main, rewritten);
        }
        rewritten = main;
        drop(process);
        process = folder.start();
        client = process.connect();
        let now = client.ask("ACL LIST");
        // A user who was deleted exists again, without rights.
        let carol = now.split_once("user carol ").unwrap().1;
        assert!(carol.starts_with("off resetchannels -@all"), "{now}");
        assert!(client.ask("AUTH carol a").starts_with("WRONGPASS"));
        if round == 0 {
            assert_eq!(now.replace("user carol off resetchannels -@all ", ""), listed);
            listed = now;
        } else {
            assert_eq!(now, listed);
        }
    }
    assert_eq!(folder.read("included.conf"), included);
}

#[test]
fn wrong_users_keep_the_server_from_starting() {
    for (config, complaint) in [
        ("user a on %Q~x\n", "Error in user declaration '%Q~x': Syntax error"),
        ("user a on (+get\n", "Error in user declaration '(+get': Unmatched parenthesis"),
        (
            "user a\nuser b\nuser a\n",
            "Error in user declaration 'a': Duplicate user found. A user can only be",
        ),
        ("user a on +nosuch\n", "Error loading ACL rule '+nosuch' for the user named 'a': Unknown command"),
        ("user \"a b\" on\n", "Spaces not allowed in ACL usernames"),
        ("user\n", "Bad directive or wrong number of arguments"),
        ("user a on\naclfile users.acl\n", "at the same setting an ACL file path is invalid"),
        (
            "aclfile users.acl\n",
            "because of ACL errors: Error loading ACLs, opening file 'users.acl': No such file",
        ),
    ] {
        let refusal = Folder::new(config).refusal();
        assert!(refusal.contains(complaint), "{config}{refusal}");
    }
    let folder = Folder::new("aclfile users.acl\n");
    folder.write("users.acl", "user a on +nosuch\n");
    let refusal = folder.refusal();
    assert!(refusal.contains("startup because of ACL errors: users.acl:1: Error in applying"), "{refusal}");
}

#[test]
fn a_transaction_is_no_way_to_try_many_passwords() {
    let folder = Folder::new("user a on >right +@all\n");
    let process = folder.start();
    let mut client = process.connect();
    assert_eq!(client.ask("MULTI"), "OK");
    for _ in 0..300 {
        assert_eq!(client.ask("AUTH a wrong"), "QUEUED");
    }
    assert_eq!(client.ask("AUTH a right"), "QUEUED");
    assert_eq!(client.ask("ACL WHOAMI"), "QUEUED");
    let answers = client.ask("EXEC");
    assert_eq!(answers.matches("WRONGPASS").count(), 301, "{answers}");
    assert!(answers.ends_with("default]"), "{answers}");
    assert!(client.is_closed_by_server());
    assert_eq!(process.connect().ask("PING"), "PONG");
}

#[test]
fn options_that_are_taken_back_leave_the_passwords_of_default_as_they_were() {
    let folder = Folder::new("");
    folder.write("appendonlydir", "in the way");
    let process = folder.start();
    let mut client = process.connect();
    assert_eq!(client.ask("ACL SETUSER default resetpass >secret"), "OK");
    assert!(client.ask("CONFIG SET requirepass new appendonly yes").starts_with("ERR CONFIG SET failed"));
    assert!(process.connect().ask("PING").starts_with("NOAUTH"));
    assert!(process.connect().ask("AUTH new").starts_with("WRONGPASS"));
    assert_eq!(process.connect().ask("AUTH secret"), "OK");
}

#[test]
fn a_file_of_users_keeps_its_mode_and_stays_a_link() {
    let folder = Folder::new("aclfile users.acl\n");
    folder.write("target.acl", "user a on nopass +@all\n");
    fs::set_permissions(folder.path("target.acl"), fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink("target.acl", folder.path("users.acl")).unwrap();
    let process = folder.start();
    assert_eq!(
        process.connect().ask("ACL SETUSER b on nopass (~a) +get)"),
        "ERR Error in ACL SETUSER modifier '+get)': Unknown command or category name in ACL"
    );
    assert_eq!(process.connect().ask("ACL SAVE"), "OK");
    assert!(fs::symlink_metadata(folder.path("users.acl")).unwrap().is_symlink());
    assert_eq!(fs::metadata(folder.path("target.acl")).unwrap().mode() & 0o777, 0o600);
    assert!(folder.read("target.acl").contains("user default"));
}

#[test]
fn patterns_that_end_in_a_bracket_are_read_back_as_they_were() {
    let folder = Folder::new("aclfile users.acl\n");
    folder.write("users.acl", "");
    let process = folder.start();
    let mut client = process.connect();
    assert_eq!(shown_set(&mut client, &[b"b", b"on", b"nopass", b"(~a) +get)"]), "OK");
    let users = client.ask("ACL LIST");
    assert_eq!(client.ask("ACL SAVE"), "OK");
    assert_eq!(client.ask("ACL LOAD"), "OK");
    assert_eq!(client.ask("ACL LIST"), users);
}

fn shown_set(client: &mut Client<TcpStream>, rules: &[&[u8]]) -> String {
    client.send(&[&[&b"ACL"[..], b"SETUSER"], rules].concat());
    process::shown(&client.receive().unwrap())
}

#[test]
fn a_start_that_fails_shows_no_password() {
    for line in ["user a on >topsecret nosuch", "user a on <topsecret"] {
        let refusal = Folder::new(&format!("{line}\n")).refusal();
        assert!(!refusal.contains("topsecret") && refusal.contains("redacted"), "{refusal}");
    }
}

#[test]
fn a_redirection_ends_when_its_target_becomes_another_user() {
    let folder = Folder::new("user high on nopass ~* &* +@all -debug\nuser low on nopass ~p* &* +@all\n");
    let process = folder.start();
    let mut target = log_in(&process, "high", "x");
    target.ask("HELLO 3");
    let id = target.ask("CLIENT ID");
    let mut tracker = log_in(&process, "high", "x");
    assert_eq!(tracker.ask(&format!("CLIENT TRACKING ON BCAST REDIRECT {id}")), "OK");
    assert_eq!(target.ask("AUTH low x"), "OK");
    assert_eq!(process.connect().ask("SET x-secret 1"), "OK");
    assert_eq!(target.ask("PING"), "PONG", "no invalidation comes before it");
}
