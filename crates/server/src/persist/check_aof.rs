//! `warmline-check-aof`: reads append-only files to their ends without running commands, and cuts off an end that a crash
//! has left incomplete.

use super::aof::manifest::{Manifest, Names};
use super::check_rdb;
use crate::sys::world::World;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use wire::aof::{Item, ReadError, Reader};

/// What to do with errors found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// Truncate the file before the first error.
    pub fix: bool,
    /// Truncate everything written after this second.
    pub until_s: Option<i64>,
}

/// The check failed; the reason has been printed.
struct Unsound;

/// Result of checking one file.
enum Verdict {
    Valid,
    Empty,
    Truncated,
    TruncatedToTime(i64),
}

/// Checks a single file, or all files of a manifest; returns whether they are valid now.
pub fn check(path: &Path, options: CheckOptions) -> bool {
    let outcome = if path.extension().is_some_and(|extension| extension == "manifest") {
        check_manifest(path, options)
    } else {
        print_line!("Start checking Old-Style AOF");
        check_file(path, true, options).map(|verdict| report("AOF", path, &verdict))
    };
    outcome.is_ok()
}

fn check_manifest(path: &Path, options: CheckOptions) -> Result<(), Unsound> {
    print_line!("Start checking Multi Part AOF");
    let bytes = std::fs::read(path).map_err(|error| refuse(path, &error))?;
    let manifest = Manifest::parse(&bytes).map_err(|error| refuse(path, &error))?;
    let directory = path.parent().map_or(PathBuf::new(), Path::to_owned);
    let file = path.file_stem().map_or(Vec::new(), |stem| stem.as_bytes().to_vec());
    let names = Names { world: World::default(), directory, file };
    let total = manifest.parts().count();
    let mut increment_before = None;
    for (index, part) in manifest.parts().enumerate() {
        let (path, last) = (names.path(&part.name), index + 1 == total);
        let is_base = manifest.base.as_ref() == Some(part);
        if is_base {
            let format = if is_snapshot(&path) { "RDB" } else { "RESP" };
            print_line!("Start to check BASE AOF ({format} format).");
        } else if index == usize::from(manifest.base.is_some()) {
            print_line!("Start to check INCR files.");
        }
        if let Some((before, bytes)) = increment_before.take()
            && lacks_before(&path, bytes)
        {
            print_line!("INCR AOF {before} is truncated, and {} follows it.", name(&path));
            print_line!("A server with 'aof-load-truncated yes' starts without the data after it.");
            return Err(Unsound);
        }
        let verdict = check_file(&path, last, options)?;
        report(if is_base { "BASE AOF" } else { "INCR AOF" }, &path, &verdict);
        if !is_base {
            let bytes = std::fs::metadata(&path).map_err(|error| refuse(&path, &error))?.len();
            increment_before = Some((name(&path), bytes));
        }
    }
    print_line!("All AOF files and manifest are valid");
    Ok(())
}

/// Whether the file states that the previous one had more than `bytes` bytes.
fn lacks_before(path: &Path, bytes: u64) -> bool {
    let item = File::open(path).map(|file| Reader::new(BufReader::new(file), 0).read());
    matches!(item, Ok(Ok(Item::BytesBefore(noted))) if noted > bytes)
}

fn refuse(path: &Path, error: &dyn std::fmt::Display) -> Unsound {
    print_line!("Cannot open file {}: {error}, aborting...", path.display());
    Unsound
}

fn name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

fn report(what: &str, path: &Path, verdict: &Verdict) {
    let file = name(path);
    match verdict {
        Verdict::Valid => print_line!("{what} {file} is valid"),
        Verdict::Empty => print_line!("{what} {file} is empty"),
        Verdict::Truncated => print_line!("Successfully truncated AOF {file}"),
        Verdict::TruncatedToTime(unix_s) => {
            print_line!("Successfully truncated AOF {file} to timestamp {unix_s}");
        }
    }
}

fn is_snapshot(path: &Path) -> bool {
    let mut signature = [0; 6];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut signature));
    read.is_ok() && (signature.starts_with(b"REDIS") || &signature == b"VALKEY")
}

/// How far a file is valid.
struct Analysis {
    valid_up_to: u64,
    lines: u64,
    /// Offset of the first command that is too late.
    too_late_at: Option<u64>,
    error: Option<String>,
}

fn check_file(path: &Path, last: bool, options: CheckOptions) -> Result<Verdict, Unsound> {
    let mut file = File::options()
        .read(true)
        .write(options.fix || options.until_s.is_some())
        .open(path)
        .map_err(|error| refuse(path, &error))?;
    let size = file.metadata().map_err(|error| refuse(path, &error))?.len();
    if size == 0 {
        return Ok(Verdict::Empty);
    }
    let mut start = 0;
    if is_snapshot(path) {
        let Some(end) = check_rdb::check(path) else {
            print_line!("RDB preamble of AOF file is not sane, aborting.");
            return Err(Unsound);
        };
        print_line!("RDB preamble is OK, proceeding with AOF tail...");
        start = end;
    }
    file.seek(SeekFrom::Start(start)).map_err(|error| refuse(path, &error))?;
    let analysis = analyse(&mut BufReader::new(&mut file), start, options.until_s);
    if let (Some(at), Some(until_s)) = (analysis.too_late_at, options.until_s) {
        return truncate_to_time(&file, path, last, at, until_s);
    }
    if let Some(error) = &analysis.error {
        print_line!("{error}");
    }
    let (file_name, ok) = (name(path), analysis.valid_up_to);
    let diff = size - ok;
    print_line!(
        "AOF analyzed: filename={file_name}, size={size}, ok_up_to={ok}, ok_up_to_line={}, diff={diff}",
        analysis.lines
    );
    if diff == 0 {
        return Ok(Verdict::Valid);
    }
    if !options.fix {
        print_line!("AOF {file_name} is not valid. Use the --fix option to try fixing it.");
        return Err(Unsound);
    }
    if !last {
        print_line!("Failed to truncate AOF {file_name} because it is not the last file");
        return Err(Unsound);
    }
    print_line!("This will shrink the AOF {file_name} from {size} bytes, with {diff} bytes, to {ok} bytes");
    confirm()?;
    file.set_len(ok).map_err(|_| {
        print_line!("Failed to truncate AOF {file_name}");
        Unsound
    })?;
    Ok(Verdict::Truncated)
}

fn confirm() -> Result<(), Unsound> {
    let mut out = std::io::stdout();
    // Without a terminal the answer is empty.
    let _ = out.write_all(b"Continue? [y/N]: ").and_then(|()| out.flush());
    let mut answer = String::new();
    let _ = std::io::stdin().lock().read_line(&mut answer);
    if answer.to_ascii_lowercase().starts_with('y') {
        return Ok(());
    }
    print_line!("Aborting...");
    Err(Unsound)
}

fn truncate_to_time(file: &File, path: &Path, last: bool, at: u64, until_s: i64) -> Result<Verdict, Unsound> {
    let file_name = name(path);
    if at == 0 {
        print_line!("AOF {file_name} has nothing before timestamp {until_s}, aborting...");
        return Err(Unsound);
    }
    if !last {
        print_line!(
            "Failed to truncate AOF {file_name} to timestamp {until_s} to offset {at} because it is not the last file."
        );
        print_line!(
            "If you insist, please delete all files after this file according to the manifest file and delete the corresponding records in manifest file manually. Then re-run valkey-check-aof."
        );
        return Err(Unsound);
    }
    file.set_len(at).map_err(|_| {
        print_line!("Failed to truncate AOF {file_name} to timestamp {until_s}");
        Unsound
    })?;
    Ok(Verdict::TruncatedToTime(until_s))
}

/// Reads commands from `start` on up to the first invalid one, or up to those written too late.
fn analyse(source: &mut impl BufRead, start: u64, until_s: Option<i64>) -> Analysis {
    let mut reader = Reader::new(source, start);
    let mut analysis = Analysis { valid_up_to: start, lines: 0, too_late_at: None, error: None };
    let (mut in_transaction, mut lines) = (false, 0);
    loop {
        let before = reader.position();
        let item = reader.read();
        match &item {
            Ok(Item::End) if in_transaction => {
                analysis.error = Some(at(before, "Reached EOF before reading EXEC for MULTI"));
            }
            Ok(Item::End) => {}
            Ok(Item::Timestamp(unix_s)) if until_s.is_some_and(|until_s| *unix_s > until_s) => {
                analysis.too_late_at = Some(before);
            }
            Ok(Item::Timestamp(_) | Item::BytesBefore(_) | Item::Comment) => lines += 1,
            Ok(Item::Command(arguments)) => {
                lines += 1 + 2 * arguments.len() as u64;
                let is = |word: &[u8]| arguments.len() == 1 && arguments[0].eq_ignore_ascii_case(word);
                if is(b"multi") && in_transaction || is(b"exec") && !in_transaction {
                    analysis.error = Some(at(before, "Unexpected MULTI or EXEC"));
                }
                in_transaction = is(b"multi") || in_transaction && !is(b"exec");
            }
            Err(ReadError::UnexpectedEnd) => {
                analysis.error =
                    Some(at(reader.position(), "Expected to read more bytes, got an unexpected end of file"));
            }
            Err(error) => analysis.error = Some(at(reader.position(), &error.to_string())),
        }
        let ends = matches!(item, Ok(Item::End) | Err(_));
        // The invalid line is the next one.
        analysis.lines = lines + u64::from(analysis.error.is_some());
        if ends || analysis.error.is_some() || analysis.too_late_at.is_some() {
            return analysis;
        }
        if !in_transaction {
            analysis.valid_up_to = reader.position();
        }
    }
}

fn at(position: u64, what: &str) -> String {
    format!("0x{position:16x}: {what}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sound_ends_before_what_is_not() {
        let sound = b"*1\r\n$4\r\nPING\r\n";
        let analysis = analyse(&mut &sound[..], 0, None);
        assert!(analysis.error.is_none() && analysis.valid_up_to == sound.len() as u64);
        let torn = [&sound[..], b"*1\r\n$5\r\nMULTI\r\n", &sound[..]].concat();
        let analysis = analyse(&mut &torn[..], 0, None);
        assert!(analysis.error.is_some() && analysis.valid_up_to == sound.len() as u64);
        let timed = [b"#TS:5\r\n", &sound[..], b"#TS:9\r\n", &sound[..]].concat();
        assert_eq!(analyse(&mut &timed[..], 0, Some(7)).too_late_at, Some(7 + sound.len() as u64));
    }
}
