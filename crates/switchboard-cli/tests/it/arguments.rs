//! What is typed wrong, help, completions, and closed pipes.

use std::process::Stdio;

use crate::world::{World, finish};

#[tokio::test]
async fn the_version_and_help_are_printed_without_touching_the_home() {
    let world = World::new();
    let version = world.run(&["--version"]).await.ended(0);
    assert_eq!(version.stdout, format!("switchboard {}\n", env!("CARGO_PKG_VERSION")));
    let help = world.run(&["--help"]).await.ended(0);
    for command in ["serve", "demo", "add", "list", "doctor", "call", "watch", "completions"] {
        assert!(help.stdout.contains(&format!("\n  {command} ")), "{command}: {}", help.stdout);
    }
    assert!(!help.stdout.contains("demo-server"), "hidden commands stay hidden");
    assert_eq!(std::fs::read_dir(world.home()).unwrap().count(), 0);
}

#[tokio::test]
async fn wrong_usage_ends_with_2_and_is_a_problem_document_when_json_is_wanted() {
    let world = World::new();
    for line in [&["frobnicate"][..], &["call"], &["add"], &["list", "--nonsense"], &["tools", "--state", "redy"], &[]]
    {
        let ran = world.run(line).await.ended(2);
        assert_eq!(ran.stdout, "", "{line:?}");
        assert!(!ran.stderr.is_empty(), "{line:?}");
    }
    let problem = world.run(&["--json", "frobnicate"]).await.ended(2).problem();
    assert_eq!(problem["code"], "usage");
    assert!(problem["detail"].as_str().unwrap().contains("frobnicate"), "{problem}");
}

#[tokio::test]
async fn bad_registrations_are_refused_before_anything_is_kept() {
    let world = World::new();
    for (line, word) in [
        (&["add", "n", "npx"][..], "--"),
        (&["add", "n", "ftp://h/mcp"], "http"),
        (&["add", "n", "https://user:pass@h/mcp"], "Authorization"),
        (&["add", " ", "http://h/mcp"], "needs a name"),
        (&["add", "n", "http://h/mcp", "--header", "Mcp-Session-Id: x"], "protocol"),
        (&["add", "n", "http://h/mcp", "--retry-attempts", "0"], "maxAttempts"),
        (&["add", "n", "--cwd", "/no/such", "--", "x"], "--cwd"),
    ] {
        let ran = world.run(line).await.ended(2);
        assert!(ran.stderr.contains(word), "{line:?}: {}", ran.stderr);
    }
    assert!(!world.data().exists());
}

#[tokio::test]
async fn several_mistakes_in_a_registration_are_told_at_once() {
    let world = World::new();
    let line = ["--json", "add", "n", "http://h/mcp", "--retry-attempts", "0", "--in-flight", "0"];
    let problem = world.run(&line).await.ended(2).problem();
    assert_eq!(problem["code"], "invalid_input");
    let paths: Vec<_> = problem["errors"].as_array().unwrap().iter().map(|error| error["path"].clone()).collect();
    assert_eq!(paths, ["retry/maxAttempts", "limits/inFlight"]);
}

#[tokio::test]
async fn a_relative_name_of_an_instance_is_refused() {
    let ran = World::new().run(&["--instance", "../x", "list"]).await.ended(2);
    assert!(ran.stderr.contains("--instance"));
}

#[tokio::test]
async fn completions_are_made_for_the_usual_shells() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish"] {
        let ran = world.run(&["completions", shell]).await.ended(0);
        assert!(ran.stdout.contains("switchboard") && ran.stdout.contains("doctor"), "{shell}");
    }
}

#[tokio::test]
async fn a_reader_that_goes_away_is_no_failure() {
    let world = World::new();
    let mut child = world.command(&["completions", "bash"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_full_disk_behind_standard_output_is_told() {
    let world = World::new();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = world.command(&["reference"]);
    command.stdout(full);
    let ran = finish(command).await.ended(4);
    assert!(ran.stderr.contains("output could not be written"), "{}", ran.stderr);
}

#[tokio::test]
async fn no_time_at_all_is_wrong_usage() {
    let world = World::new();
    for option in ["--timeout-ms", "--deadline-ms"] {
        let ran = world.run(&["call", "a/b", option, "0"]).await.ended(2);
        assert!(ran.stderr.contains(option), "{}", ran.stderr);
    }
}

#[tokio::test]
async fn a_list_of_an_empty_registry_says_how_to_add_a_server() {
    let world = World::new();
    for command in ["list", "tools", "prompts", "resources"] {
        let ran = world.run(&[command]).await.ended(0);
        assert!(ran.stderr.contains("switchboard add --help"), "{command}: {}", ran.stderr);
        assert_eq!(ran.stdout, "", "{command}");
    }
}
