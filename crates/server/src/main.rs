//! The server's binary, `warmline-server [file | -] [--option value ...]`; under names that end so, or with them as its
//! first option, also the tools `check-rdb` and `check-aof`.

#![deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap)]

use server::persist::{check_aof, check_rdb};
use std::ffi::OsString;
use std::fmt::Display;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    let called = arguments.next().unwrap_or_default();
    let arguments: Vec<OsString> = arguments.collect();
    let name = Path::new(&called).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if name.ends_with("check-rdb") {
        return check_rdb_tool(name, &arguments);
    }
    if name.ends_with("check-aof") {
        return check_aof_tool(name, &arguments);
    }
    match arguments.first().and_then(|first| first.to_str()) {
        Some("-v" | "--version") => print_out(&format!("{}\n", server::start::version_line())),
        Some("-h" | "--help") => print_out(server::start::USAGE),
        Some("--print-config") => print_out(&server::config::explained_file()),
        Some("--check-config") => return check_config(&arguments[1..]),
        Some("--check-health") => return check_health(&arguments[1..]),
        Some("--check-rdb") => return check_rdb_tool("warmline-server --check-rdb", &arguments[1..]),
        Some("--check-aof") => return check_aof_tool("warmline-server --check-aof", &arguments[1..]),
        _ => {
            if let Err(error) = server::start::serve(&arguments) {
                eprint_line(&error);
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// Writes to stdout; ignores a closed pipe.
fn print_out(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Writes a line to stderr; ignores a closed pipe.
fn eprint_line(what: &dyn Display) {
    let _ = writeln!(std::io::stderr(), "{what}");
}

fn check_config(arguments: &[OsString]) -> ExitCode {
    match server::start::check(arguments) {
        Ok(warnings) => {
            warnings.iter().for_each(|warning| eprint_line(&warning));
            print_out("The configuration is good.\n");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprint_line(&error);
            ExitCode::FAILURE
        }
    }
}

fn check_health(arguments: &[OsString]) -> ExitCode {
    let process_id = match arguments {
        [] => Some(None),
        [number] => number.to_str().and_then(|digits| digits.parse().ok()).map(Some),
        _ => None,
    };
    let Some(process_id) = process_id else {
        eprint_line(&"Usage: warmline-server --check-health [process-id]");
        return ExitCode::FAILURE;
    };
    match server::start::check_health(process_id) {
        Ok(listeners) => {
            listeners.iter().for_each(|listener| print_out(&format!("{listener} answers.\n")));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprint_line(&error);
            ExitCode::FAILURE
        }
    }
}

fn check_rdb_tool(name: &str, arguments: &[OsString]) -> ExitCode {
    const USAGE: &str = "<rdb-file-name> [--format table|info|csv] [--stats] [--output <file>]";
    exit_code(name, USAGE, check_rdb_of(arguments))
}

fn check_aof_tool(name: &str, arguments: &[OsString]) -> ExitCode {
    const USAGE: &str = "[--fix|--truncate-to-timestamp $timestamp] <file.manifest|file.aof>";
    exit_code(name, USAGE, check_aof_of(arguments))
}

/// `is_sound` is `None` if the arguments make no sense.
fn exit_code(name: &str, usage: &str, is_sound: Option<bool>) -> ExitCode {
    match is_sound {
        Some(true) => ExitCode::SUCCESS,
        Some(false) => ExitCode::FAILURE,
        None => {
            eprint_line(&format_args!("Usage: {name} {usage}"));
            ExitCode::FAILURE
        }
    }
}

fn check_rdb_of(arguments: &[OsString]) -> Option<bool> {
    match arguments {
        [option] if option == "-v" || option == "--version" => {
            print_out(&format!("{}\n", server::start::version_line()));
            Some(true)
        }
        [path, options @ ..] => {
            let wanted = check_rdb::ReportOptions::parse(options)?;
            Some(check_rdb::check_and_describe(Path::new(path), &wanted))
        }
        [] => None,
    }
}

fn check_aof_of(arguments: &[OsString]) -> Option<bool> {
    let (path, options) = match arguments {
        [option] if option == "-v" || option == "--version" => {
            print_out(&format!("{}\n", server::start::version_line()));
            return Some(true);
        }
        [path] => (path, check_aof::CheckOptions::default()),
        [option, path] if option == "--fix" => (path, check_aof::CheckOptions { fix: true, until_s: None }),
        [option, until_s, path] if option == "--truncate-to-timestamp" => {
            let until_s = until_s.to_str().and_then(|digits| digits.parse().ok())?;
            (path, check_aof::CheckOptions { fix: false, until_s: Some(until_s) })
        }
        _ => return None,
    };
    Some(check_aof::check(Path::new(path), options))
}
