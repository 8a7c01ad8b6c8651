//! Hosts Switchboard agents at addresses: the HTTP API of the daemon.
//!
//! A [`Host`] owns the instances of agents, each with its own [`switchboard::Manager`]; [`router`] is its API;
//! [`serve`] serves it on a listener and stops it in order.

mod access;
mod address;
mod app;
mod body;
mod call_table;
mod carry;
mod code;
mod formats;
mod host;
mod instance;
mod metrics;
mod openapi;
mod paging;
mod problem;
mod query;
mod routes;
mod serve;
mod tasks;

pub use access::Access;
pub use app::{ApiOptions, router};
pub use host::{Host, HostError, HostOptions};
pub use instance::InstanceName;
pub use openapi::openapi_json;
pub use serve::{BindError, ServeOptions, Stopped, bind, serve};
