//! The library's integration tests, all in one binary.

#[cfg(test)]
mod drift;
#[cfg(test)]
mod manager;
#[cfg(test)]
mod store;
