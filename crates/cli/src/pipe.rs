//! `--pipe`: sends standard input, which contains encoded commands, at full speed, and counts the replies. One thread
//! sends and one receives, so that full buffers cannot cause a deadlock.

use std::fs::File;
use std::io::{self, Read, StdinLock};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use client::{append_request, print_bytes};
use wire::response::Value;

use crate::Failure;
use crate::connection::Sender;
use crate::progress::Progress;
use crate::session::Session;

const COPY_LEN: usize = 64 * 1024;
const MARKER_LEN: usize = 20;

pub fn run(session: &mut Session, timeout: Duration) -> Result<(), Failure> {
    session.connect()?;
    let marker = random_marker();
    let connection = session.connection()?;
    let all_sent = Arc::new(AtomicBool::new(false));
    let sender = {
        let (sender, marker, all_sent) = (connection.sender()?, marker.clone(), Arc::clone(&all_sent));
        thread::spawn(move || copy_stdin(sender, &marker, &all_sent))
    };

    let (mut errors, mut replies, mut heard_last) = (0u64, 0u64, Instant::now());
    loop {
        match connection.receive_within(Duration::from_secs(1))? {
            Some(Value::Bulk(text)) if text == marker => {
                print_line!("Last reply received from server.");
                break;
            }
            Some(value) => {
                heard_last = Instant::now();
                replies += 1;
                if let Value::Error(text) = value {
                    eprint_line!("{}", String::from_utf8_lossy(&text));
                    errors += 1;
                }
            }
            None if !timeout.is_zero()
                && all_sent.load(Ordering::Acquire)
                && heard_last.elapsed() > timeout =>
            {
                eprint_line!("No replies for {} seconds: exiting.", timeout.as_secs());
                errors += 1;
                connection.shut_down();
                break;
            }
            None if sender.is_finished() && !all_sent.load(Ordering::Acquire) => break,
            None => {}
        }
    }
    if let Ok(outcome) = sender.join() {
        outcome?;
    }
    print_line!("errors: {errors}, replies: {replies}");
    if errors > 0 { Err(Failure::Reported) } else { Ok(()) }
}

/// Sends standard input, then an ECHO whose reply marks the end. A line end precedes it, in case the input ends
/// within a line.
fn copy_stdin(mut sender: Sender, marker: &[u8], all_sent: &AtomicBool) -> Result<(), Failure> {
    let (mut stdin, mut buffer) = (io::stdin().lock(), vec![0; COPY_LEN]);
    let progress = Progress::bytes(file_len(&stdin));
    loop {
        let len = stdin.read(&mut buffer).map_err(|error| Failure::Io("reading standard input", error))?;
        if len == 0 {
            break;
        }
        sender.send_bytes(&buffer[..len])?;
        progress.add(len as u64);
    }
    drop(progress);
    let mut last = b"\r\n".to_vec();
    append_request(&mut last, &[b"ECHO".as_slice(), marker]);
    // Set before the reply can arrive.
    print_bytes(b"All data transferred. Waiting for the last reply...\n");
    sender.send_bytes(&last)?;
    all_sent.store(true, Ordering::Release);
    Ok(())
}

/// Returns the length of standard input, if it is a file.
fn file_len(stdin: &StdinLock<'_>) -> Option<u64> {
    let file = File::from(stdin.as_fd().try_clone_to_owned().ok()?);
    file.metadata().ok().filter(|metadata| metadata.is_file()).map(|metadata| metadata.len())
}

/// Returns bytes that no other reply is likely to contain.
fn random_marker() -> Vec<u8> {
    use std::hash::{BuildHasher, RandomState};
    (0..MARKER_LEN).map(|index| RandomState::new().hash_one(index) as u8).collect()
}
