//! The program as a person sees it: what it prints, what it leaves behind, how it ends.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod arguments;
mod calls;
mod daemon;
mod demo;
mod demo_server;
mod doctor;
mod drift;
mod folder;
mod real;
mod servers;
mod watch;
mod world;
