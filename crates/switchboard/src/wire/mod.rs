//! What travels between us and a server: JSON-RPC envelopes, framing, versions, and typed views of MCP's objects.
//!
//! Nothing here does I/O. JSON is kept as the bytes it came in; the typed views cut from them.

pub mod frame;
mod json;
pub mod message;
pub mod meta;
pub mod model;
mod scan;
pub mod version;

pub use json::Json;
pub use message::Message;
pub use model::{ListItem, Tool};
pub use version::Era;
