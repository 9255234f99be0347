//! What only the operating system's C interface offers. The server's one home of `unsafe`: each function wraps one
//! call, checks its arguments by their types, and keeps no pointer.

pub mod allocator;
pub mod child;
pub mod crash;
pub mod fiber;
pub mod file;
pub mod lua;
pub mod process;
pub mod socket;
pub mod title;
pub mod world;
