//! What travels between us and a server: JSON-RPC envelopes, framing, versions, and typed views of MCP's objects.
//!
//! Nothing here does I/O. JSON is kept as the bytes it came in; the typed views borrow or cut from them.

mod json;
mod model;

pub use json::Json;
pub use model::Tool;
