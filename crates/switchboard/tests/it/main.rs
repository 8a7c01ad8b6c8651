//! The library's integration tests, all in one binary.

#[cfg(test)]
mod answers;
#[cfg(test)]
mod era;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod ids;
#[cfg(test)]
mod lists;
#[cfg(test)]
mod manager;
#[cfg(test)]
mod restore;
#[cfg(test)]
mod results;
#[cfg(test)]
mod schemas;
#[cfg(test)]
mod sse;
#[cfg(test)]
mod startup;
#[cfg(test)]
mod store;
