//! Scripted MCP peers for tests.

pub mod http;
pub mod memory;
pub mod peer;
pub mod process;
pub mod reply;
pub mod stdio;

mod command_line;
mod lines;
mod patience;

pub use command_line::CommandLine;
pub use http::{AnswerWith, Coding, GetStream, HttpPeer, HttpReply, HttpRequest};
pub use patience::Gate;
pub use peer::{Context, Era, LEGACY, MODERN, Peer, Prompt, Resource, Tool};
pub use reply::Reply;
