//! `warmline-check-rdb`: reads an RDB file to its end, keeping nothing, and says what is wrong with it.

use super::rdb::Loader;
use super::rdb::load::{LoadOptions, Reason};
use crate::db::Db;
use std::fs::File;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use structures::hash::HashSeed;
use wire::rdb::kind;

/// More databases than any server has.
const DATABASES_MAX: usize = 1 << 16;

/// Checks the file, saying on standard output what is found; whether it is sound.
pub fn check(path: &Path) -> bool {
    println!("[offset 0] Checking RDB file {}", path.display());
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) => {
            println!("Cannot open file {}: {error}", path.display());
            return false;
        }
    };
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
    let options = LoadOptions {
        strict: false,
        verify_checksum: true,
        drop_due: false,
        replaces: false,
        discards: true,
        key_delay_us: 0,
        now_ms,
    };
    let mut db = Db::new(DATABASES_MAX, HashSeed::new(0, 0), 0);
    let mut loader = match Loader::open(file, options) {
        Ok(loader) => loader,
        Err(error) => return refuse(error.at, &error.to_string()),
    };
    if let Err(error) = loader.step(&mut db, &mut || false) {
        let text = match &error.reason {
            Reason::Read(reason) => reason.to_string(),
            _ => error.to_string(),
        };
        refuse(error.at, &text);
        if let Some((key, kind)) = loader.last_key() {
            println!("[additional info] Reading key '{}'", String::from_utf8_lossy(key));
            println!("[additional info] Reading type {kind} ({})", kind::name(kind));
        }
        tell(&loader);
        return false;
    }
    println!("[offset {}] Checksum OK", loader.position());
    println!("[offset {}] \\o/ RDB looks OK! \\o/", loader.position());
    tell(&loader);
    true
}

fn refuse(at: u64, what: &str) -> bool {
    println!("--- RDB ERROR DETECTED ---");
    println!("[offset {at}] {what}");
    false
}

fn tell(loader: &Loader<File>) {
    let figures = loader.figures;
    println!("[info] {} keys read", figures.keys_loaded);
    println!("[info] {} expires", figures.keys_expiring);
    println!("[info] {} already expired", figures.keys_expired);
    println!("[info] {} functions", loader.libraries.len());
}
