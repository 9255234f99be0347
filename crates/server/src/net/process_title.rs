//! The process's title: `proc-title-template`, expanded.

use crate::config::Config;
use crate::sys::title;
use std::os::unix::ffi::OsStrExt;

/// Shows `proc-title-template` in place of the command line, if configured.
pub fn show_title(config: &Config) {
    if config.set_proc_title {
        title::show(expanded(config).as_bytes());
    }
}

fn expanded(config: &Config) -> String {
    let address = match config.bind.first() {
        Some(host) if config.port != 0 => {
            format!("{}:{}", host.trim_start_matches('-'), config.port)
        }
        _ => config.unixsocket.as_ref().map_or_else(String::new, |path| text(path)),
    };
    let variables = [
        ("{title}", text(title::program().as_bytes())),
        ("{listen-addr}", address),
        // Only cluster and Sentinel modes are shown; this server has neither.
        ("{server-mode}", String::new()),
        ("{port}", config.port.to_string()),
        ("{tls-port}", config.tls_port.to_string()),
        ("{unixsocket}", config.unixsocket.as_ref().map_or_else(String::new, |path| text(path))),
        (
            "{config-file}",
            config.config_file.as_ref().map_or_else(String::new, |path| path.display().to_string()),
        ),
    ];
    let mut expanded = text(&config.proc_title_template);
    for (name, value) in variables {
        expanded = expanded.replace(name, &value);
    }
    expanded.trim().to_owned()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_title_names_where_the_server_listens() {
        let mut config = Config { port: 7000, bind: vec!["127.0.0.1".into()], ..Config::default() };
        assert!(expanded(&config).ends_with("127.0.0.1:7000"));
        config.proc_title_template = b"x {port} {server-mode}".to_vec();
        assert_eq!(expanded(&config), "x 7000");
    }
}
