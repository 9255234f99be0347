//! The server's binary: `warmline-server [file | -] [--option value ...]`.

use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    match arguments.first().and_then(|first| first.to_str()) {
        Some("-v" | "--version") => println!("{}", server::start::version_line()),
        Some("-h" | "--help") => print!("{}", server::start::USAGE),
        _ => {
            if let Err(error) = server::start::serve(&arguments) {
                eprintln!("{error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
