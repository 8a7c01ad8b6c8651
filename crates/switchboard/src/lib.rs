//! Connects AI agents to many MCP (Model Context Protocol) servers and keeps those connections true.

pub mod catalogue;
pub mod error;
pub mod id;
pub mod secret;
pub mod time;
pub mod wire;

pub use error::{Error, ErrorKind, Result};
pub use id::ServerId;
