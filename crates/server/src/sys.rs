//! What only the operating system's C interface offers. The server's one home of `unsafe`: each function wraps one
//! call, checks its arguments by their types, and keeps no pointer.
//!
//! Invariants of the calls, which SAFETY lines here cite beside those of their own file:
//! 1. A call that is passed numbers alone touches no memory of this process and runs no code of ours.
//! 2. A pointer that is passed is to a value of the type that the call reads or fills, and the value outlives the call.
//! 3. Only the calling thread goes on in a copy of this process, which ends by [`child::exit`] and runs no destructor.

pub mod allocator;
pub mod child;
pub mod crash;
pub mod fiber;
pub mod file;
pub mod locale;
pub mod lua;
pub mod process;
pub mod socket;
pub mod title;
pub mod world;
