//! Prints the description of the HTTP API, which `docs/openapi.json` keeps.

use std::io::Write;

fn main() -> std::io::Result<()> {
    writeln!(std::io::stdout(), "{}", switchboard_host::openapi_json())
}
