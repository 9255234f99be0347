//! Sorted sets: many small ones, and one of each size in both indexes.

use client::append_request;

use super::page::{Section, Table};
use super::plot::{Plot, Shape};
use super::{Bench, Candidate, count, headers, short};
use crate::cases::{Case, Load, shuffled};
use crate::compare::{Figures, Manner};
use crate::server::Server;

const MEMBERS: u64 = 129;
const SET_COUNTS: [u64; 3] = [10_000, 40_000, 100_000];
/// On paper, from what a set takes.
const SETS_ON_PAPER: u64 = 2_000_000;
/// The largest number of sets is the one for which the server with the highest memory use takes this share of free memory.
const MEMORY_SHARE: f64 = 0.6;
const SETS_MAX: u64 = 500_000;
const PIPELINES: [u64; 2] = [1, 16];
const MANNER: Manner = Manner { clients: 50, threads: 1 };

/// Figures of one server for a number of sets: bytes a set, and times for each pipeline depth.
struct Step {
    bytes: f64,
    figures: Vec<Figures>,
}

pub fn by_number(bench: &Bench) -> Result<Section, String> {
    let mut counts: Vec<u64> = SET_COUNTS.iter().map(|sets| bench.scaled(*sets)).collect();
    let mut found: Vec<(String, Vec<Step>)> = Vec::new();
    let candidates = indexes(bench);
    // The hungriest first: it says how many sets there may be.
    for candidate in candidates.iter().rev() {
        let server = bench.start(candidate)?;
        let (mut stored, mut steps, empty) = (0, Vec::new(), server.used_memory()? as f64);
        let mut step = |sets: u64| -> Result<f64, String> {
            bench.progress(&format!("{} sorted sets, {}", count(sets), candidate.name));
            store(&server, stored, sets)?;
            stored = sets;
            let bytes = (server.used_memory()? as f64 - empty) / sets as f64;
            let figures = PIPELINES
                .iter()
                .map(|pipeline| bench.measure(&server, &first_of(sets, *pipeline, bench), MANNER));
            steps.push(Step { bytes, figures: figures.collect::<Result<_, _>>()? });
            Ok(bytes)
        };
        let mut bytes = 0.0;
        for sets in &counts {
            bytes = step(*sets)?;
        }
        if counts.len() == SET_COUNTS.len() {
            let most = most_sets(bytes).min(bench.scaled(SETS_MAX)).max(counts[counts.len() - 1] * 2);
            counts.push(most);
            step(most)?;
        }
        found.push((candidate.name.clone(), steps));
    }
    found.reverse();
    Ok(Section {
        title: "The first member of many sorted sets",
        text: format!(
            "`ZRANGE key 0 0` of random sorted sets of {MEMBERS} members each: 50 connections, pipelines of 1 and {}. \
             fbtree and skip list are the two indexes of Warmline (`zset-index`). The header of its skip list is embedded \
             in the object, that of Valkey is a separate allocation; the last table compares both forms in Warmline.",
            PIPELINES[1]
        ),
        tables: tables(&counts, &found)
            .into_iter()
            .chain([headers::table(bench, &counts[..SET_COUNTS.len()], MEMBERS)])
            .collect(),
        plots: vec![plot(&counts, &found)],
    })
}

/// This server with both indexes, then the others.
fn indexes(bench: &Bench) -> Vec<Candidate> {
    let mut candidates = vec![
        bench.warmline.with(&format!("{}, fbtree", bench.warmline.name), "--zset-index fbtree"),
        bench.warmline.with(&format!("{}, skip list", bench.warmline.name), "--zset-index skiplist"),
    ];
    candidates.extend(bench.all().into_iter().skip(1));
    candidates
}

fn store(server: &Server, first: u64, behind: u64) -> Result<(), String> {
    let mut args = vec!["ZADD".to_string(), String::new()];
    args.extend((0..MEMBERS).flat_map(|number| [number.to_string(), format!("member:{number}")]));
    let stored = server.conversation().and_then(|mut conversation| {
        conversation.load(behind - first, |number, out| {
            args[1] = format!("zset:{:012}", first + number);
            append_request(out, &args);
        })
    });
    stored.map_err(|error| error.to_string())
}

fn first_of(sets: u64, pipeline: u64, bench: &Bench) -> Case {
    Case {
        name: "ZRANGE key 0 0".to_string(),
        load: Load::Nothing,
        command: "ZRANGE zset:__rand_int__ 0 0".to_string(),
        pipeline,
        requests: bench.scaled(if pipeline == 1 { 200_000 } else { 1_000_000 }),
        keyspace: sets,
        data_len: 1,
    }
}

fn most_sets(bytes_each: f64) -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:")).unwrap_or_default();
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse().unwrap_or(0.0);
    // What has been measured already is part of what may be used.
    let sets = kilobytes * 1024.0 * MEMORY_SHARE / bytes_each.max(1.0);
    sets as u64 / 100_000 * 100_000
}

fn tables(counts: &[u64], found: &[(String, Vec<Step>)]) -> Vec<Table> {
    let mut heading = vec!["sets"];
    heading.extend(found.iter().map(|(name, _)| name.as_str()));
    let mut tables = Vec::new();
    for (place, pipeline) in PIPELINES.iter().enumerate() {
        let caption = format!(
            "Processor time of the server per request in microseconds, and requests per second, pipeline {pipeline}:"
        );
        let mut table = Table::new(caption, &heading);
        for (row, sets) in counts.iter().enumerate() {
            let mut cells = vec![count(*sets)];
            cells.extend(found.iter().map(|(_, steps)| {
                let figures = steps[row].figures[place];
                format!("{} ({:.0} k/s)", short(figures.processor_us), figures.per_second / 1e3)
            }));
            table.row(cells);
        }
        tables.push(table);
    }
    let mut table = Table::new("Bytes per set with its key:", &heading);
    let bytes = |steps: &Vec<Step>| steps.last().map_or(f64::NAN, |step| step.bytes);
    let row = |name: &str, cell: &dyn Fn(f64) -> String| {
        let mut cells = vec![name.to_string()];
        cells.extend(found.iter().map(|(_, steps)| cell(bytes(steps))));
        cells
    };
    table.row(row("bytes per set", &|bytes| format!("{bytes:.0}")));
    table.row(row("bytes per member", &|bytes| short(bytes / MEMBERS as f64)));
    let on_paper = format!("{} sets (calculated), GB", count(SETS_ON_PAPER));
    table.row(row(&on_paper, &|bytes| short(bytes * SETS_ON_PAPER as f64 / 1e9)));
    tables.push(table);
    tables
}

fn plot(counts: &[u64], found: &[(String, Vec<Step>)]) -> Plot {
    let series = |(name, steps): &(String, Vec<Step>)| {
        let points =
            counts.iter().zip(steps).map(|(sets, step)| (*sets as f64, step.figures[1].processor_us));
        (name.clone(), points.collect())
    };
    Plot {
        name: "sorted-sets-by-number".to_string(),
        title: format!("ZRANGE key 0 0, pipeline {}", PIPELINES[1]),
        x_label: "sorted sets".to_string(),
        y_label: "processor time per request, µs".to_string(),
        shape: Shape::Lines,
        series: found.iter().map(series).collect(),
    }
}

const SIZES: [u64; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// Minimum number of members, over all sets, from which bytes a member are computed.
const MEMBERS_WEIGHED: u64 = 1_000_000;

fn operations(size: u64) -> [(&'static str, String); 4] {
    [
        ("ADD (new score)", "ZADD z0 __rand_int__ member:__rand_1st__".to_string()),
        ("RANK", "ZRANK z0 member:__rand_int__".to_string()),
        ("RANGE (10 by score)", format!("ZRANGE z0 __rand_int__ {size} BYSCORE LIMIT 0 10")),
        ("COUNT", format!("ZCOUNT z0 __rand_int__ {}", size / 10 * 9)),
    ]
}

pub fn by_index(bench: &Bench) -> Result<Section, String> {
    let candidates = &indexes(bench)[..2];
    let sizes: Vec<u64> = SIZES.iter().map(|size| bench.scaled(*size).max(200)).collect();
    // By size, then index: bytes a member and microseconds of each operation.
    let mut found = Vec::new();
    for size in &sizes {
        let mut row = Vec::new();
        for candidate in candidates {
            bench.progress(&format!("sorted sets of {}, {}", count(*size), candidate.name));
            row.push(index_of(bench, candidate, *size)?);
        }
        found.push(row);
    }
    let mut memory = Table::new("Bytes per member:", &["members", "fbtree", "skip list", "ratio"]);
    let mut times = Table::new(
        "Processor time of the server per request in microseconds, pipeline 16:",
        &["members", "operation", "fbtree", "skip list", "ratio"],
    );
    for (size, row) in sizes.iter().zip(&found) {
        let (tree, list) = (row[0].0, row[1].0);
        memory.row(vec![count(*size), short(tree), short(list), short(tree / list)]);
        for (place, (name, _)) in operations(*size).iter().enumerate() {
            let (tree, list) = (row[0].1[place], row[1].1[place]);
            times.row(vec![count(*size), name.to_string(), short(tree), short(list), short(tree / list)]);
        }
    }
    let series = |index: usize, name: &str| {
        (
            name.to_string(),
            sizes.iter().zip(&found).map(|(size, row)| (*size as f64, row[index].1[1])).collect(),
        )
    };
    let plot = Plot {
        name: "sorted-sets-by-index".to_string(),
        title: "ZRANK of a random member, pipeline 16".to_string(),
        x_label: "members".to_string(),
        y_label: "processor time per request, µs".to_string(),
        shape: Shape::Lines,
        series: vec![series(0, "fbtree"), series(1, "skip list")],
    };
    Ok(Section {
        title: "Feature B+ tree and skip list",
        text: "The two indexes of sorted sets (`zset-index`), by number of members: members of 19 bytes inserted in random \
               order, random integers as scores. Times are of whole requests; [structures](structures.md) has those of \
               the structures alone."
            .to_string(),
        tables: vec![memory, times],
        plots: vec![plot],
    })
}

fn index_of(bench: &Bench, candidate: &Candidate, size: u64) -> Result<(f64, Vec<f64>), String> {
    let server = bench.start(candidate)?;
    let sets = (bench.scaled(MEMBERS_WEIGHED) / size).max(1);
    let scores = shuffled(size);
    let empty = server.used_memory()? as f64;
    let stored = server.conversation().and_then(|mut conversation| {
        conversation.load(sets * size, |number, out| {
            let (set, member) = (number / size, number % size);
            let score = scores[member as usize].to_string();
            append_request(out, &["ZADD", &format!("z{set}"), &score, &format!("member:{member:012}")]);
        })
    });
    stored.map_err(|error| error.to_string())?;
    let bytes = (server.used_memory()? as f64 - empty) / (sets * size) as f64;
    let mut times = Vec::new();
    for (name, command) in operations(size) {
        let case = Case {
            name: name.to_string(),
            load: Load::Nothing,
            command,
            pipeline: 16,
            requests: bench.scaled(500_000),
            keyspace: size,
            data_len: 1,
        };
        times.push(bench.measure(&server, &case, MANNER)?.processor_us);
    }
    Ok((bytes, times))
}
