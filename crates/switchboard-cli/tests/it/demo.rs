//! The demo, as the first thing that a person runs.

use crate::world::{World, finish};

#[tokio::test]
async fn the_demo_needs_nothing_but_the_program_and_leaves_nothing_behind() {
    let world = World::new();
    let temporary = world.home().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let mut command = world.command(&["demo"]);
    // No npx, no home to speak of.
    command.env("PATH", "/nowhere").env("TMPDIR", &temporary);
    let ran = finish(command).await.ended(0);
    for words in [
        "2026-07-28 over stdio",
        "2025-11-25 over stdio",
        "2026-07-28 over streamable-http",
        "2025-11-25 over streamable-http",
        "call add {\"a\":19,\"b\":23} → 42",
        "4 servers are remembered",
        "there is no npx",
    ] {
        assert!(ran.stdout.contains(words), "{words}: {}", ran.stdout);
    }
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
    assert_eq!(std::fs::read_dir(world.home()).unwrap().count(), 1, "the home is as it was");
}
