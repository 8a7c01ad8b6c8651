//! Framing as pure parsers: server-sent events and lines. Bytes go in as they arrive, split anywhere; frames come out.
//!
//! Both look at each byte once, whatever the sizes of the pieces, and hold at most one frame of bounded size.

use bytes::{Bytes, BytesMut};
use memchr::{memchr, memchr2};

/// A frame was larger than the limit. The rest of it is skipped; the parser goes on with the next one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a message of more than {limit} bytes")]
pub struct TooLarge {
    /// The limit, in bytes.
    pub limit: usize,
    /// The beginning of the frame, for finding out whose it was.
    pub head: Bytes,
    /// The end of a line; nothing of an event.
    pub tail: Bytes,
}

/// How much of the beginning of an oversized frame is kept.
const HEAD: usize = 4096;
/// How much of its end.
const TAIL: usize = 64;

/// One server-sent event (WHATWG HTML, section 9.2.6).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// The `event` field; empty means `message`.
    pub kind: String,
    /// The `data` lines, joined by line feeds.
    pub data: Bytes,
    /// The `id` field, when this event had one.
    pub id: Option<String>,
    /// The `retry` field in milliseconds, when this event had one.
    pub retry: Option<u64>,
}

/// Takes an event stream apart. Line ends may be LF, CRLF, CR, or mixed, and may be split between pieces.
#[derive(Debug)]
pub struct SseParser {
    limit: usize,
    input: Bytes,
    /// The beginning of a line whose end has not arrived.
    line: BytesMut,
    /// The last byte was a CR: a following LF belongs to it.
    after_cr: bool,
    /// Nothing has been read yet: a byte order mark may come.
    at_start: bool,
    event: PartialEvent,
}

/// An event whose blank line has not come yet.
#[derive(Debug, Default)]
struct PartialEvent {
    kind: String,
    data: BytesMut,
    has_data: bool,
    id: Option<String>,
    retry: Option<u64>,
    is_too_large: bool,
    is_complete: bool,
}

impl PartialEvent {
    fn read_field(&mut self, name: &[u8], value: &[u8], limit: usize) {
        match name {
            b"data" => {
                if self.has_data {
                    self.data.extend_from_slice(b"\n");
                }
                self.has_data = true;
                let room = limit.saturating_sub(self.data.len());
                self.is_too_large |= value.len() > room;
                self.data.extend_from_slice(&value[..value.len().min(room)]);
            }
            b"event" => self.kind = String::from_utf8_lossy(value).into_owned(),
            b"id" if !value.contains(&0) => self.id = Some(String::from_utf8_lossy(value).into_owned()),
            b"retry" if value.iter().all(u8::is_ascii_digit) => {
                self.retry = std::str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
            }
            _ => {}
        }
    }

    /// The event when its blank line has come, and it says anything.
    fn take_complete(&mut self, limit: usize) -> Result<Option<SseEvent>, TooLarge> {
        if !self.is_complete {
            return Ok(None);
        }
        let event = std::mem::take(self);
        let data = event.data.freeze();
        if event.is_too_large {
            return Err(TooLarge { limit, head: data.slice(..data.len().min(HEAD)), tail: Bytes::new() });
        }
        let says_anything = event.has_data || event.id.is_some() || event.retry.is_some();
        Ok(says_anything.then_some(SseEvent { kind: event.kind, data, id: event.id, retry: event.retry }))
    }
}

impl SseParser {
    /// A parser whose events may have `limit` bytes of data at most.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            input: Bytes::new(),
            line: BytesMut::new(),
            after_cr: false,
            at_start: true,
            event: PartialEvent::default(),
        }
    }

    /// Takes in the next piece. Call [`SseParser::next_event`] until it is exhausted before the next piece.
    pub fn push(&mut self, piece: Bytes) {
        debug_assert!(self.input.is_empty(), "the last piece was not exhausted");
        self.input = piece;
    }

    /// The next event of what has been pushed; `None` when more is needed. An event without data is reported when it
    /// carries an id or a retry time.
    ///
    /// # Errors
    /// [`TooLarge`] for an event over the limit, which is skipped.
    pub fn next_event(&mut self) -> Result<Option<SseEvent>, TooLarge> {
        while let Some(at) = self.line_end() {
            let rest = self.input.split_off(at.min(self.input.len()));
            let part = std::mem::replace(&mut self.input, rest);
            let end = self.input.split_to(1);
            self.after_cr = end[0] == b'\r';
            if self.line.is_empty() {
                self.read_line(&part);
            } else {
                self.append_line(&part);
                let line = self.line.split();
                self.read_line(&line);
            }
            if let Some(event) = self.event.take_complete(self.limit)? {
                return Ok(Some(event));
            }
        }
        let part = std::mem::take(&mut self.input);
        self.append_line(&part);
        Ok(None)
    }

    /// The last event of a stream that ended without the blank line that should end each event.
    #[must_use]
    pub fn finish(&mut self) -> Option<SseEvent> {
        if !self.line.is_empty() {
            let line = self.line.split();
            self.read_line(&line);
        }
        self.event.is_complete = true;
        self.event.take_complete(self.limit).ok().flatten()
    }

    /// Where the next line end is in the input.
    fn line_end(&mut self) -> Option<usize> {
        if !self.input.is_empty() && std::mem::take(&mut self.after_cr) && self.input[0] == b'\n' {
            let _ = self.input.split_to(1);
        }
        memchr2(b'\n', b'\r', &self.input)
    }

    /// Keeps the beginning of a line, up to the limit; the rest of a longer one only marks the event.
    fn append_line(&mut self, part: &[u8]) {
        // A line holds the field's name and colon besides the data.
        let room = (self.limit + 64).saturating_sub(self.line.len());
        if part.len() > room {
            self.event.is_too_large = true;
        }
        self.line.extend_from_slice(&part[..part.len().min(room)]);
    }

    fn read_line(&mut self, line: &[u8]) {
        let line = if std::mem::take(&mut self.at_start) {
            line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line)
        } else {
            line
        };
        if line.is_empty() {
            self.event.is_complete = true;
            return;
        }
        let (name, value) = match memchr(b':', line) {
            Some(colon) => (&line[..colon], line[colon + 1..].strip_prefix(b" ").unwrap_or(&line[colon + 1..])),
            None => (line, &b""[..]),
        };
        self.event.read_field(name, value, self.limit);
    }
}

/// Takes a stream apart into lines, as newline-delimited JSON needs it.
#[derive(Debug)]
pub struct LineParser {
    limit: usize,
    input: Bytes,
    line: BytesMut,
    is_too_large: bool,
    /// The end of what did not fit.
    tail: BytesMut,
}

impl LineParser {
    /// A parser whose lines may have `limit` bytes at most.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { limit, input: Bytes::new(), line: BytesMut::new(), is_too_large: false, tail: BytesMut::new() }
    }

    /// Takes in the next piece. Call [`LineParser::next_line`] until it is exhausted before the next piece.
    pub fn push(&mut self, piece: Bytes) {
        debug_assert!(self.input.is_empty(), "the last piece was not exhausted");
        self.input = piece;
    }

    /// The next line without its end (LF or CRLF); `None` when more is needed.
    ///
    /// # Errors
    /// [`TooLarge`] for a line over the limit, which is skipped.
    pub fn next_line(&mut self) -> Result<Option<Bytes>, TooLarge> {
        let Some(at) = memchr(b'\n', &self.input) else {
            let part = std::mem::take(&mut self.input);
            self.append(&part);
            return Ok(None);
        };
        let part = self.input.split_to(at);
        let _ = self.input.split_to(1);
        let line = if self.line.is_empty() && part.len() <= self.limit {
            part
        } else {
            self.append(&part);
            self.line.split().freeze()
        };
        if std::mem::take(&mut self.is_too_large) {
            let head = line.slice(..line.len().min(HEAD));
            // When little did not fit, what did fit goes on into it.
            let mut tail = line[line.len() - line.len().min(TAIL - self.tail.len())..].to_vec();
            tail.extend(self.tail.split());
            return Err(TooLarge { limit: self.limit, head, tail: tail.into() });
        }
        Ok(Some(if line.last() == Some(&b'\r') { line.slice(..line.len() - 1) } else { line }))
    }

    /// The last line of a stream that ended without a line end.
    #[must_use]
    pub fn finish(&mut self) -> Option<Bytes> {
        let line = self.line.split().freeze();
        (!line.is_empty() && !std::mem::take(&mut self.is_too_large)).then_some(line)
    }

    fn append(&mut self, part: &[u8]) {
        let room = self.limit.saturating_sub(self.line.len());
        let (fitting, rest) = part.split_at(part.len().min(room));
        self.line.extend_from_slice(fitting);
        if !rest.is_empty() {
            self.is_too_large = true;
            self.tail.extend_from_slice(&rest[rest.len().saturating_sub(TAIL)..]);
            let excess = self.tail.len().saturating_sub(TAIL);
            let _ = self.tail.split_to(excess);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(pieces: &[&[u8]]) -> Vec<SseEvent> {
        let mut parser = SseParser::new(1 << 20);
        let mut events = Vec::new();
        for piece in pieces {
            parser.push(Bytes::copy_from_slice(piece));
            while let Some(event) = parser.next_event().unwrap() {
                events.push(event);
            }
        }
        events.extend(parser.finish());
        events
    }

    fn data(events: &[SseEvent]) -> Vec<&str> {
        events.iter().map(|event| std::str::from_utf8(&event.data).unwrap()).collect()
    }

    #[test]
    fn b015_any_line_end_ends_a_line_wherever_it_is_split() {
        for end in ["\n", "\r\n", "\r"] {
            let text = format!("event: message{end}data: {{\"id\":1}}{end}{end}data: two{end}{end}");
            assert_eq!(data(&events(&[text.as_bytes()])), ["{\"id\":1}", "two"], "{end:?}");
            let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
            assert_eq!(data(&events(&bytes)), ["{\"id\":1}", "two"], "{end:?} byte by byte");
        }
        assert_eq!(data(&events(&[b"data: one\r", b"\n\r", b"\ndata: two\n\r\n"])), ["one", "two"]);
    }

    #[test]
    fn b017_data_lines_are_joined_by_line_feeds() {
        let found = events(&[b"data: {\"a\":\ndata:1,\ndata:  \"b\":2}\n\n"]);
        assert_eq!(data(&found), ["{\"a\":\n1,\n \"b\":2}"]);
    }

    #[test]
    fn b019_a_long_line_in_small_pieces_takes_linear_time() {
        let body = vec![b'x'; 3 << 20];
        let mut text = b"data: ".to_vec();
        text.extend_from_slice(&body);
        text.extend_from_slice(b"\n\n");
        let mut parser = SseParser::new(16 << 20);
        let mut found = None;
        for piece in text.chunks(1024) {
            parser.push(Bytes::copy_from_slice(piece));
            found = found.or(parser.next_event().unwrap());
        }
        assert_eq!(found.unwrap().data, body);
    }

    #[test]
    fn comments_unknown_fields_and_a_byte_order_mark_are_passed_over() {
        let found = events(&["\u{feff}: hello\nfoo: bar\nid: 7\nretry: 250\nevent: note\ndata\n\n:\n\n".as_bytes()]);
        let event = SseEvent { kind: "note".into(), data: Bytes::new(), id: Some("7".into()), retry: Some(250) };
        assert_eq!(found, [event]);
    }

    #[test]
    fn an_id_with_a_nul_and_a_retry_that_is_no_number_are_ignored() {
        assert_eq!(events(&[b"id: a\0b\nretry: soon\n\n"]), []);
    }

    #[test]
    fn an_event_over_the_limit_is_skipped_and_the_next_one_is_read() {
        let mut parser = SseParser::new(10);
        parser.push(Bytes::from_static(b"data: 0123456789abc\n\ndata: next\n\n"));
        let error = parser.next_event().unwrap_err();
        assert_eq!((error.limit, &error.head[..]), (10, &b"0123456789"[..]));
        assert_eq!(parser.next_event().unwrap().unwrap().data, "next");
    }

    #[test]
    fn a_stream_that_ends_without_a_blank_line_still_gives_its_last_event() {
        assert_eq!(data(&events(&[b"data: last"])), ["last"]);
    }

    fn lines(pieces: &[&[u8]], limit: usize) -> Vec<Result<String, usize>> {
        let mut parser = LineParser::new(limit);
        let mut lines = Vec::new();
        let text = |line: Bytes| String::from_utf8(line.to_vec()).unwrap();
        for piece in pieces {
            parser.push(Bytes::copy_from_slice(piece));
            loop {
                match parser.next_line() {
                    Ok(Some(line)) => lines.push(Ok(text(line))),
                    Ok(None) => break,
                    Err(error) => lines.push(Err(error.head.len())),
                }
            }
        }
        lines.extend(parser.finish().map(|line| Ok(text(line))));
        lines
    }

    #[test]
    fn lines_end_in_a_line_feed_with_or_without_a_carriage_return() {
        let expected = ["one", "", "two", "three"].map(|line| Ok(line.to_owned()));
        assert_eq!(lines(&[b"one\n\r\ntwo\r\nthree"], 100), expected);
        let bytes: Vec<&[u8]> = b"one\n\r\ntwo\r\nthree".chunks(1).collect();
        assert_eq!(lines(&bytes, 100), expected);
    }

    #[test]
    fn a_line_over_the_limit_is_skipped_and_the_next_one_is_read() {
        let expected = [Err(4), Ok("next".to_owned())];
        assert_eq!(lines(&[b"12345\nnext\n"], 4), expected);
        assert_eq!(lines(&[b"12", b"345", b"67\nne", b"xt\n"], 4), expected);
    }

    #[test]
    fn both_ends_of_a_line_over_the_limit_are_kept() {
        let text: String = ('a'..='z').cycle().take(5000).collect();
        for limit in [10, 4990, 4999] {
            let mut parser = LineParser::new(limit);
            for piece in text.as_bytes().chunks(7) {
                parser.push(Bytes::copy_from_slice(piece));
                assert_eq!(parser.next_line(), Ok(None));
            }
            parser.push(Bytes::from_static(b"\n"));
            let error = parser.next_line().unwrap_err();
            assert_eq!(error.head, &text.as_bytes()[..limit.min(HEAD)]);
            assert_eq!(error.tail, &text.as_bytes()[5000 - TAIL..], "{limit}");
        }
    }

    proptest::proptest! {
        #[test]
        fn how_a_stream_is_split_makes_no_difference(text in "([a-z:\\n\\r ]|data: |id: |\\n\\n){0,60}", cuts in proptest::collection::vec(0_usize..60, 0..6)) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            proptest::prop_assert_eq!(events(&pieces), events(&[bytes]));
            proptest::prop_assert_eq!(lines(&pieces, 8), lines(&[bytes], 8));
        }
    }
}
