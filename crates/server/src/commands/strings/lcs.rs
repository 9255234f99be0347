//! LCS: the longest common subsequence of two strings.

use crate::command::{Args, Context, Outcome};
use crate::error::ClientError;
use wire::convert::unsigned_len;

/// The requested form of the reply.
#[derive(Default)]
struct Options {
    len: bool,
    idx: bool,
    with_match_len: bool,
    match_len_min: usize,
}

/// A run of equal bytes, as inclusive ranges of both strings.
struct Match {
    a: (usize, usize),
    b: (usize, usize),
}

/// Lengths of the common subsequences of all prefixes: `(a.len() + 1) * (b.len() + 1)` cells.
struct Table {
    cells: Vec<u32>,
    width: usize,
}

/// Replaces `row` by the next row of the table, for a prefix of `a` that is longer by `byte`.
fn next_row(row: &mut [u32], byte: u8, b: &[u8]) {
    let (mut before, mut left) = (0, 0);
    for (cell, &other) in row[1..].iter_mut().zip(b) {
        let above = *cell;
        left = if byte == other { before + 1 } else { above.max(left) };
        before = above;
        *cell = left;
    }
}

/// The length of the longest common subsequence, computed with one row of the table at a time.
fn length_of(a: &[u8], b: &[u8]) -> u32 {
    let (rows, columns) = if a.len() < b.len() { (b, a) } else { (a, b) };
    let mut row = vec![0; columns.len() + 1];
    rows.iter().for_each(|&byte| next_row(&mut row, byte, columns));
    row[columns.len()]
}

impl Table {
    fn new(a: &[u8], b: &[u8]) -> Self {
        let width = b.len() + 1;
        // Not zeroed first: for a table of megabytes that costs the same time again.
        let mut cells = Vec::with_capacity((a.len() + 1) * width);
        let mut row = vec![0; width];
        cells.extend_from_slice(&row);
        for &byte in a {
            next_row(&mut row, byte, b);
            cells.extend_from_slice(&row);
        }
        Table { cells, width }
    }

    fn at(&self, i: usize, j: usize) -> u32 {
        self.cells[i * self.width + j]
    }
}

pub(super) fn lcs(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let not_strings = |_| ClientError::text("ERR The specified keys must contain string values");
    let mut text_at = |index| {
        let text = ctx.db.read_string(args.key(index)).map_err(not_strings)?;
        Ok(text.map(|text| text.to_vec()).unwrap_or_default())
    };
    // Both are looked up, whatever the first contains.
    let (a, b): (Result<Vec<u8>, ClientError>, _) = (text_at(1), text_at(2));
    let (a, b) = (a?, b?);
    let options = parse(args)?;
    if options.len && options.idx {
        return Err(ClientError::text("ERR If you want both the length and indexes, please just use IDX."));
    }
    if a.len() >= u32::MAX as usize - 1 || b.len() >= u32::MAX as usize - 1 {
        return Err(ClientError::text("ERR String too long for LCS"));
    }
    let table_bytes = (a.len() as u128 + 1) * (b.len() as u128 + 1) * size_of::<u32>() as u128;
    if table_bytes > ctx.server.config.proto_max_bulk_len_bytes as u128 {
        return Err(ClientError::text(
            "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
        ));
    }
    if options.len {
        ctx.reply.integer(length_of(&a, &b).into());
        return Ok(());
    }
    let table = Table::new(&a, &b);
    let length = table.at(a.len(), b.len());
    let (subsequence, matches) = walk(&table, &a, &b);
    if options.idx {
        answer_matches(ctx, &options, &matches, length);
    } else {
        ctx.reply.bulk(&subsequence);
    }
    Ok(())
}

fn parse(args: Args<'_>) -> Result<Options, ClientError> {
    let mut options = Options::default();
    let mut at = 3;
    while at < args.len() {
        if args.is(at, "IDX") {
            options.idx = true;
        } else if args.is(at, "LEN") {
            options.len = true;
        } else if args.is(at, "WITHMATCHLEN") {
            options.with_match_len = true;
        } else if args.is(at, "MINMATCHLEN") && at + 1 < args.len() {
            options.match_len_min = unsigned_len(args.integer(at + 1)?.max(0));
            at += 1;
        } else {
            return Err(ClientError::Syntax);
        }
        at += 1;
    }
    Ok(options)
}

/// Traces the table back from its end: returns the subsequence, and its runs, the last one first.
fn walk(table: &Table, a: &[u8], b: &[u8]) -> (Vec<u8>, Vec<Match>) {
    let (mut i, mut j) = (a.len(), b.len());
    let (mut subsequence, mut matches): (Vec<u8>, Vec<Match>) = (Vec::new(), Vec::new());
    while i > 0 && j > 0 {
        if a[i - 1] == b[j - 1] {
            subsequence.push(a[i - 1]);
            match matches.last_mut() {
                Some(run) if run.a.0 == i && run.b.0 == j => (run.a.0, run.b.0) = (i - 1, j - 1),
                _ => matches.push(Match { a: (i - 1, i - 1), b: (j - 1, j - 1) }),
            }
            (i, j) = (i - 1, j - 1);
        } else if table.at(i - 1, j) > table.at(i, j - 1) {
            i -= 1;
        } else {
            j -= 1;
        }
    }
    subsequence.reverse();
    (subsequence, matches)
}

fn answer_matches(ctx: &mut Context<'_>, options: &Options, matches: &[Match], length: u32) {
    let reply = &mut *ctx.reply;
    let wanted = |run: &&Match| run.a.1 - run.a.0 + 1 >= options.match_len_min;
    reply.map(2);
    reply.bulk(b"matches");
    reply.array(matches.iter().filter(wanted).count());
    for run in matches.iter().filter(wanted) {
        reply.array(if options.with_match_len { 3 } else { 2 });
        for (start, end) in [run.a, run.b] {
            reply.array(2);
            reply.count(start);
            reply.count(end);
        }
        if options.with_match_len {
            reply.count(run.a.1 - run.a.0 + 1);
        }
    }
    reply.bulk(b"len");
    reply.integer(length.into());
}

#[cfg(test)]
mod tests {
    use super::*;
    use structures::random::Random;

    #[test]
    fn one_row_at_a_time_gives_the_length_that_the_table_gives() {
        let mut random = Random::new(5);
        for _ in 0..300 {
            let mut text = || (0..random.below(40)).map(|_| random.below(4) as u8).collect::<Vec<u8>>();
            let (a, b) = (text(), text());
            let table = Table::new(&a, &b);
            let (subsequence, _) = walk(&table, &a, &b);
            assert_eq!(table.at(a.len(), b.len()), length_of(&a, &b));
            assert_eq!(length_of(&a, &b) as usize, subsequence.len());
            for text in [&a, &b] {
                let mut rest = text.iter();
                assert!(subsequence.iter().all(|byte| rest.any(|other| other == byte)), "no subsequence");
            }
        }
    }
}
