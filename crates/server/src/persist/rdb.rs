//! RDB files: a snapshot of all databases.
//!
//! ```text
//!  signature | about the file (AUX)... | functions... | for each database: its number, its size, its keys | end
//!  key: [expiry] [idle time or frequency] type key value
//! ```

pub mod load;
pub mod save;
pub mod streamed;

pub use load::{LoadError, Loader, Observer, Reason};
pub use save::{PlaceInStream, Snapshot, write_snapshot};
pub use streamed::StreamedLoad;
