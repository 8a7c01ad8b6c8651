//! Hosts Switchboard agents at addresses.
