//! Connects AI agents to many MCP (Model Context Protocol) servers and keeps those connections true.

pub mod catalogue;
mod connection;
pub mod error;
pub mod event;
pub mod id;
pub mod secret;
mod session;
pub mod spec;
pub mod status;
pub mod store;
mod tasks;
pub mod time;
mod transport;
pub mod wire;

pub use error::{Error, ErrorKind, Result};
pub use id::ServerId;
pub use spec::ServerSpec;
pub use status::State;
