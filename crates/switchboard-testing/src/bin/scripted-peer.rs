//! A scripted MCP peer over stdin and stdout. See `switchboard_testing::stdio`.

fn main() {
    std::process::exit(switchboard_testing::stdio::run())
}
