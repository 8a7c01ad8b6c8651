//! npm's reference server, as a person at a terminal uses it: over stdio and over HTTP, with a daemon and without, today
//! and after a crash.

use switchboard_testing::real;

use crate::world::World;

/// What each server answers, whoever holds the store.
async fn use_both(world: &World) {
    let listed = world.run(&["list", "--json"]).await.ended(0).json();
    for id in ["everything", "remote"] {
        assert_eq!(listed["servers"][id]["state"], "ready", "{}", listed["servers"][id]);
        let tools = world.run(&["tools", "--server", id]).await.ended(0);
        assert!(tools.stdout.contains(&format!("tool_{id}_echo")), "{}", tools.stdout);
        let answer = world.run(&["call", &format!("{id}/echo"), "message=hi"]).await.ended(0);
        assert_eq!(answer.stdout, "Echo: hi\n");
        let sum = world.run(&["call", &format!("tool_{id}_get-sum"), "a=2", "b=3", "--json"]).await.ended(0).json();
        assert_eq!(sum["content"][0]["type"], "text");
    }
    let resources = world.run(&["resources"]).await.ended(0);
    assert!(resources.stdout.contains("everything") && resources.stdout.contains("remote"), "{}", resources.stdout);
    let prompts = world.run(&["prompts"]).await.ended(0);
    assert!(prompts.stdout.contains("simple-prompt"), "{}", prompts.stdout);
    world.run(&["prompt", "everything", "simple-prompt"]).await.ended(0);
}

#[tokio::test]
async fn npms_reference_server_is_used_over_stdio_and_http_with_and_without_a_daemon() {
    let world = World::new();
    let remote = real::everything_over_http().await;
    let command = real::everything();
    let mut line = vec!["add", "everything", "--"];
    let words = command.words();
    line.extend(words.iter().map(String::as_str));
    let added = world.run(&line).await.ended(0);
    assert!(added.stdout.starts_with("everything is ready"), "{}", added.stdout);
    world.run(&["add", "remote", &remote.url()]).await.ended(0);
    use_both(&world).await;

    let daemon = world.daemon().await;
    use_both(&world).await;
    daemon.kill().await;
    use_both(&world).await;

    let again = world.daemon().await;
    use_both(&world).await;
    assert!(again.stop("TERM").await.success());
    use_both(&world).await;
}
