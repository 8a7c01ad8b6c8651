//! Placeholder until the store room lands.

/// Where records are kept.
pub trait Store: Send + Sync + 'static {}
