//! `--rdb` and `--functions-rdb`: receives a snapshot of the server's data as a replica does, and writes it to a
//! file.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use client::{print_bytes, system_text};

use crate::Failure;
use crate::session::Session;
use crate::sync::{self, SnapshotEnd, Start};

/// The destination of a snapshot. A file is renamed when it is complete, so an existing one stays until then.
enum Target {
    Stdout,
    /// A pipe or a device.
    Stream(File),
    File {
        file: File,
        unfinished: PathBuf,
        path: PathBuf,
    },
}

impl Target {
    fn open(path: &Path) -> io::Result<Target> {
        if path == Path::new("-") {
            return Ok(Target::Stdout);
        }
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return File::options().write(true).open(path).map(Target::Stream);
        }
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(format!(".{}.part", std::process::id()));
        let unfinished = PathBuf::from(unfinished);
        // Created exclusively, with the permissions of the server's files.
        let file = File::options().write(true).create_new(true).mode(0o640).open(&unfinished)?;
        Ok(Target::File { file, unfinished, path: path.to_owned() })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Target::Stdout => {
                print_bytes(bytes);
                Ok(())
            }
            Target::Stream(file) | Target::File { file, .. } => file.write_all(bytes),
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Target::Stdout | Target::Stream(_) => Ok(()),
            Target::File { file, unfinished, path } => {
                file.sync_all()?;
                fs::rename(unfinished, path)
            }
        }
    }

    fn give_up(self) {
        if let Target::File { unfinished, .. } = self {
            // The original error is reported.
            let _gone = fs::remove_file(unfinished);
        }
    }
}

pub fn run(session: &mut Session, path: &Path, functions_only: bool) -> Result<(), Failure> {
    session.connect()?;
    sync::introduce(session)?;
    sync::send_setting(session, "rdb-only", "1")?;
    if functions_only && !sync::send_setting(session, "rdb-filter-only", "functions")? {
        let text = "Failed requesting functions only RDB from server, aborting";
        return Err(Failure::Reply(text.to_owned()));
    }
    transfer(session, path)
}

/// Writes the snapshot that the server sends for SYNC, which ends the connection.
pub fn transfer(session: &mut Session, path: &Path) -> Result<(), Failure> {
    let connection = session.connection()?;
    let Start::Full(end) = sync::begin(connection, &["SYNC"])? else {
        return Err(Failure::Reply("SYNC with primary failed: no snapshot is sent".to_owned()));
    };
    let name = path.display();
    match &end {
        SnapshotEnd::Length(len) => eprint_line!("SYNC sent to primary, writing {len} bytes to '{name}'"),
        SnapshotEnd::Marker(_) => {
            eprint_line!("SYNC sent to primary, writing bytes of bulk transfer until EOF marker to '{name}'");
        }
    }
    let failed = |doing: &str, error: &io::Error| {
        Failure::Usage(format!("{doing} '{}': {}", path.display(), system_text(error)))
    };
    let mut target = Target::open(path).map_err(|error| failed("Error opening", &error))?;
    let len = match sync::receive_snapshot(connection, &end, |bytes| target.write(bytes)) {
        Ok(len) => len,
        Err(error) => {
            target.give_up();
            return Err(error);
        }
    };
    // The server need not wait for the local disk.
    session.disconnect();
    target.finish().map_err(|error| failed("Fail to fsync", &error))?;
    match end {
        SnapshotEnd::Length(_) => eprint_line!("Transfer finished with success."),
        SnapshotEnd::Marker(_) => eprint_line!("Transfer finished with success after {len} bytes"),
    }
    Ok(())
}
