//! Compiles the C sources beside this file into one archive.

use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=lua-5.1.5");
    let directory = Path::new("lua-5.1.5");
    let entries = directory.read_dir().unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut sources: Vec<_> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
        .collect();
    sources.sort();
    cc::Build::new()
        .files(sources)
        .include(directory)
        // Errors jump without saving the signal mask, which is never changed.
        .define("LUA_USE_ULONGJMP", None)
        .opt_level_str(if std::env::var("OPT_LEVEL").as_deref() == Ok("0") { "1" } else { "3" })
        .warnings(false)
        .compile("lua5.1");
}
