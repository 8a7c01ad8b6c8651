//! What a model is shown of the servers' tools, and what it is given back: names, schemas, provider formats, results.
//!
//! Pure functions over one tool or one result at a time. Nothing here does I/O, waits, locks or looks at a clock.

mod change;
pub mod check;
pub mod drift;
mod fingerprint;
pub mod format;
pub mod naming;
pub mod output;
pub mod schema;
mod snapshot;
mod warning;

pub use change::{Change, ChangeKind, Severity, changes};
pub use fingerprint::Fingerprint;
pub use format::ToolFormat;
pub use naming::ToolKey;
pub use snapshot::{Listing, ServerCatalogue, ToolSet};
pub use warning::{Warning, WarningCode};

pub(crate) use warning::Warnings;
