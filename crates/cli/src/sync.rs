//! The start of what a replica is sent: the answer to SYNC or PSYNC, and the snapshot that follows it.

use std::io;

use crate::Failure;
use crate::connection::Connection;
use crate::progress::Progress;
use crate::session::Session;

const MARKER_LEN: usize = 40;
const LINE_LEN_MAX: usize = 4096;
const READ_LEN: usize = 64 * 1024;

/// Where a snapshot ends.
#[derive(Debug, PartialEq)]
pub enum SnapshotEnd {
    /// After this number of bytes.
    Length(u64),
    /// Before these bytes, which come behind it.
    Marker([u8; MARKER_LEN]),
}

/// How a primary begins.
#[derive(Debug, PartialEq)]
pub enum Start {
    Full(SnapshotEnd),
    /// No snapshot, only what has changed.
    Partial,
}

/// The release whose snapshots are read: any is, since a snapshot is handed on as it comes. One that names no release is
/// sent the form of releases before 9.0, which has no hash with a field that expires.
const VERSION: &str = "9.1.2";

/// Announces to the primary what every receiver of a snapshot here can read.
pub fn introduce(session: &mut Session) -> Result<(), Failure> {
    send_setting(session, "capa", "eof")?;
    send_setting(session, "version", VERSION)?;
    Ok(())
}

/// Announces this replica to the primary. Returns false if the primary refuses, as older versions do with unknown options.
pub fn send_setting(session: &mut Session, name: &str, value: &str) -> Result<bool, Failure> {
    tell_line!("sending REPLCONF {name} {value}");
    let reply = session.request(&["REPLCONF", name, value])?;
    if reply.is_error() {
        let text = String::from_utf8_lossy(reply.as_bytes().unwrap_or_default()).into_owned();
        tell_line!("REPLCONF {name} error: {text}");
    }
    Ok(!reply.is_error())
}

/// Sends SYNC or PSYNC and reads how the primary begins.
pub fn begin<A: AsRef<[u8]>>(connection: &mut Connection, request: &[A]) -> Result<Start, Failure> {
    connection.send(request)?;
    let mut line = read_line(connection)?;
    if let Some(error) = line.strip_prefix("-") {
        return Err(Failure::Reply(format!("SYNC with primary failed: -{error}")));
    }
    if line.starts_with("+FULLRESYNC") || line.starts_with("+CONTINUE") {
        tell_line!("PSYNC replied {line}");
        if line.starts_with("+CONTINUE") {
            return Ok(Start::Partial);
        }
        line = read_line(connection)?;
    }
    let end = snapshot_end(&line);
    end.map(Start::Full).ok_or_else(|| Failure::Reply(format!("SYNC with primary failed: {line}")))
}

/// A line, without the empty ones that keep a connection alive before it.
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

/// `$1234` or `$EOF:` and a marker.
fn snapshot_end(line: &str) -> Option<SnapshotEnd> {
    let rest = line.strip_prefix('$')?;
    match rest.strip_prefix("EOF:") {
        Some(marker) => Some(SnapshotEnd::Marker(marker.as_bytes().get(..MARKER_LEN)?.try_into().ok()?)),
        None => rest.parse().ok().map(SnapshotEnd::Length),
    }
}

/// Reads a snapshot, piece by piece: how many bytes it has.
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
            // The primary sends nothing behind the marker before it is answered. What may be a part of it is kept back.
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
