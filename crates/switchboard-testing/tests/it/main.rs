//! The peers tested against plain clients: each polite thing is polite, and each rude one really is rude.

mod client;
mod faults;
mod http;
mod memory;
mod real;
mod rmcp;
#[cfg(unix)]
mod stdio;
