//! The start of replication: the reply to SYNC or PSYNC, and the snapshot after it.

use std::io;

use crate::Failure;
use crate::connection::Connection;
use crate::progress::Progress;
use crate::session::Session;

const MARKER_LEN: usize = 40;
const LINE_LEN_MAX: usize = 4096;
const READ_LEN: usize = 64 * 1024;

/// The end of a snapshot.
#[derive(Debug, PartialEq)]
pub enum SnapshotEnd {
    /// After this number of bytes.
    Length(u64),
    /// Before this marker.
    Marker([u8; MARKER_LEN]),
}

/// The primary's reply to SYNC or PSYNC.
#[derive(Debug, PartialEq)]
pub enum Start {
    Full(SnapshotEnd),
    /// No snapshot: the stream continues.
    Partial,
}

/// The version that this replica announces. Snapshots of any version are accepted, since their bytes are not parsed. A
/// replica without a version gets the format of releases before 9.0, which cannot represent expiring fields.
const VERSION: &str = "9.1.2";

/// Announces the capabilities of this program's receivers of snapshots.
pub fn introduce(session: &mut Session) -> Result<(), Failure> {
    send_setting(session, "capa", "eof")?;
    send_setting(session, "version", VERSION)?;
    Ok(())
}

/// Announces a property of this replica (REPLCONF). Returns false if the primary refuses it, as older versions refuse
/// unknown options.
pub fn send_setting(session: &mut Session, name: &str, value: &str) -> Result<bool, Failure> {
    eprint_line!("sending REPLCONF {name} {value}");
    let reply = session.request(&["REPLCONF", name, value])?;
    if reply.is_error() {
        let text = String::from_utf8_lossy(reply.as_bytes().unwrap_or_default()).into_owned();
        eprint_line!("REPLCONF {name} error: {text}");
    }
    Ok(!reply.is_error())
}

/// Sends SYNC or PSYNC and reads the reply.
pub fn begin<A: AsRef<[u8]>>(connection: &mut Connection, request: &[A]) -> Result<Start, Failure> {
    connection.send(request)?;
    let mut line = read_line(connection)?;
    if let Some(error) = line.strip_prefix("-") {
        return Err(Failure::Reply(format!("SYNC with primary failed: -{error}")));
    }
    if line.starts_with("+FULLRESYNC") || line.starts_with("+CONTINUE") {
        eprint_line!("PSYNC replied {line}");
        if line.starts_with("+CONTINUE") {
            return Ok(Start::Partial);
        }
        line = read_line(connection)?;
    }
    let end = snapshot_end(&line);
    end.map(Start::Full).ok_or_else(|| Failure::Reply(format!("SYNC with primary failed: {line}")))
}

/// Reads a line; skips the empty keep-alive lines before it.
fn read_line(connection: &mut Connection) -> Result<String, Failure> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while line.len() < LINE_LEN_MAX {
        connection.read_bytes(&mut byte)?;
        match byte[0] {
            b'\n' if line.is_empty() => {}
            b'\n' => break,
            byte => line.push(byte),
        }
    }
    Ok(String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned())
}

/// Parses `$1234` or `$EOF:` and a marker.
fn snapshot_end(line: &str) -> Option<SnapshotEnd> {
    let rest = line.strip_prefix('$')?;
    match rest.strip_prefix("EOF:") {
        Some(marker) => Some(SnapshotEnd::Marker(marker.as_bytes().get(..MARKER_LEN)?.try_into().ok()?)),
        None => rest.parse().ok().map(SnapshotEnd::Length),
    }
}

/// Reads a snapshot and passes its pieces to `sink`; returns its length.
pub fn receive_snapshot(
    connection: &mut Connection,
    end: &SnapshotEnd,
    mut sink: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<u64, Failure> {
    let mut write = |bytes: &[u8]| sink(bytes).map_err(|error| Failure::Io("writing data to file", error));
    let mut buffer = vec![0; READ_LEN];
    match end {
        SnapshotEnd::Length(len) => {
            let (progress, mut left) = (Progress::bytes(Some(*len)), *len);
            while left > 0 {
                let room = left.min(READ_LEN as u64) as usize;
                let count = connection.read_bytes(&mut buffer[..room])?;
                write(&buffer[..count])?;
                progress.add(count as u64);
                left -= count as u64;
            }
            Ok(*len)
        }
        SnapshotEnd::Marker(marker) => {
            // The primary sends no bytes after the marker until it is acknowledged. A possible part of the marker is kept back.
            let (progress, mut len, mut kept) = (Progress::bytes(None), 0, Vec::new());
            while !kept.ends_with(marker) {
                let sure = kept.len().saturating_sub(MARKER_LEN);
                write(&kept[..sure])?;
                kept.drain(..sure);
                len += sure as u64;
                let count = connection.read_bytes(&mut buffer)?;
                kept.extend_from_slice(&buffer[..count]);
                progress.set(len);
            }
            let last = &kept[..kept.len() - MARKER_LEN];
            write(last)?;
            Ok(len + last.len() as u64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_read() {
        assert_eq!(snapshot_end("$12"), Some(SnapshotEnd::Length(12)));
        let marker = "0123456789012345678901234567890123456789";
        let expected = SnapshotEnd::Marker(marker.as_bytes().try_into().unwrap());
        assert_eq!(snapshot_end(&format!("$EOF:{marker}")), Some(expected));
        for wrong in ["", "12", "$", "$x", "$EOF:12", "+OK"] {
            assert_eq!(snapshot_end(wrong), None, "{wrong}");
        }
    }
}
