//! Connects AI agents to many MCP (Model Context Protocol) servers and keeps those connections true.

pub mod error;
pub mod event;
pub mod id;
pub mod secret;
pub mod spec;
pub mod status;
pub mod time;
pub mod wire;

pub use error::{Error, ErrorKind, Result};
pub use id::ServerId;
pub use spec::ServerSpec;
pub use status::State;
