//! The library's integration tests, all in one binary.

#[cfg(test)]
mod manager;
#[cfg(test)]
mod real;
#[cfg(test)]
#[cfg(unix)]
mod stdio;
#[cfg(test)]
#[cfg(unix)]
mod stdio_commands;
#[cfg(test)]
#[cfg(unix)]
mod stdio_eras;
#[cfg(test)]
#[cfg(unix)]
mod stdio_processes;
#[cfg(test)]
#[cfg(unix)]
mod stdio_streams;
#[cfg(test)]
mod store;
