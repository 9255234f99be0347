//! Files: the data set at one instant (RDB), the commands since (AOF), and the processes that write them.

pub mod child;
pub mod file;
pub mod rdb;
