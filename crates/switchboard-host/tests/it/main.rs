//! The API as its callers see it.
