//! `--replica`, or SYNC and PSYNC in the interactive mode: prints the commands that a replica receives, one per line.

use std::time::Duration;

use crate::Failure;
use crate::format::Style;
use crate::session::{Session, SessionError};
use crate::sync::{self, SnapshotEnd, Start};

/// Time for which a primary ignores acknowledgements after it has sent a snapshot.
const ONLINE_PAUSE: Duration = Duration::from_secs(1);

pub fn run(session: &mut Session) -> Result<(), Failure> {
    session.connect()?;
    sync::introduce(session)?;
    // The data is discarded; only the commands after it are needed.
    sync::send_setting(session, "rdb-filter-only", "")?;
    Err(follow(session, &[b"SYNC".to_vec()])?)
}

/// Runs the command as typed in the interactive mode; the connection ends with it.
pub fn follow_typed(session: &mut Session, request: &[Vec<u8>]) -> Failure {
    print_line!("Entering replica output mode...  (press Ctrl-C to quit)");
    let end = follow(session, request).unwrap_or_else(|error| error);
    session.disconnect();
    end
}

/// Prints the stream until it ends; returns the reason, which is the loss of the connection unless this machine failed.
fn follow(session: &mut Session, request: &[Vec<u8>]) -> Result<Failure, Failure> {
    let connection = session.connection()?;
    match sync::begin(connection, request)? {
        Start::Partial => eprint_line!("Partial resync with primary..."),
        Start::Full(end) => {
            match &end {
                SnapshotEnd::Marker(_) => {
                    eprint_line!(
                        "Full resync with primary, discarding bytes of bulk transfer until EOF marker..."
                    );
                }
                SnapshotEnd::Length(len) => {
                    eprint_line!("Full resync with primary, discarding {len} bytes of bulk transfer...");
                }
            }
            let len = sync::receive_snapshot(connection, &end, |_| Ok(()))?;
            match end {
                SnapshotEnd::Length(_) => {
                    eprint_line!("Full resync done. Logging commands from primary.");
                }
                SnapshotEnd::Marker(_) => {
                    eprint_line!("Full resync done after {len} bytes. Logging commands from primary.");
                    std::thread::sleep(ONLINE_PAUSE);
                    eprint_line!("sending REPLCONF ACK 0");
                    connection.send(&["REPLCONF", "ACK", "0"])?;
                }
            }
        }
    }
    let style = std::mem::replace(&mut session.settings.style, Style::Csv);
    let outcome: SessionError = loop {
        match session.connection()?.receive() {
            Ok(command) => session.print(&command, false),
            Err(error) => break error.into(),
        }
    };
    session.settings.style = style;
    Ok(outcome.into())
}
