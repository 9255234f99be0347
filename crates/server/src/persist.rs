//! Files: the data set at one instant (RDB), the commands since (AOF), and the processes that write them.

pub mod aof;
pub mod child;
pub mod file;
pub mod rdb;
