//! How a server that runs shows itself to the machine: its pid file, its title in `ps`, a word to systemd.

use crate::config::{Config, Supervised};
use crate::sys::process;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

/// Where a daemon without a `pidfile` leaves its number.
const PID_FILE: &str = "/var/run/warmline.pid";

/// The file that holds the process's number; removed when the server stops.
pub struct PidFile {
    path: PathBuf,
}

impl PidFile {
    /// Writes the file if the configuration asks for one. Failing to is worth a line in the log, no more.
    pub fn write(config: &Config) -> Option<Self> {
        let path = match &config.pidfile {
            Some(path) => PathBuf::from(OsStr::from_bytes(path)),
            None if config.daemonize => PathBuf::from(PID_FILE),
            None => return None,
        };
        match std::fs::write(&path, format!("{}\n", std::process::id())) {
            Ok(()) => Some(PidFile { path }),
            Err(error) => {
                log::warn!("Writing the pid file {}: {error}", path.display());
                None
            }
        }
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // Nothing is lost if it is gone already.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The kinds of sockets that the server listens on.
pub fn listener_kinds(config: &Config) -> impl Iterator<Item = &'static str> {
    let tcp = (config.port != 0).then_some("tcp");
    let unix = config.unixsocket.is_some().then_some("unix");
    tcp.into_iter().chain(unix)
}

/// Shows `proc-title-template` in place of the command line.
pub fn set_title(config: &Config) {
    process::set_title(title(config).as_bytes());
}

fn title(config: &Config) -> String {
    let address = match config.bind.first() {
        Some(event_loop) if config.port != 0 => {
            format!("{}:{}", event_loop.trim_start_matches('-'), config.port)
        }
        _ => config.unixsocket.as_ref().map_or_else(String::new, |path| text(path)),
    };
    let mode = if config.cluster_enabled { "[cluster]" } else { "" };
    let program = std::env::args_os().next().unwrap_or_else(|| "warmline-server".into());
    let variables = [
        ("{title}", text(program.as_bytes())),
        ("{listen-addr}", address),
        ("{server-mode}", mode.to_owned()),
        ("{port}", config.port.to_string()),
        ("{tls-port}", config.tls_port.to_string()),
        ("{unixsocket}", config.unixsocket.as_ref().map_or_else(String::new, |path| text(path))),
        (
            "{config-file}",
            config.config_file.as_ref().map_or_else(String::new, |path| path.display().to_string()),
        ),
    ];
    let mut title = text(&config.proc_title_template);
    for (name, value) in variables {
        title = title.replace(name, &value);
    }
    title.trim().to_owned()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Tells systemd that the server is ready, where it waits for that.
pub fn notify_supervisor(config: &Config) {
    if !matches!(config.supervised, Supervised::Systemd | Supervised::Auto) {
        return;
    }
    let Some(address) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let sent = UnixDatagram::unbound()
        .and_then(|socket| socket.send_to(b"STATUS=Ready to accept connections\nREADY=1\n", &address));
    if let Err(error) = sent {
        log::warn!("Telling systemd that the server is ready: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_title_names_where_the_server_listens() {
        let mut config = Config { port: 7000, bind: vec!["127.0.0.1".into()], ..Config::default() };
        assert!(title(&config).ends_with(" 127.0.0.1:7000"));
        config.proc_title_template = b"x {port} {server-mode}".to_vec();
        assert_eq!(title(&config), "x 7000");
    }
}
