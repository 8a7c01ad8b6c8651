//! Connects AI agents to many MCP (Model Context Protocol) servers and keeps those connections true.

mod backoff;
pub mod catalogue;
mod client;
mod connection;
pub mod error;
pub mod event;
pub mod id;
pub mod manager;
pub mod secret;
mod session;
pub mod spec;
pub mod status;
pub mod store;
mod tasks;
pub mod time;
mod transport;
pub mod wire;

pub use client::Client;
pub use error::{Error, ErrorKind, Result};
pub use id::ServerId;
pub use manager::{Added, CallResult, Filter, Manager, Progress, ProgressStream, Registered, ToolCall};
pub use spec::ServerSpec;
pub use status::State;

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
