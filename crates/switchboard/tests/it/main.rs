//! The library's integration tests, all in one binary.

#[cfg(test)]
mod answers;
#[cfg(test)]
mod calls;
#[cfg(test)]
mod closing;
#[cfg(test)]
mod drift;
#[cfg(test)]
mod era;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod field;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod fleet;
#[cfg(test)]
mod heartbeat;
#[cfg(test)]
mod http_errors;
#[cfg(test)]
mod ids;
#[cfg(test)]
mod legacy_sse;
#[cfg(test)]
mod listen;
#[cfg(test)]
mod lists;
#[cfg(test)]
mod manager;
#[cfg(test)]
mod notices;
#[cfg(test)]
mod real;
#[cfg(test)]
mod replay;
#[cfg(test)]
mod restore;
#[cfg(test)]
mod results;
#[cfg(test)]
mod resuming;
#[cfg(test)]
mod schemas;
#[cfg(test)]
mod sessions;
#[cfg(test)]
mod sse;
#[cfg(test)]
mod startup;
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
#[cfg(test)]
mod storm;
#[cfg(test)]
mod streams;
