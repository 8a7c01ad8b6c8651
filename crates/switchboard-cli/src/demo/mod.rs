//! The demo: a small MCP server that the binary carries, and the tour that shows what Switchboard does with it.

mod npx;
mod process;
pub(crate) mod server;
pub(crate) mod tour;
