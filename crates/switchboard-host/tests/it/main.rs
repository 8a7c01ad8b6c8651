//! The API as its callers see it: over a socket, with real managers and scripted servers behind it.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "in a test a panic is the report of a failure")]

mod calls;
mod catalogue;
mod checks;
mod daemon;
mod drift;
mod events;
mod health;
mod input;
mod notices;
mod servers;
mod stop;
