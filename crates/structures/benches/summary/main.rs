//! Generates the tables and plots of `docs/structures.md` from the results of the other benchmarks under
//! `target/structures/`. The page's prose is written by hand; only the text between `<!-- begin NAME -->` and
//! `<!-- end NAME -->` is replaced.
//!
//! `cargo bench -p warmline-structures` measures everything and runs this last; with `--bench summary` only
//! this step runs, on the latest results.

mod plot;

use plot::{Panel, Scale, Series};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// One row of a result file: a time, or a size in memory.
struct Row {
    structure: String,
    /// The operation timed, or the shape whose memory was taken.
    what: String,
    size: u64,
    temperature: String,
    ns: Option<f64>,
    bytes: Option<f64>,
}

/// A result file.
struct Measured {
    processor: String,
    last_level_cache_bytes: u64,
    quick: bool,
    rows: Vec<Row>,
}

/// A comparison: our structures first, then the others, the first of which is the yardstick.
struct Comparison {
    file: &'static str,
    structures: &'static [&'static str],
}

const ORDERED_SETS: Comparison =
    Comparison { file: "ordered_sets", structures: &["fbtree", "skip list", "skip list, separate header"] };
const MAPS: Comparison = Comparison { file: "packed_pages", structures: &["packed map", "chained map"] };
const SETS: Comparison = Comparison { file: "packed_pages", structures: &["packed set", "chained set"] };

fn read(file: &str) -> Option<Measured> {
    let results = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("structures");
    let text = std::fs::read_to_string(results.join(format!("{file}.json"))).ok()?;
    let document: Value = serde_json::from_str(&text).ok()?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let row = |row: &Value| Row {
        structure: text(&row["structure"]),
        what: text(&row["operation"]) + &text(&row["shape"]),
        size: row["size"].as_u64().unwrap_or(0),
        temperature: text(&row["temperature"]),
        ns: row["ns"].as_f64(),
        bytes: row["bytes"].as_f64(),
    };
    Some(Measured {
        processor: text(&document["processor"]),
        last_level_cache_bytes: document["last_level_cache_bytes"].as_u64()?,
        quick: document["quick"].as_bool().unwrap_or(false),
        rows: document["rows"].as_array()?.iter().map(row).collect(),
    })
}

impl Measured {
    fn ns(&self, structure: &str, what: &str, size: u64, temperature: &str) -> Option<f64> {
        let is_it = |row: &&Row| {
            row.structure == structure
                && row.what == what
                && row.size == size
                && row.temperature == temperature
        };
        self.rows.iter().filter(is_it).find_map(|row| row.ns)
    }

    fn bytes(&self, structure: &str, size: u64) -> Option<f64> {
        self.rows
            .iter()
            .filter(|row| row.structure == structure && row.size == size)
            .find_map(|row| row.bytes)
    }

    fn sizes(&self) -> Vec<u64> {
        let timed = self.rows.iter().filter(|row| row.ns.is_some());
        timed.map(|row| row.size).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The operations in the order of measurement at the largest size, which has them all.
    fn operations(&self) -> Vec<&str> {
        let mut operations: Vec<&str> = Vec::new();
        let largest = self.sizes().into_iter().next_back();
        for row in self.rows.iter().filter(|row| row.ns.is_some() && Some(row.size) == largest) {
            if !operations.contains(&&row.what[..]) {
                operations.push(&row.what);
            }
        }
        operations
    }

    /// The measured ones of `wanted`.
    fn present(&self, wanted: &[&'static str]) -> Vec<&'static str> {
        let present = |name: &&'static str| self.rows.iter().any(|row| row.structure == **name);
        wanted.iter().copied().filter(present).collect()
    }
}

/// A size as 128, 1 K, 10 M.
fn short(size: u64) -> String {
    match size {
        1_000_000.. if size.is_multiple_of(1_000_000) => format!("{} M", size / 1_000_000),
        1_000.. if size.is_multiple_of(1_000) => format!("{} K", size / 1_000),
        _ => size.to_string(),
    }
}

/// A duration with three significant digits or in whole nanoseconds.
fn duration(ns: f64) -> String {
    if ns >= 100_000.0 {
        format!("{:.0} µs", ns / 1e3)
    } else if ns >= 10_000.0 {
        format!("{:.1} µs", ns / 1e3)
    } else if ns >= 10.0 {
        format!("{ns:.0}")
    } else {
        format!("{ns:.1}")
    }
}

fn heading(columns: impl IntoIterator<Item = String>, first: &str) -> String {
    let columns: Vec<String> = columns.into_iter().collect();
    format!("| {first} | {} |\n|---|{}\n", columns.join(" | "), "---:|".repeat(columns.len()))
}

/// Bytes per element: a row for each structure, a column for each size.
fn memory_table(measured: &Measured, structures: &[&str]) -> String {
    let mut table = heading(measured.sizes().into_iter().map(short), "bytes an element");
    for structure in structures {
        let cells = measured.sizes().into_iter().map(|size| {
            measured.bytes(structure, size).map_or("–".to_string(), |bytes| format!("{bytes:.1}"))
        });
        _ = writeln!(table, "| {structure} | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
    table
}

/// Nanoseconds of the first structure, and the factor by which it is faster than the second.
fn ratio_table(measured: &Measured, structures: &[&str], temperature: &str) -> String {
    let [ours, theirs, ..] = structures else { return "Not measured yet.\n".to_string() };
    let mut table = heading(measured.sizes().into_iter().map(short), &format!("{ours}, ns (times as fast)"));
    for operation in measured.operations() {
        let cells = measured.sizes().into_iter().map(|size| {
            let times = measured.ns(ours, operation, size, temperature).zip(measured.ns(
                theirs,
                operation,
                size,
                temperature,
            ));
            times.map_or("–".to_string(), |(own, other)| {
                let ratio = other / own;
                let text = if ratio >= 9.95 { format!("{ratio:.0}") } else { format!("{ratio:.1}") };
                format!("{} ({})", duration(own), if ratio < 0.95 { format!("**{text}**") } else { text })
            })
        });
        _ = writeln!(table, "| {operation} | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
    table
}

/// Nanoseconds of all structures at one size, hot and cold.
fn side_by_side(measured: &Measured, structures: &[&str], size: u64) -> String {
    let columns = structures.iter().flat_map(|name| [format!("{name}, hot"), format!("{name}, cold")]);
    let mut table = heading(columns, &format!("ns at {}", short(size)));
    for operation in measured.operations() {
        let cells = structures.iter().flat_map(|name| {
            ["hot", "cold"].map(|temperature| {
                measured.ns(name, operation, size, temperature).map_or("–".to_string(), duration)
            })
        });
        _ = writeln!(table, "| {operation} | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
    table
}

/// All rows, for benchmarks without a counterpart.
fn plain_table(measured: &Measured) -> String {
    let mut table = heading(["elements", "ns", "bytes"].map(String::from), "what");
    for row in &measured.rows {
        let ns = row.ns.map_or(String::new(), duration);
        let bytes = row.bytes.map_or(String::new(), |bytes| format!("{bytes:.2}"));
        _ = writeln!(table, "| {}: {} | {} | {ns} | {bytes} |", row.structure, row.what, row.size);
    }
    table
}

fn series<'a>(
    structures: &[&'a str],
    sizes: &[u64],
    value: impl Fn(&str, u64) -> Option<f64>,
) -> Vec<Series<'a>> {
    let points = |name: &str| {
        sizes.iter().filter_map(|&size| Some((size as f64, value(name, size)?))).collect::<Vec<_>>()
    };
    structures.iter().map(|name| Series { name, points: points(name) }).collect()
}

/// A panel for each operation.
fn time_panels<'a>(measured: &'a Measured, structures: &[&'a str], temperature: &str) -> Vec<Panel<'a>> {
    let panel = |operation: &'a str| Panel {
        title: operation.to_string(),
        scale: Scale::Logarithmic,
        series: series(structures, &measured.sizes(), |name, size| {
            measured.ns(name, operation, size, temperature)
        }),
    };
    measured.operations().into_iter().map(panel).collect()
}

/// Writes the plots of one comparison and replaces its tables in `page`.
fn compare(comparison: &Comparison, name: &str, directory: &Path, page: &mut String) {
    let Some(measured) = read(comparison.file) else {
        println!("no results of the benchmark {}", comparison.file);
        return;
    };
    if measured.quick {
        println!("{} comes from a quick run", comparison.file);
    }
    let structures = measured.present(comparison.structures);
    for temperature in ["hot", "cold"] {
        let panels = time_panels(&measured, &structures, temperature);
        let title = format!("Nanoseconds per operation by size, {temperature}");
        write(&directory.join(format!("{name}-{temperature}.svg")), &plot::grid(&title, &panels));
        replace(page, &format!("{name} {temperature}"), &ratio_table(&measured, &structures, temperature));
    }
    let memory = Panel {
        title: "bytes an element".to_string(),
        scale: Scale::Linear,
        series: series(&structures, &measured.sizes(), |name, size| measured.bytes(name, size)),
    };
    write(&directory.join(format!("{name}-memory.svg")), &plot::grid("Memory an element by size", &[memory]));
    replace(page, &format!("{name} memory"), &memory_table(&measured, &structures));
    if let Some(size) = measured.sizes().into_iter().rfind(|&size| size <= 1_000_000) {
        replace(page, &format!("{name} side by side"), &side_by_side(&measured, &structures, size));
    }
    let cache_mib = measured.last_level_cache_bytes as f64 / f64::from(1 << 20);
    let machine = format!("{}, last-level cache {cache_mib:.0} MiB.\n", measured.processor);
    replace(page, &format!("{name} machine"), &machine);
}

/// Puts `text` between the marks of `name`, if the page has them.
fn replace(page: &mut String, name: &str, text: &str) {
    let (begin, end) = (format!("<!-- begin {name} -->\n"), format!("<!-- end {name} -->"));
    let Some(start) = page.find(&begin).map(|at| at + begin.len()) else { return };
    let length = page[start..].find(&end).unwrap_or_else(|| panic!("the page lacks {end}"));
    page.replace_range(start..start + length, text);
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    println!("wrote {}", path.display());
}

fn main() {
    let docs: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let plots = docs.join("structures");
    std::fs::create_dir_all(&plots).expect("the docs directory can be written");
    let path = docs.join("structures.md");
    let mut page = std::fs::read_to_string(&path).expect("docs/structures.md is part of the project");
    compare(&ORDERED_SETS, "ordered-sets", &plots, &mut page);
    compare(&MAPS, "maps", &plots, &mut page);
    compare(&SETS, "sets", &plots, &mut page);
    if let Some(measured) = read("small_encodings") {
        replace(&mut page, "small encodings", &plain_table(&measured));
    }
    write(&path, &page);
}
