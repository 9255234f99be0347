//! Files: the data set at one instant (RDB), the commands since (AOF), and the processes that write them.

// A length that is cut is another length. What is converted all the same says why: see `wire::convert`.
#![cfg_attr(not(test), deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap))]

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
