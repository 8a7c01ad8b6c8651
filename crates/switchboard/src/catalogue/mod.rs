//! What a model is shown of the servers' tools, and what it is given back: names, schemas, provider formats, results.
//!
//! Pure functions over one tool or one result at a time. Nothing here does I/O, waits, locks or looks at a clock.

pub mod naming;

pub use naming::ToolKey;
