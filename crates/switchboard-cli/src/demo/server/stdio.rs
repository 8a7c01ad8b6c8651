//! The demo server on standard streams: a message a line.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};

use super::{Fault, answer, response};
use crate::args::Eras;
use crate::problem::{Failure, Problem, Result};

/// Answers until the client closes its end.
pub(super) async fn serve(
    input: impl AsyncRead + Unpin,
    mut output: impl AsyncWrite + Unpin,
    eras: Eras,
) -> Result<()> {
    let mut lines = BufReader::new(input).lines();
    while let Some(line) = lines.next_line().await.map_err(failed)? {
        if let Some(message) = reply(&line, eras) {
            output.write_all(format!("{message}\n").as_bytes()).await.map_err(failed)?;
            output.flush().await.map_err(failed)?;
        }
    }
    Ok(())
}

/// What a line is answered; nothing for notifications.
fn reply(line: &str, eras: Eras) -> Option<Value> {
    if line.trim().is_empty() {
        return None;
    }
    let Ok(message) = serde_json::from_str::<Value>(line) else {
        return Some(response(&Value::Null, Err(Fault::new(-32700, "this line is not JSON"))));
    };
    match (message.get("id"), message.get("method")) {
        (Some(id), Some(_)) => Some(response(id, answer(&message, eras))),
        // Notifications and answers need none.
        (None, Some(_)) | (Some(_), None) => None,
        (None, None) => Some(response(&json!(null), Err(Fault::new(-32600, "this is not a JSON-RPC message")))),
    }
}

fn failed(cause: std::io::Error) -> Failure {
    if cause.kind() == std::io::ErrorKind::BrokenPipe {
        return Failure::ClosedPipe;
    }
    Problem::new("connection_lost", "the client's streams failed").because(cause).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn talk(lines: &str, eras: Eras) -> Vec<Value> {
        let (mut ours, theirs) = tokio::io::duplex(1 << 16);
        let (input, output) = tokio::io::split(theirs);
        ours.write_all(lines.as_bytes()).await.unwrap();
        let (mut answers, mut closing) = tokio::io::split(ours);
        closing.shutdown().await.unwrap();
        serve(input, output, eras).await.unwrap();
        let mut text = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut answers, &mut text).await.unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[tokio::test]
    async fn a_legacy_session_runs_over_a_pipe() {
        let lines = concat!(
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}"#,
            "\n",
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            "\n\n",
            r#"{"jsonrpc":"2.0","id":"b","method":"tools/call","params":{"name":"echo","arguments":{"message":"hi"}}}"#,
            "\n",
        );
        let answers = talk(lines, Eras::Legacy).await;
        assert_eq!(answers.len(), 2, "the notification and the empty line are not answered");
        assert_eq!(answers[0]["result"]["protocolVersion"], "2025-11-25");
        assert_eq!(answers[1]["id"], "b");
        assert_eq!(answers[1]["result"]["content"][0]["text"], "hi");
    }

    #[tokio::test]
    async fn garbage_is_answered_and_the_next_line_still_works() {
        let answers = talk("garbage\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n", Eras::Both).await;
        assert_eq!(answers[0]["error"]["code"], -32700);
        assert_eq!(answers[1]["result"], json!({}));
    }
}
