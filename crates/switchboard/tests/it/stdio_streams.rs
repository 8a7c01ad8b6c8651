//! What child processes write, and what they do not read.

use std::time::{Duration, Instant};

use switchboard::manager::CallLimits;
use switchboard::wire::Json;
use switchboard::{ErrorKind, State, ToolCall};
use switchboard_testing::stdio::{Script, ToolAnswer};

use crate::stdio::{SOON, failed, manager, once, ready, scripted, shell, text_of, wait_for_state, whole, within};

const NOISE: [&str; 5] = ["Starting …", "", "\u{1b}[32mready\u{1b}[0m", "[1,2]", "5"];

#[tokio::test]
async fn b097_lines_that_are_no_messages_are_skipped_and_shown_as_warnings() {
    for script in [Script::modern(), Script::legacy()] {
        let manager = manager().await;
        let script = script.tool("echo", ToolAnswer::Echo).banner(&NOISE).noise(&NOISE);
        let id = ready(&manager, scripted(&script)).await;
        let call = ToolCall::new(id.clone(), "echo").arguments(Json::of(&serde_json::json!({ "a": 1 })).unwrap());
        assert_eq!(text_of(&manager, call).await, r#"{"a":1}"#);
        let status = manager.status(&id).unwrap();
        assert_eq!((status.state, status.error.as_deref()), (State::Ready, None));
        for (shown, reason) in [
            ("Starting …", "not JSON"),
            ("[32mready[0m", "not JSON"),
            ("[1,2]", "not a JSON-RPC message"),
            ("5", "not a JSON-RPC message"),
        ] {
            let text = format!("the server sent a line that is {reason}: {shown}");
            let warning = status.warnings.iter().find(|warning| warning.message == text);
            let warning = warning.unwrap_or_else(|| panic!("no `{text}` in {:?}", status.warnings));
            assert!(warning.count >= 3 && warning.code == "odd_message", "{warning:?}");
        }
        assert_eq!(status.warnings.len(), 4, "an empty line is nothing: {:?}", status.warnings);
    }
}

#[tokio::test]
async fn b099_a_server_that_floods_its_standard_error_is_drained_and_its_last_words_are_shown() {
    for script in [Script::modern(), Script::legacy()] {
        let manager = manager().await;
        let script = script.stderr_before_each(256 << 10).tool("echo", ToolAnswer::Echo);
        let script = script.tool("die", ToolAnswer::Exit(3));
        let id = ready(&manager, scripted(&script)).await;
        for _ in 0..3 {
            assert_eq!(text_of(&manager, ToolCall::new(id.clone(), "echo")).await, "{}");
        }
        let kept = manager.stderr(&id).unwrap().unwrap();
        assert_eq!(kept, "e".repeat(64 << 10), "the last 64 KiB are kept, and no more");
        let error = manager.call(ToolCall::new(id.clone(), "die")).await.unwrap_err();
        let text = whole(&error);
        assert!(text.contains("its last words: eee") && text.len() < 3000, "{} bytes: {text}", text.len());
        let shown = manager.status(&id).unwrap().error.unwrap();
        assert!(shown.contains("exit status: 3") && shown.chars().count() <= 501, "{shown}");
    }
}

#[tokio::test]
async fn b099_the_last_line_is_shown_even_of_a_long_complaint() {
    let complaint = format!("Traceback:\n{}\nKeyError: 'API_KEY'\n", "  at some line\n".repeat(10_000));
    let manager = manager().await;
    let spec = shell("while read -r line; do printf '%s' \"$COMPLAINT\" >&2; exit 1; done")
        .env("COMPLAINT", &complaint[100_000..]);
    let (id, error) = failed(&manager, once(spec)).await;
    assert!(whole(&error).ends_with("KeyError: 'API_KEY'"), "{error:?}");
    let shown = manager.status(&id).unwrap().error.unwrap();
    assert!(shown.ends_with("KeyError: 'API_KEY'") && shown.contains("exit status: 1"), "{shown}");
}

#[tokio::test]
async fn b109_a_line_of_5_mib_in_small_pieces_arrives_and_so_does_the_next() {
    let manager = manager().await;
    let script = Script::both().tool("large", ToolAnswer::Letters(5 << 20)).tool("echo", ToolAnswer::Echo);
    let id = ready(&manager, scripted(&script.in_pieces(1000))).await;
    let (large, small) = tokio::join!(
        text_of(&manager, ToolCall::new(id.clone(), "large")),
        text_of(&manager, ToolCall::new(id.clone(), "echo"))
    );
    assert_eq!((large.len(), small.as_str()), (5 << 20, "{}"));
    assert_eq!(text_of(&manager, ToolCall::new(id, "echo")).await, "{}");
}

#[tokio::test]
async fn a_line_over_the_limit_fails_its_own_call_and_no_other() {
    let manager = manager().await;
    let script = Script::both().tool("large", ToolAnswer::Letters(17 << 20)).tool("echo", ToolAnswer::Echo);
    let id = ready(&manager, scripted(&script.tool("stall", ToolAnswer::Stall))).await;
    let limits = CallLimits::new(Some(SOON), None);
    let stalled = manager.call(ToolCall::new(id.clone(), "stall").limits(limits));
    let large = manager.call(ToolCall::new(id.clone(), "large"));
    let error = tokio::select! {
        stalled = stalled => panic!("{stalled:?}"),
        large = large => large.unwrap_err(),
    };
    assert_eq!((error.kind(), error.data().maybe_ran), (ErrorKind::TooLarge, Some(true)), "{error:?}");
    assert!(whole(&error).contains("larger than the limit of 16777216 bytes"), "{error:?}");
    assert_eq!(text_of(&manager, ToolCall::new(id.clone(), "echo")).await, "{}");
    assert_eq!(manager.status(&id).unwrap().state, State::Ready);
}

#[tokio::test]
async fn a_line_over_the_limit_that_names_its_call_at_its_end_fails_no_other() {
    let manager = manager().await;
    // The first call is kept waiting; the second is answered too large, its id behind the result.
    let script = r#"
        s=xxxxxxxxxxxxxxxx; i=0; while [ $i -lt 10 ]; do s="$s$s"; i=$((i + 1)); done
        call() {
            if [ -z "$first" ]; then first=$id; return; fi
            printf '%s\n' "{\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"$s\",\"id\":$first}]},\"id\":$id}"
            printf '%s\n' "{\"method\":\"notifications/message\",\"params\":{\"data\":\"$s\"}}"
            id=$first
            answer '{"content":[{"type":"text","text":"hello"}]}'
        }"#;
    let mut spec = shell(script);
    spec.limits.message_bytes = 10_000;
    let id = ready(&manager, once(spec)).await;
    let call = || manager.call(ToolCall::new(id.clone(), "echo"));
    let (first, second) = tokio::join!(call(), call());
    let error = second.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error:?}");
    assert!(first.unwrap().result.as_str().contains("hello"));
}

#[tokio::test]
async fn a_huge_banner_costs_nothing() {
    let manager = manager().await;
    // Many lines, and one that is longer than any message may be.
    let mut spec = shell(
        r#"i=0; while [ $i -lt 5000 ]; do echo "line $i of the banner"; i=$((i + 1)); done
        s=xxxxxxxxxxxxxxxx; i=0; while [ $i -lt 13 ]; do s="$s$s"; i=$((i + 1)); done; echo "$s""#,
    );
    spec.limits.message_bytes = 100_000;
    let id = ready(&manager, once(spec)).await;
    assert_eq!(text_of(&manager, ToolCall::new(id.clone(), "echo")).await, "hello");
    let warnings = manager.status(&id).unwrap().warnings;
    assert!(warnings.len() <= 21, "kinds are bounded: {}", warnings.len());
    assert_eq!(warnings.iter().map(|warning| warning.count).sum::<u64>(), 5001);
}

#[tokio::test]
async fn b113_characters_split_between_reads_arrive_unchanged() {
    let said = "— 😀 漢字 \u{2028} \r end";
    let manager = manager().await;
    let script = Script::both().tool("say", ToolAnswer::Says(said.to_owned())).in_pieces(1);
    let id = ready(&manager, scripted(&script)).await;
    assert_eq!(text_of(&manager, ToolCall::new(id.clone(), "say")).await, said);
    assert!(manager.status(&id).unwrap().warnings.is_empty());
}

#[tokio::test]
async fn lines_may_end_as_on_windows() {
    let manager = manager().await;
    let id = ready(&manager, shell(r"end='\r\n'")).await;
    assert_eq!(text_of(&manager, ToolCall::new(id.clone(), "echo")).await, "hello");
    assert!(manager.status(&id).unwrap().warnings.is_empty());
}

#[tokio::test]
async fn a_last_answer_without_a_line_end_still_counts() {
    let manager = manager().await;
    let id =
        ready(&manager, shell(r#"call() { end=''; answer '{"content":[{"type":"text","text":"bye"}]}'; exit 0; }"#))
            .await;
    assert_eq!(text_of(&manager, ToolCall::new(id, "echo")).await, "bye");
}

#[tokio::test]
async fn a_server_that_reads_nothing_costs_its_calls_no_more_than_their_time() {
    let manager = manager().await;
    let id = ready(
        &manager,
        shell(
            r#"list() { answer '{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}'; exec /bin/sleep 100; }"#,
        ),
    )
    .await;
    let large = Json::of(&serde_json::json!({ "text": "x".repeat(1 << 20) })).unwrap();
    let limits = CallLimits::new(Some(Duration::from_millis(300)), None);
    let call = || manager.call(ToolCall::new(id.clone(), "echo").arguments(large.clone()).limits(limits));
    let began = Instant::now();
    let calls: Vec<_> = (0..100).map(|_| call()).collect();
    for outcome in futures_util::future::join_all(calls).await {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
    }
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    manager.close(&id).await.unwrap();
    assert!(began.elapsed() < SOON + Duration::from_secs(6), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_server_that_closes_its_input_fails_at_once_and_says_so() {
    // The second time what was sent has been read already, so that no write fails.
    for start in ["", "read -r line;"] {
        let manager = manager().await;
        let began = Instant::now();
        let (_, error) = failed(&manager, once(shell(&format!("{start} exec 0<&-; exec /bin/sleep 100")))).await;
        assert_eq!(error.kind(), ErrorKind::ConnectFailed);
        assert!(whole(&error).contains("the server closed its input"), "{error:?}");
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    }
}

#[tokio::test]
async fn a_server_that_closes_its_input_later_is_started_again() {
    let manager = manager().await;
    let id = ready(
        &manager,
        shell(r#"call() { answer '{"content":[{"type":"text","text":"1"}]}'; exec 0<&-; exec /bin/sleep 100; }"#),
    )
    .await;
    assert_eq!(text_of(&manager, ToolCall::new(id.clone(), "echo")).await, "1");
    let began = Instant::now();
    // It was on its way already, or the end was seen before, and then it is sent to the next process.
    if let Err(error) = manager.call(ToolCall::new(id.clone(), "echo")).await {
        assert_eq!((error.kind(), error.data().maybe_ran), (ErrorKind::ConnectionLost, Some(true)), "{error:?}");
    }
    wait_for_state(&manager, &id, State::Ready).await;
    assert_eq!(text_of(&manager, ToolCall::new(id, "echo")).await, "1");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_server_that_closes_its_output_and_lives_on_is_ended_and_started_again() {
    let pids = crate::stdio::Pids::new();
    let manager = manager().await;
    let script = Script::legacy().tool("echo", ToolAnswer::Echo).tool("again", ToolAnswer::Echo);
    let script = script.closes_on("tools/call").lingers().ignores_eof().writes_pids_to(&pids.file);
    let id = ready(&manager, scripted(&script)).await;
    let first = pids.wait_for(1).await[0];
    let error = manager.call(ToolCall::new(id.clone(), "echo")).await.unwrap_err();
    assert_eq!((error.kind(), error.data().maybe_ran), (ErrorKind::ConnectionLost, Some(true)), "{error:?}");
    assert!(whole(&error).contains("the server closed its output"), "{error:?}");
    assert!(switchboard_testing::process::wait_until_gone(first, SOON).await);
    wait_for_state(&manager, &id, State::Ready).await;
    assert_eq!(pids.started().len(), 2);
}

#[tokio::test]
async fn a_daemon_that_holds_the_output_open_does_not_hold_up_the_news_of_the_servers_end() {
    let pids = crate::stdio::Pids::new();
    let manager = manager().await;
    let script = Script::both().tool("die", ToolAnswer::Exit(3)).leaves_child_with_pipe().writes_pids_to(&pids.file);
    let id = ready(&manager, scripted(&script)).await;
    let first = pids.wait_for(2).await;
    let began = Instant::now();
    let error = manager.call(ToolCall::new(id.clone(), "die")).await.unwrap_err();
    assert!(whole(&error).contains("exit status: 3"), "{error:?}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    for pid in first {
        assert!(switchboard_testing::process::wait_until_gone(pid, SOON).await, "the whole group is ended");
    }
    wait_for_state(&manager, &id, State::Ready).await;
}

#[tokio::test]
async fn a_server_that_answers_nothing_fails_when_its_time_is_up() {
    let manager = manager().await;
    let began = Instant::now();
    let spec = within(shell("exec /bin/sleep 100"), (600, 200));
    let (_, error) = failed(&manager, once(spec)).await;
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
    assert!(whole(&error).contains("no answer came in"), "{error:?}");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}
