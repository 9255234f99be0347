//! Files: the data set at one instant (RDB), the commands since (AOF), and the processes that write them.

/// Prints a line on standard output. Ignores a closed pipe, so that a check or repair of a file is completed.
macro_rules! print_line {
    ($($argument:tt)*) => {{
        use std::io::Write as _;
        let _unread = writeln!(std::io::stdout(), $($argument)*);
    }};
}

pub mod aof;
pub mod check_aof;
pub mod check_rdb;
pub mod child;
pub mod migration;
pub mod rdb;
pub mod slots;
