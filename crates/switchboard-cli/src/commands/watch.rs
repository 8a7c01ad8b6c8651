//! `watch`: follows what happens, as lines of JSON in a pipe, as a table that is drawn anew on a terminal.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::Value;
use switchboard::time::Timestamp;
use switchboard::wire::Json;
use tokio::time::{Instant, timeout_at};

use crate::args::Watch;
use crate::backend::{Backend, Feed, Wake};
use crate::problem::{Exit, Result};
use crate::session::Session;
use crate::table::{Cell, Table};
use crate::views::text;

/// How many events are shown below the table.
const SHOWN: usize = 8;

/// How soon it is drawn anew when something happens; what happens meanwhile is in the same picture.
const BETWEEN: Duration = Duration::from_millis(100);

/// How often the table is drawn anew when nothing happens, so that its ages grow.
const TICK: Duration = Duration::from_secs(1);

pub(super) async fn run(watch: &Watch, session: &Session) -> Result<Exit> {
    let backend = session.backend(Wake::Everything).await?;
    let mut feed = backend.events(watch.after).await?;
    if session.output.is_live() {
        live(&backend, &mut feed, session).await?;
    } else {
        while let Some(event) = feed.next().await? {
            session.output.json(event.as_str())?;
        }
    }
    Ok(Exit::Done)
}

async fn live(backend: &Backend, feed: &mut Feed, session: &Session) -> Result<()> {
    let mut last = VecDeque::new();
    session.output.raw(b"\x1b[2J")?;
    loop {
        let screen = screen(backend, &last, session.settings.color).await?;
        // To the top, and what the last picture left below goes.
        session.output.raw(format!("\u{1b}[H\u{1b}[J{screen}").as_bytes())?;
        let drawn = Instant::now();
        let mut next = drawn + TICK;
        while let Ok(event) = timeout_at(next, feed.next()).await {
            let Some(event) = event? else { return Ok(()) };
            last.push_back(event);
            while last.len() > SHOWN {
                last.pop_front();
            }
            next = next.min(drawn + BETWEEN);
        }
    }
}

async fn screen(backend: &Backend, last: &VecDeque<Json>, color: bool) -> Result<String> {
    let mut screen = backend.servers_view().await?.table(Timestamp::now()).text(color);
    let mut events = Table::new(["AT", "EVENT", "SERVER", "DETAILS"]);
    for event in last {
        let event = event.to_value();
        let details = event.get("payload").filter(|payload| !payload.is_null()).map(Value::to_string);
        events.row([
            text(&event, "at").get(11..19).unwrap_or_default().into(),
            text(&event, "type").into(),
            text(&event, "serverId").into(),
            Cell::short(&details.unwrap_or_default(), 60),
        ]);
    }
    if events.len() > 0 {
        screen.push('\n');
        screen.push_str(&events.text(color));
    }
    Ok(screen)
}
