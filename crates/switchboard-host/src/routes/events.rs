//! What happened, as a list or as a stream that goes on.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream, StreamExt};
use http::{HeaderMap, StatusCode, Uri, header};
use serde::Serialize;
use switchboard::ErrorKind;
use switchboard::event::{Event, EventStream};

use super::Routes;
use crate::address::At;
use crate::app::App;
use crate::body::json;
use crate::code::Code;
use crate::openapi::Operation;
use crate::problem::Problem;
use crate::query::Parameters;

/// How often a quiet stream says that it is alive, so that nothing in between cuts it.
const HEARTBEAT: Duration = Duration::from_secs(15);

#[derive(Debug, Serialize)]
struct Events {
    events: Vec<Event>,
}

pub(super) fn routes(routes: Routes) -> Routes {
    routes.get(
        "~/events",
        events,
        Operation::new("events", "listEvents", "The last events; as `text/event-stream` also those to come")
            .query(&["after"])
            .answers(200, "the events after number `after`", "EventList")
            .streams("Event")
            .fails(&[Code::Kind(ErrorKind::InvalidInput), Code::Kind(ErrorKind::Overloaded)]),
    )
}

async fn events(State(app): State<App>, at: At, uri: Uri, headers: HeaderMap) -> Result<Response, Problem> {
    let after = Parameters::read(&uri, &["after"])?.number("after")?;
    if !wants_stream(&headers) {
        let (events, _) = at.manager.events_since(after.unwrap_or(0));
        return json(StatusCode::OK, &Events { events });
    }
    let place = app.followers().clone().try_acquire_owned().map_err(|_| {
        let detail = "as many follow events as may; end one of the others";
        Problem::new(Code::Kind(ErrorKind::Overloaded), detail)
    })?;
    let (past, to_come) = at.manager.events_since(last_event_id(&headers).or(after).unwrap_or(0));
    let stopping = app.host().stopping().clone();
    // The place is given back when the stream ends; the stream ends when the daemon stops.
    let frames = follow(past, to_come).take_until(stopping.cancelled_owned()).map(move |frame| {
        let _held = &place;
        frame
    });
    Ok(Sse::new(frames).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response())
}

fn follow(past: Vec<Event>, to_come: EventStream) -> impl Stream<Item = Result<SseEvent, Infallible>> {
    let to_come = stream::unfold(to_come, |mut events| async move { events.next().await.map(|event| (event, events)) });
    stream::iter(past).chain(to_come).filter_map(|event| std::future::ready(frame(&event).map(Ok)))
}

/// Events carry no name, so that `onmessage` of a browser's `EventSource` sees all of them.
fn frame(event: &Event) -> Option<SseEvent> {
    SseEvent::default().id(event.seq.to_string()).json_data(event).ok()
}

/// Where a client that reconnects goes on.
fn last_event_id(headers: &HeaderMap) -> Option<u64> {
    headers.get("last-event-id")?.to_str().ok()?.trim().parse().ok()
}

fn wants_stream(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted
        .flat_map(|value| value.split(','))
        .any(|range| range.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream")))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_stream_is_sent_to_those_who_ask_for_one() {
        let accept = |value: &'static str| {
            wants_stream(&HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(value))]))
        };
        assert!(accept("text/event-stream") && accept("application/json;q=0.5, Text/Event-Stream;q=1"));
        assert!(!accept("*/*") && !accept("application/json") && !wants_stream(&HeaderMap::new()));
    }

    #[test]
    fn a_client_that_reconnects_goes_on_where_it_was() {
        let with = |value: &'static str| {
            last_event_id(&HeaderMap::from_iter([("last-event-id".parse().unwrap(), HeaderValue::from_static(value))]))
        };
        assert_eq!((with("17"), with("x"), last_event_id(&HeaderMap::new())), (Some(17), None, None));
    }
}
