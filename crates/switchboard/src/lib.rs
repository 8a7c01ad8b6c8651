//! Connects AI agents to many MCP (Model Context Protocol) servers and keeps those connections true.

pub mod error;
pub mod event;
pub mod id;
pub mod manager;
pub mod secret;
pub mod spec;
pub mod status;
pub mod store;
pub mod time;
pub mod wire;

pub use error::{Error, ErrorKind, Result};
pub use id::ServerId;
pub use manager::{Added, CallResult, Filter, Manager, Registered, ToolCall};
pub use spec::ServerSpec;
pub use status::State;
