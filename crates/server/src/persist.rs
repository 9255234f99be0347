//! Files: the data set at one instant (RDB), the commands since (AOF), and the processes that write them.

pub mod aof;
pub mod check_aof;
pub mod check_rdb;
pub mod child;
pub mod migration;
pub mod rdb;
