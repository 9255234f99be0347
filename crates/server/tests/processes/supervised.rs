//! What a service manager hears of the process (`supervised`).

use crate::process::{PATIENCE, free_port};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A folder with the socket of a service manager; both go away with their test.
struct Manager {
    directory: PathBuf,
    socket: UnixDatagram,
}

impl Manager {
    fn new(name: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("warmline-supervised-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let socket = UnixDatagram::bind(directory.join("notify")).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Manager { directory, socket }
    }

    fn start(&self, variable: (&str, &str), options: &[&str]) -> Child {
        Command::new(env!("CARGO_BIN_EXE_warmline-server"))
            .args(["--dir", self.directory.to_str().unwrap()])
            .args(options)
            .env_remove("NOTIFY_SOCKET")
            .env(variable.0, variable.1)
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn hears(&self) -> String {
        let mut buffer = [0; 512];
        let len = self.socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..len].to_vec()).unwrap()
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn ask(port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(format!("{request}\r\nQUIT\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn systemd_hears_of_start_readiness_and_end() {
    let manager = Manager::new("systemd");
    let path = manager.directory.join("notify");
    let port = free_port().to_string();
    // Who is supervised stays in the foreground.
    let options = ["--supervised", "auto", "--daemonize", "yes", "--port", &port, "--save", "60", "1"];
    let mut server = manager.start(("NOTIFY_SOCKET", path.to_str().unwrap()), &options);
    assert_eq!(manager.hears(), "STATUS=Warmline is loading...\n");
    assert_eq!(manager.hears(), "STATUS=Ready to accept connections\nREADY=1\n");
    let port = port.parse().unwrap();
    assert!(ask(port, "INFO server").contains("process_supervised:systemd\r\n"));
    ask(port, "SHUTDOWN");
    assert_eq!(manager.hears(), "STOPPING=1\n");
    assert_eq!(manager.hears(), "STATUS=Saving the final RDB snapshot\n");
    assert!(server.wait().unwrap().success());
    assert!(manager.directory.join("dump.rdb").exists());
}

#[test]
fn a_replica_tells_when_it_follows_its_primary() {
    let manager = Manager::new("replica");
    let path = manager.directory.join("notify");
    let [port, replica_port] = [free_port().to_string(), free_port().to_string()];
    let nobody = ("NOTIFY_SOCKET_OF_NOBODY", "");
    let mut primary = manager.start(nobody, &["--port", &port, "--repl-diskless-sync-delay", "0"]);
    let options =
        ["--supervised", "systemd", "--port", &replica_port, "--replicaof", "127.0.0.1", &port, "--save", ""];
    let mut replica = manager.start(("NOTIFY_SOCKET", path.to_str().unwrap()), &options);
    assert_eq!(manager.hears(), "STATUS=Warmline is loading...\n");
    assert!(manager.hears().contains("read-only mode. Waiting for MASTER <-> REPLICA sync\nREADY=1\n"));
    assert!(manager.hears().starts_with("STATUS=PRIMARY <-> REPLICA sync: Finished with success."));
    for server in [&mut replica, &mut primary] {
        server.kill().unwrap();
        server.wait().unwrap();
    }
}

#[test]
fn upstart_sees_the_process_stop_itself() {
    let manager = Manager::new("upstart");
    let mut server = manager.start(("UPSTART_JOB", "warmline"), &["--supervised", "upstart", "--port", "0"]);
    let pid = rustix::process::Pid::from_child(&server);
    let options = rustix::process::WaitOptions::UNTRACED;
    let (_, status) = rustix::process::waitpid(Some(pid), options).unwrap().unwrap();
    assert!(status.stopped(), "{status:?}");
    server.kill().unwrap();
    assert_eq!(server.wait().unwrap().signal(), Some(9));
}
