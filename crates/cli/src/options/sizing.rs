//! Options of `--sizing`.

use std::path::PathBuf;

use clap::Args;

/// Its options.
#[derive(Args, Debug)]
pub struct SizingOptions {
    /// Estimate what the server's data would take in Warmline, from a sample of its keys
    #[arg(long)]
    pub sizing: bool,
    /// Keys of each database that --sizing looks at
    #[arg(long, value_name = "KEYS", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub sizing_samples: u64,
    /// Bytes of values that --sizing reads, after which its sample ends
    #[arg(long, value_name = "BYTES", default_value_t = 256 << 20, value_parser = clap::value_parser!(u64).range(1..))]
    pub sizing_bytes: u64,
    /// Server program that --sizing measures with (default: warmline-server beside this program, else in PATH)
    #[arg(long, value_name = "FILE")]
    pub sizing_server: Option<PathBuf>,
}
