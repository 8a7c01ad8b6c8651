//! The library's integration tests, all in one binary.

#[cfg(test)]
mod manager;
#[cfg(test)]
mod real;
#[cfg(all(test, unix))]
mod stdio;
#[cfg(all(test, unix))]
mod stdio_commands;
#[cfg(all(test, unix))]
mod stdio_eras;
#[cfg(all(test, unix))]
mod stdio_processes;
#[cfg(all(test, unix))]
mod stdio_streams;
#[cfg(test)]
mod store;
