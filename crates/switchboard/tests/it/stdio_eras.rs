//! How the era of a child process is found out, and how often it is started for that.

use std::time::{Duration, Instant};

use switchboard::{ErrorKind, State, ToolCall};
use switchboard_testing::stdio::{Script, ToolAnswer};

use crate::stdio::{Pids, SOON, failed, lines, manager, once, ready, scripted, shell, text_of, whole, within};

const MODERN: Option<&str> = Some("2026-07-28");
const LEGACY: Option<&str> = Some("2025-11-25");

#[tokio::test]
async fn a_server_of_either_era_is_started_once() {
    for (script, version) in [(Script::modern(), MODERN), (Script::both(), MODERN), (Script::legacy(), LEGACY)] {
        let pids = Pids::new();
        let manager = manager().await;
        let id = ready(&manager, scripted(&script.tool("echo", ToolAnswer::Echo).writes_pids_to(&pids.file))).await;
        assert_eq!(manager.status(&id).unwrap().protocol_version.as_deref(), version);
        assert_eq!(text_of(&manager, ToolCall::new(id, "echo")).await, "{}");
        assert_eq!(pids.started().len(), 1);
    }
}

#[tokio::test]
async fn a_server_that_ends_at_the_probe_is_started_again_as_a_legacy_one_and_this_is_remembered() {
    for does_exit in [true, false] {
        let pids = Pids::new();
        let script =
            Script::legacy().tool("echo", ToolAnswer::Echo).closes_on("server/discover").writes_pids_to(&pids.file);
        let script = if does_exit { script } else { script.lingers() };
        let manager = manager().await;
        let id = ready(&manager, scripted(&script)).await;
        assert_eq!(manager.status(&id).unwrap().protocol_version.as_deref(), LEGACY);
        assert_eq!(pids.started().len(), 2);
        manager.close(&id).await.unwrap();
        assert_eq!(text_of(&manager, ToolCall::new(id, "echo")).await, "{}");
        assert_eq!(pids.started().len(), 3, "the era is known now");
    }
}

#[tokio::test]
async fn a_server_that_never_answers_the_probe_is_taken_for_a_legacy_one_on_the_same_process() {
    let pids = Pids::new();
    let script =
        Script::legacy().tool("echo", ToolAnswer::Echo).stalls_on("server/discover").writes_pids_to(&pids.file);
    let manager = manager().await;
    let began = Instant::now();
    let id = ready(&manager, within(scripted(&script), (20_000, 300))).await;
    assert!(began.elapsed() >= Duration::from_millis(300));
    assert_eq!(manager.status(&id).unwrap().protocol_version.as_deref(), LEGACY);
    assert_eq!(pids.started().len(), 1);
}

#[tokio::test]
async fn a_probe_that_is_answered_too_late_changes_nothing() {
    let pids = Pids::new();
    let late = r#"
        echo "server $$" >> "$PIDS"
        discover() { late=$id; }
        initialize() {
            printf '%s\n' "{\"jsonrpc\":\"2.0\",\"id\":$late,\"result\":{\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":{}}}"
            answer '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}'
        }"#;
    let manager = manager().await;
    let spec = within(shell(late).env("PIDS", pids.file.to_str().unwrap()), (20_000, 300));
    let id = ready(&manager, spec).await;
    let status = manager.status(&id).unwrap();
    assert_eq!(status.protocol_version.as_deref(), LEGACY);
    // An answer to what was given up is nothing odd.
    assert_eq!(status.warnings, []);
    assert_eq!(pids.started().len(), 1);
}

#[tokio::test]
async fn a_modern_server_that_is_slow_to_start_is_asked_again_on_the_same_process() {
    let pids = Pids::new();
    let slow = r#"
        echo "server $$" >> "$PIDS"
        discover() {
            if [ -z "$asked" ]; then asked=$id; else
                answer '{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete"}'
            fi
        }
        initialize() {
            printf '%s\n' "{\"jsonrpc\":\"2.0\",\"id\":$asked,\"result\":{\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":{}}}"
            refuse
        }
        list() { answer '{"tools":[{"name":"echo","inputSchema":{"type":"object"}}],"resultType":"complete"}'; }
        call() { answer '{"content":[{"type":"text","text":"hello"}],"resultType":"complete"}'; }"#;
    let manager = manager().await;
    let spec = within(shell(slow).env("PIDS", pids.file.to_str().unwrap()), (20_000, 300));
    let id = ready(&manager, once(spec)).await;
    assert_eq!(manager.status(&id).unwrap().protocol_version.as_deref(), MODERN);
    assert_eq!(text_of(&manager, ToolCall::new(id, "echo")).await, "hello");
    assert_eq!(pids.started().len(), 1);
}

#[tokio::test]
async fn b111_a_server_that_exits_at_once_fails_at_once_with_its_code_and_its_words() {
    let pids = Pids::new();
    let script = Script::both().exits_at_once(1).stderr("API key missing: set FOO_KEY\n").writes_pids_to(&pids.file);
    let (manager, spec) = (manager().await, once(scripted(&script)));
    let began = Instant::now();
    let (id, error) = failed(&manager, spec).await;
    assert!(began.elapsed() < SOON, "not at the timeout of the handshake: {:?}", began.elapsed());
    assert_eq!(error.kind(), ErrorKind::ConnectFailed);
    let status = manager.status(&id).unwrap();
    for text in [whole(&error), status.error.unwrap()] {
        assert!(text.contains("exit status: 1") && text.contains("API key missing: set FOO_KEY"), "{text}");
    }
    assert_eq!(status.state, State::Failed);
    assert_eq!(pids.started().len(), 1, "not again for the other era");
}

#[tokio::test]
async fn b111_the_waits_before_restarts_grow_and_there_is_no_tight_respawn() {
    let pids = Pids::new();
    let script = Script::legacy().many_tools(1).exits_after("initialize", 0).writes_pids_to(&pids.file);
    let manager = manager().await;
    let mut events = manager.events();
    let (_, id) = manager.register(scripted(&script)).await.unwrap();
    let watching = async {
        let mut next = Vec::new();
        while next.len() < 4 {
            let event = tokio::time::timeout(SOON, events.next()).await.unwrap().unwrap();
            // It is looked at while the event is news, so that what is left of the wait is the whole of it.
            let due = manager.status(&id).unwrap().next_attempt_at;
            if let Some(due) = due.filter(|due| next.last().is_none_or(|(_, last)| last != due)) {
                next.push((due.as_millis() - event.at.as_millis(), due));
            }
        }
        next.into_iter().map(|(wait, _)| wait).collect::<Vec<_>>()
    };
    let waits = tokio::select! {
        added = manager.establish(&id) => panic!("{added:?}"),
        waits = watching => waits,
    };
    let ladder = [500.0, 500.0, 1000.0, 2000.0];
    for (&wait, middle) in waits.iter().zip(ladder) {
        assert!((middle * 0.7..middle * 1.3).contains(&f64::from(u32::try_from(wait).unwrap())), "{waits:?}");
    }
    assert!(pids.started().len() <= 2 * 4, "two starts at most before each wait: {:?}", pids.started().len());
}

#[tokio::test]
async fn b111_a_server_that_exits_in_peace_after_the_handshake_is_named_with_its_code() {
    let script = Script::legacy().many_tools(1).exits_after("initialize", 0).stderr("nothing to do\n");
    let manager = manager().await;
    let mut events = manager.events();
    let (_, id) = manager.register(once(scripted(&script))).await.unwrap();
    let seen = async {
        loop {
            events.next().await.unwrap();
            if let Some(error) = manager.status(&id).unwrap().error {
                return error;
            }
        }
    };
    let seen = tokio::time::timeout(SOON, seen);
    let error = tokio::select! {
        added = manager.establish(&id) => panic!("{added:?}"),
        seen = seen => seen.unwrap(),
    };
    assert!(error.contains("exit status: 0") && error.contains("nothing to do"), "{error}");
}

#[tokio::test]
async fn b055_sixty_servers_that_burn_time_start_a_few_at_a_time_and_all_become_ready() {
    const AT_ONCE: usize = 16;
    let pids = Pids::new();
    // The id is written when a process starts, its `initialize` before that is answered: what is between is starting.
    let script = Script::legacy().burns(Duration::from_millis(100)).writes_pids_to(&pids.file).records_to(&pids.file);
    let manager = manager().await;
    let spec = scripted(&script);
    let adds = (0..60).map(|number| {
        let mut spec = spec.clone();
        spec.name = format!("peer {number}");
        ready(&manager, spec)
    });
    assert_eq!(futures_util::future::join_all(adds).await.len(), 60);
    let (mut starting, mut most, mut started) = (0, 0, 0);
    for line in lines(&pids.file) {
        if line.starts_with("server ") {
            starting += 1;
            started += 1;
        } else if line.contains("\"initialize\"") {
            starting -= 1;
        }
        most = most.max(starting);
    }
    assert_eq!((started, starting), (60, 0));
    assert!(most <= AT_ONCE, "{most} were starting at once");
}

#[tokio::test]
async fn b055_the_wait_for_a_turn_is_not_counted_as_time_to_connect() {
    const AT_ONCE: usize = 16;
    let pids = Pids::new();
    let manager = manager().await;
    let silent = Script::both().stalls_on("server/discover").stalls_on("initialize").writes_pids_to(&pids.file);
    let silent = once(within(scripted(&silent), (4000, 4000)));
    let failing = (0..AT_ONCE).map(|number| {
        let mut spec = silent.clone();
        spec.name = format!("silent {number}");
        failed(&manager, spec)
    });
    let waiting = async {
        pids.wait_for(AT_ONCE).await;
        let began = Instant::now();
        ready(&manager, once(within(scripted(&Script::both()), (4000, 4000)))).await;
        began.elapsed()
    };
    let (_, waited) = tokio::join!(futures_util::future::join_all(failing), waiting);
    assert!(waited >= Duration::from_secs(2), "it had to wait for its turn: {waited:?}");
}
