//! Scripted MCP peers for tests.

pub mod http;
pub mod memory;
pub mod peer;
pub mod reply;

mod lines;
mod patience;

pub use http::{AnswerWith, Coding, GetStream, HttpPeer, HttpReply, HttpRequest};
pub use patience::Gate;
pub use peer::{Context, Era, LEGACY, MODERN, Peer, Prompt, Resource, Tool};
pub use reply::Reply;
