//! Options of `--sizing`.

use std::path::PathBuf;

use clap::Args;

/// The options of `--sizing`.
#[derive(Args, Debug)]
pub struct SizingOptions {
    /// Estimate the memory of the server's data in Warmline, from a sample of its keys
    #[arg(long)]
    pub sizing: bool,
    /// Number of keys that --sizing samples in each database
    #[arg(long, value_name = "KEYS", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub sizing_samples: u64,
    /// Maximum number of bytes of values that --sizing reads
    #[arg(long, value_name = "BYTES", default_value_t = 256 << 20, value_parser = clap::value_parser!(u64).range(1..))]
    pub sizing_bytes: u64,
    /// Server program that --sizing starts (default: warmline-server beside this program, else in PATH)
    #[arg(long, value_name = "FILE")]
    pub sizing_server: Option<PathBuf>,
}
