//! Data folders that cannot be used.

use crate::world::{PROGRAM, World, finish};

#[tokio::test]
async fn a_data_folder_that_is_a_file_is_told() {
    let world = World::new();
    std::fs::write(world.home().join("file"), "mine").unwrap();
    for command in [&["list"][..], &["serve", "--listen", "127.0.0.1:0"], &["add", "n", "http://127.0.0.1:1/mcp"]] {
        let line: Vec<&str> = command.iter().copied().chain(["--data", "file", "--json"]).collect();
        let problem = world.run(&line).await.ended(2).problem();
        assert!(problem["detail"].as_str().unwrap().contains("is a file"), "{problem}");
        assert!(problem["hint"].as_str().unwrap().contains("--data"), "{problem}");
    }
    assert_eq!(std::fs::read_to_string(world.home().join("file")).unwrap(), "mine");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_data_folder_that_cannot_be_made_is_told() {
    let world = World::new();
    let ran = world.run(&["list", "--data", "/proc/switchboard"]).await.ended(4);
    assert!(ran.stderr.contains("/proc/switchboard") && ran.stderr.contains("--data DIR"), "{}", ran.stderr);
    assert_eq!(ran.stdout, "");
}

#[cfg(unix)]
#[tokio::test]
async fn a_data_folder_that_cannot_be_written_is_told_and_nothing_is_lost() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    world.add_demo("demo", "both").await.ended(0);
    let mode = |mode| std::fs::set_permissions(world.data(), std::fs::Permissions::from_mode(mode)).unwrap();
    mode(0o500);
    // The superuser may write there all the same; then there is nothing to be told.
    let may_write = std::fs::write(world.data().join("probe"), "").is_ok();
    let ran = world.run(&["add", "other", "http://127.0.0.1:1/mcp"]).await;
    mode(0o700);
    if !may_write {
        let ran = ran.ended(4);
        assert!(ran.stderr.contains("--data DIR") || ran.stderr.contains("writ"), "{}", ran.stderr);
    }
    let servers = world.run(&["list", "--json"]).await.ended(0).json();
    assert_eq!(servers["servers"]["demo"]["state"], "ready");
}

#[cfg(unix)]
#[tokio::test]
async fn a_disk_without_room_is_told_and_nothing_is_lost() {
    let world = World::new();
    world.add_demo("demo", "both").await.ended(0);
    // No file may grow: what a full disk does, without filling one.
    let script = "trap '' XFSZ; ulimit -f 0; exec \"$0\" add other http://127.0.0.1:1/mcp --retry-attempts 1";
    let ran = finish(world.other_command("sh", &["-c", script, PROGRAM])).await.ended(4);
    assert!(ran.stderr.contains("error:"), "{}", ran.stderr);
    let servers = world.run(&["list", "--json"]).await.ended(0).json();
    assert_eq!(servers["servers"]["demo"]["state"], "ready");
    assert!(servers["servers"].get("other").is_none());
}

#[tokio::test]
async fn the_data_folder_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    world.run(&["list"]).await.ended(0);
    let mode = std::fs::metadata(world.data()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}
