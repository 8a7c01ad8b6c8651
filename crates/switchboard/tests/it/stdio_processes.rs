//! How child processes and all that they start come to their end.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use switchboard::{ErrorKind, Manager, ServerSpec, State, ToolCall};
use switchboard_testing::process::{
    Process, is_alive, is_group_alive, wait_until, wait_until_gone, wait_until_group_gone, zombie_children,
};
use switchboard_testing::stdio::{Script, ToolAnswer};

use crate::stdio::{Pids, SOON, failed, lines, manager, once, ready, scripted, shell, text_of, wait_for_state, whole};

/// The stop ladder of a child, and some time for a busy machine: two waits of 2 s, and the kill.
const LADDER: Duration = Duration::from_secs(12);

async fn no_zombies() -> bool {
    wait_until(SOON, || zombie_children().is_empty()).await
}

#[tokio::test]
async fn b101_the_whole_group_behind_a_launcher_is_gone_within_the_grace_time() {
    let stubborn = |script: Script| script.ignores_eof().ignores_terminate();
    let rows = [
        ("polite", Script::both().behind_launcher(), 2),
        ("ignores the end of its input", Script::both().behind_launcher().ignores_eof(), 2),
        ("ignores SIGTERM too", stubborn(Script::both().behind_launcher()), 2),
        ("leaves a child that ignores SIGTERM", Script::both().leaves_stubborn_child(), 2),
        ("leaves a child with its output", Script::both().leaves_child_with_pipe(), 2),
    ];
    let closes = rows.map(|(what, script, processes)| async move {
        let pids = Pids::new();
        let manager = manager().await;
        let id = ready(&manager, scripted(&script.tool("echo", ToolAnswer::Echo).writes_pids_to(&pids.file))).await;
        let started = pids.wait_for(processes).await;
        let group = Process::find(started[0]).unwrap().group;
        assert!(started.contains(&group), "{what}: it is a group of its own");
        for pid in &started {
            assert_eq!(Process::find(*pid).unwrap().group, group, "{what}");
        }
        let began = Instant::now();
        manager.close(&id).await.unwrap();
        assert!(began.elapsed() < LADDER, "{what}: {:?}", began.elapsed());
        assert!(wait_until_group_gone(group, Duration::from_secs(5)).await, "{what}: something lives on");
        assert_eq!(manager.status(&id).unwrap().state, State::Closed);
    });
    futures_util::future::join_all(closes).await;
    assert!(no_zombies().await, "{:?}", zombie_children());
}

#[tokio::test]
async fn a_polite_child_is_gone_without_any_signal() {
    let manager = manager().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("end");
    let id = ready(
        &manager,
        shell(r#"trap 'echo term >> "$FILE"' TERM; serve; echo end >> "$FILE"; exit 0"#)
            .env("FILE", file.to_str().unwrap()),
    )
    .await;
    manager.close(&id).await.unwrap();
    assert_eq!(lines(&file), ["end"]);
}

#[tokio::test]
async fn what_a_launcher_leaves_behind_has_the_same_time_to_end() {
    let manager = manager().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("end");
    // The server needs a moment after the end of its input; its launcher does not wait for it.
    let script = r#"
        exec 3<&0
        (trap 'echo term >> "$FILE"' TERM; serve; /bin/sleep 0.5; echo end >> "$FILE") <&3 &
        exec <&- 3<&-
        until [ -e "$FILE.closed" ]; do /bin/sleep 0.05; done
        exit 0"#;
    let id = ready(&manager, shell(script).env("FILE", file.to_str().unwrap())).await;
    std::fs::write(folder.path().join("end.closed"), "").unwrap();
    manager.close(&id).await.unwrap();
    assert_eq!(lines(&file), ["end"]);
}

/// Not a test by itself: the process that [`b103_servers_of_a_killed_manager_are_gone_soon`] kills.
#[tokio::test]
#[ignore = "runs as the child of another test"]
async fn a_manager_to_be_killed() {
    #[expect(clippy::disallowed_methods, reason = "a test hands its child a file through the environment")]
    let Some(file) = std::env::var_os("SWITCHBOARD_TEST_PIDS") else { return };
    let manager = manager().await;
    let deaf = Script::both().ignores_eof().ignores_terminate().writes_pids_to(file.as_ref());
    let behind = Script::legacy().behind_launcher().ignores_eof().writes_pids_to(file.as_ref());
    ready(&manager, scripted(&deaf)).await;
    ready(&manager, scripted(&behind)).await;
    std::fs::write(std::path::Path::new(&file).with_extension("ready"), "").unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn b103_servers_of_a_killed_manager_are_gone_soon() {
    let pids = Pids::new();
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["stdio_processes::a_manager_to_be_killed", "--exact", "--ignored"])
        .env("SWITCHBOARD_TEST_PIDS", &pids.file)
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let is_ready = pids.file.with_extension("ready");
    assert!(wait_until(SOON + SOON, || is_ready.exists()).await, "the child is not ready");
    let started = pids.started();
    assert_eq!(started.len(), 3);
    let all: Vec<u32> =
        Process::all().into_iter().filter(|process| process.parent == child.id()).map(|it| it.pid).collect();
    assert!(all.len() > 2, "the servers and their watchdogs: {all:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    for pid in started.into_iter().chain(all) {
        assert!(wait_until_gone(pid, Duration::from_secs(10)).await, "{pid} lives on");
    }
}

#[tokio::test]
async fn dropping_the_manager_kills_every_group() {
    let pids = Pids::new();
    let manager = manager().await;
    let stubborn = Script::both().behind_launcher().ignores_eof().ignores_terminate().writes_pids_to(&pids.file);
    let polite = Script::both().leaves_stubborn_child().writes_pids_to(&pids.file);
    ready(&manager, scripted(&stubborn)).await;
    ready(&manager, scripted(&polite)).await;
    let started = pids.wait_for(4).await;
    drop(manager);
    for pid in started {
        assert!(wait_until_gone(pid, Duration::from_secs(10)).await, "{pid} lives on");
    }
    assert!(no_zombies().await, "{:?}", zombie_children());
}

#[tokio::test]
async fn dropping_the_manager_while_a_server_starts_kills_it() {
    let pids = Pids::new();
    let manager = manager().await;
    let script = Script::both().stalls_on("server/discover").ignores_eof().writes_pids_to(&pids.file);
    let (_, id) = manager.register(scripted(&script)).await.unwrap();
    let started = tokio::select! {
        added = manager.establish(&id) => panic!("{added:?}"),
        started = pids.wait_for(1) => started,
    };
    drop(manager);
    assert!(wait_until_gone(started[0], Duration::from_secs(10)).await);
}

#[tokio::test]
async fn shutdown_ends_ten_children_at_the_same_time() {
    let pids = Pids::new();
    let manager = manager().await;
    let polite = Script::both().writes_pids_to(&pids.file);
    let adds = (0..10).map(|number| {
        let script = match number % 3 {
            0 => polite.clone(),
            1 => polite.clone().ignores_eof(),
            _ => polite.clone().ignores_eof().ignores_terminate(),
        };
        let mut spec = scripted(&script);
        spec.name = format!("peer {number}");
        ready(&manager, spec)
    });
    futures_util::future::join_all(adds).await;
    let started = pids.wait_for(10).await;
    let began = Instant::now();
    manager.shutdown(Duration::from_secs(1)).await;
    assert!(began.elapsed() < LADDER, "{:?}", began.elapsed());
    for pid in started {
        assert!(wait_until_gone(pid, Duration::from_secs(5)).await, "{pid} lives on");
    }
    assert!(no_zombies().await, "{:?}", zombie_children());
}

#[tokio::test]
async fn closing_ends_open_calls_with_server_closed() {
    for script in [Script::both(), Script::both().ignores_eof().ignores_terminate()] {
        let manager = manager().await;
        let folder = tempfile::tempdir().unwrap();
        let record = folder.path().join("record");
        let id = ready(&manager, scripted(&script.tool("stall", ToolAnswer::Stall).records_to(&record))).await;
        let call = manager.call(ToolCall::new(id.clone(), "stall"));
        let began = Instant::now();
        let close = async {
            switchboard_testing::stdio::wait_for_recorded(&record, "tools/call").await;
            manager.close(&id).await.unwrap();
            began.elapsed()
        };
        let ((outcome, ended), closed) = tokio::join!(async { (call.await, began.elapsed()) }, close);
        let error = outcome.unwrap_err();
        assert_eq!((error.kind(), error.data().maybe_ran), (ErrorKind::ServerClosed, Some(true)), "{error:?}");
        assert!(ended <= closed && closed < LADDER, "{ended:?} {closed:?}");
        assert_eq!(manager.status(&id).unwrap().state, State::Closed);
    }
}

#[tokio::test]
async fn removing_a_server_that_is_starting_ends_it_and_its_add() {
    let pids = Pids::new();
    let manager = manager().await;
    let script =
        Script::both().stalls_on("server/discover").ignores_eof().ignores_terminate().writes_pids_to(&pids.file);
    let spec = scripted(&script).id("slow").unwrap();
    let remove = async {
        let started = pids.wait_for(1).await;
        let began = Instant::now();
        assert!(manager.remove(&switchboard::ServerId::parse("slow").unwrap()).await.unwrap());
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        started
    };
    let (added, started) = tokio::join!(failed(&manager, spec), remove);
    assert_eq!(added.1.kind(), ErrorKind::ServerClosed, "{:?}", added.1);
    assert!(wait_until_gone(started[0], Duration::from_secs(10)).await);
    assert!(manager.registrations().is_empty());
}

#[tokio::test]
async fn removing_a_stubborn_server_does_not_wait_for_it_but_ends_it() {
    let pids = Pids::new();
    let manager = manager().await;
    let script = Script::both().ignores_eof().ignores_terminate().writes_pids_to(&pids.file);
    let id = ready(&manager, scripted(&script)).await;
    let began = Instant::now();
    assert!(manager.remove(&id).await.unwrap());
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    assert!(wait_until_gone(pids.started()[0], LADDER).await);
}

#[tokio::test]
async fn closing_a_stubborn_server_returns_soon_and_the_next_process_starts_when_it_is_gone() {
    let pids = Pids::new();
    let manager = manager().await;
    let script = Script::both().tool("echo", ToolAnswer::Echo).ignores_eof().ignores_terminate();
    let id = ready(&manager, scripted(&script.writes_pids_to(&pids.file))).await;
    let began = Instant::now();
    manager.close(&id).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    assert_eq!(manager.status(&id).unwrap().state, State::Closed);
    manager.establish(&id).await.unwrap();
    let started = pids.started();
    assert_eq!(started.len(), 2);
    assert!(!is_alive(started[0]), "two never run at a time");
}

#[tokio::test]
async fn b051_a_server_that_never_answers_ping_is_not_started_again() {
    let pids = Pids::new();
    let heard = pids.file.with_extension("heard");
    let script = Script::legacy().tool("echo", ToolAnswer::Echo).stalls_on("ping").writes_pids_to(&pids.file);
    let mut spec = scripted(&script.records_to(&heard));
    spec.timeouts.heartbeat = Duration::from_secs(1);
    spec.timeouts.probe = Duration::from_millis(500);
    let manager = manager().await;
    let id = ready(&manager, spec).await;
    let pings = || lines(&heard).iter().filter(|line| line.contains("\"ping\"")).count();
    assert!(wait_until(SOON, || pings() >= 2).await, "{} pings", pings());
    assert_eq!((manager.status(&id).unwrap().state, pids.started().len()), (State::Ready, 1));
}

#[tokio::test]
async fn a_server_that_crashes_at_a_method_it_does_not_know_is_spoken_to_in_its_era_by_the_next_attempt() {
    let pids = Pids::new();
    let crash = format!("echo \"server $$\" >> '{}'; discover() {{ exit 3; }}", pids.file.display());
    let manager = manager().await;
    let id = ready(&manager, shell(&crash)).await;
    assert_eq!(text_of(&manager, ToolCall::new(id, "echo")).await, "hello");
    assert_eq!(pids.started().len(), 2);
}

#[tokio::test]
async fn a_server_that_exits_during_a_call_ends_the_call_and_comes_back_by_itself() {
    let pids = Pids::new();
    let manager = manager().await;
    let script = Script::both().tool("die", ToolAnswer::Exit(3)).tool("echo", ToolAnswer::Echo);
    let id = ready(&manager, scripted(&script.writes_pids_to(&pids.file))).await;
    let error = manager.call(ToolCall::new(id.clone(), "die")).await.unwrap_err();
    assert_eq!((error.kind(), error.data().maybe_ran), (ErrorKind::ConnectionLost, Some(true)), "{error:?}");
    assert!(whole(&error).contains("the server's process ended (exit status: 3)"), "{error:?}");
    pids.wait_for(2).await;
    wait_for_state(&manager, &id, State::Ready).await;
    assert_eq!(text_of(&manager, ToolCall::new(id.clone(), "echo")).await, "{}");
    assert_eq!(pids.started().len(), 2, "the call was not sent again");
    assert_eq!(manager.status(&id).unwrap().error, None);
}

#[tokio::test]
async fn a_call_right_after_the_loss_waits_for_the_server_to_come_back() {
    let manager = manager().await;
    let script = Script::both().tool("die", ToolAnswer::Exit(3)).tool("echo", ToolAnswer::Echo);
    let id = ready(&manager, scripted(&script)).await;
    manager.call(ToolCall::new(id.clone(), "die")).await.unwrap_err();
    assert_eq!(text_of(&manager, ToolCall::new(id, "echo")).await, "{}");
}

#[tokio::test]
async fn a_server_that_is_killed_is_named_with_the_signal() {
    let pids = Pids::new();
    let manager = manager().await;
    let script = Script::both().tool("stall", ToolAnswer::Stall).writes_pids_to(&pids.file);
    let id = ready(&manager, scripted(&script)).await;
    let pid = pids.started()[0];
    let call = manager.call(ToolCall::new(id.clone(), "stall"));
    let kill = async {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
    };
    let (call, ()) = tokio::join!(call, kill);
    let error = call.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionLost);
    assert!(whole(&error).contains("signal: 9 (SIGKILL)"), "{error:?}");
    wait_for_state(&manager, &id, State::Ready).await;
}

#[tokio::test]
async fn a_lost_server_takes_its_whole_group_with_it() {
    let pids = Pids::new();
    let manager = manager().await;
    let script = Script::both().tool("die", ToolAnswer::Exit(3)).leaves_stubborn_child().writes_pids_to(&pids.file);
    let id = ready(&manager, scripted(&script)).await;
    let group = Process::find(pids.wait_for(2).await[0]).unwrap().group;
    manager.call(ToolCall::new(id, "die")).await.unwrap_err();
    assert!(wait_until_group_gone(group, Duration::from_secs(10)).await);
}

#[tokio::test]
async fn closing_and_opening_again_starts_a_new_process() {
    let pids = Pids::new();
    let manager = manager().await;
    let id = ready(&manager, scripted(&Script::both().tool("echo", ToolAnswer::Echo).writes_pids_to(&pids.file))).await;
    manager.close(&id).await.unwrap();
    assert!(!is_group_alive(pids.started()[0]));
    assert!(matches!(manager.establish(&id).await.unwrap(), switchboard::Added::Ready { .. }));
    assert_eq!(pids.started().len(), 2);
}

#[tokio::test]
async fn a_client_that_cannot_connect_leaves_no_process() {
    let pids = Pids::new();
    let script =
        Script::both().stalls_on("server/discover").stalls_on("initialize").ignores_eof().writes_pids_to(&pids.file);
    let spec: ServerSpec = once(crate::stdio::within(scripted(&script), (800, 300)));
    let error = Manager::builder("test", "1").connect(spec).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
    assert!(wait_until_gone(pids.started()[0], Duration::from_secs(10)).await);
}
