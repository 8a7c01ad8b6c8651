//! Bodies of HTTP answers: read in pieces or whole, within a limit, whatever their content coding.

use std::borrow::Cow;
use std::io;
use std::time::Duration;

use async_compression::tokio::bufread::{BrotliDecoder, DeflateDecoder, GzipDecoder, ZlibDecoder};
use bytes::{Bytes, BytesMut};
use futures_util::TryStreamExt;
use http::HeaderMap;
use http_body_util::{BodyDataStream, BodyExt as _};
use hyper::body::{Body as _, Incoming};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead};
use tokio::time::Instant;
use tokio_util::io::{ReaderStream, StreamReader};

use super::TransportError;

/// The content codings that we offer.
pub(super) const ACCEPTED_CODINGS: &str = "gzip, deflate, br";

/// How long the beginning of a body may take to come, where only that is wanted.
const HEAD_TIME: Duration = Duration::from_secs(2);

/// An answer's body, decoded.
pub(crate) enum Body {
    Plain(Incoming),
    /// `deflate`, of which nothing has been read yet.
    Deflate(Option<Box<dyn AsyncBufRead + Send + Unpin>>),
    Decoded(ReaderStream<Box<dyn AsyncRead + Send + Unpin>>),
}

impl Body {
    /// The decoded body of an answer with these headers.
    ///
    /// # Errors
    /// When it has a content coding that we did not offer.
    pub(super) fn new(headers: &HeaderMap, body: Incoming) -> Result<Self, TransportError> {
        let coding = headers.get(http::header::CONTENT_ENCODING).map(|value| value.to_str().unwrap_or("?").trim());
        let reader = |body| StreamReader::new(TryStreamExt::map_err(BodyDataStream::new(body), io::Error::other));
        let decoder: Box<dyn AsyncRead + Send + Unpin> = match coding.map(str::to_ascii_lowercase).as_deref() {
            None | Some("" | "identity") => return Ok(Self::Plain(body)),
            Some("gzip" | "x-gzip") => {
                let mut decoder = GzipDecoder::new(reader(body));
                decoder.multiple_members(true);
                Box::new(decoder)
            }
            Some("deflate") => return Ok(Self::Deflate(Some(Box::new(reader(body))))),
            Some("br") => Box::new(BrotliDecoder::new(reader(body))),
            Some(other) => {
                let what = format!("unsupported content coding `{}`", other.escape_debug());
                return Err(TransportError::NotMcp(what));
            }
        };
        Ok(Self::Decoded(ReaderStream::new(decoder)))
    }

    /// The next piece; `None` at the end.
    ///
    /// Cancel safety: no piece is lost.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, TransportError> {
        match self {
            Self::Plain(body) => loop {
                match body.frame().await {
                    None => return Ok(None),
                    Some(Err(error)) => return Err(TransportError::Lost(error.into())),
                    Some(Ok(frame)) => {
                        if let Ok(data) = frame.into_data() {
                            return Ok(Some(data));
                        }
                    }
                }
            },
            Self::Deflate(reader) => {
                let decoder = match reader.as_mut() {
                    Some(reader) => inflate(reader).await.map_err(|error| TransportError::Lost(error.into()))?,
                    None => return Ok(None),
                };
                let reader = reader.take().map(decoder);
                let Some(reader) = reader else { return Ok(None) };
                *self = Self::Decoded(ReaderStream::new(reader));
                Box::pin(self.next()).await
            }
            Self::Decoded(stream) => stream.try_next().await.map_err(|error| TransportError::Lost(error.into())),
        }
    }

    /// The whole body.
    ///
    /// # Errors
    /// [`TransportError::TooLarge`] when it has more than `limit` bytes, decoded.
    pub(super) async fn collect(mut self, limit: usize) -> Result<Bytes, TransportError> {
        let Some(first) = self.next().await? else { return Ok(Bytes::new()) };
        if let Self::Plain(body) = &self
            && body.is_end_stream()
            && first.len() <= limit
        {
            return Ok(first);
        }
        let mut whole = BytesMut::from(first);
        while whole.len() <= limit {
            match self.next().await? {
                Some(piece) => whole.extend_from_slice(&piece),
                None => return Ok(whole.freeze()),
            }
        }
        Err(TransportError::TooLarge { limit })
    }

    /// The beginning of the body, up to `limit` bytes, as far as it can be read in a short time.
    pub(super) async fn head(mut self, limit: usize) -> Bytes {
        let until = Instant::now() + HEAD_TIME;
        let mut head = BytesMut::new();
        while head.len() < limit {
            match tokio::time::timeout_at(until, self.next()).await {
                Ok(Ok(Some(piece))) => head.extend_from_slice(&piece[..piece.len().min(limit - head.len())]),
                _ => break,
            }
        }
        head.freeze()
    }
}

type Decoder = fn(Box<dyn AsyncBufRead + Send + Unpin>) -> Box<dyn AsyncRead + Send + Unpin>;

/// How to decode `deflate`: HTTP means the zlib form by it (RFC 9110, section 8.4.1.2), but some servers send it raw.
async fn inflate(reader: &mut (dyn AsyncBufRead + Send + Unpin)) -> io::Result<Decoder> {
    let head = reader.fill_buf().await?;
    let is_zlib = match head {
        [first, second, ..] => first & 0x0f == 8 && u16::from_be_bytes([*first, *second]) % 31 == 0,
        [first] => *first == 0x78,
        [] => true,
    };
    Ok(if is_zlib {
        |reader| Box::new(ZlibDecoder::new(reader))
    } else {
        |reader| Box::new(DeflateDecoder::new(reader))
    })
}

/// The media type of an answer, in lower case and without parameters.
pub(super) fn media_type(headers: &HeaderMap) -> Cow<'_, str> {
    let value = headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim();
    if essence.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Cow::Owned(essence.to_ascii_lowercase());
    }
    Cow::Borrowed(essence)
}

/// The first text of a body for people: markup taken out, white space folded, cut at 200 characters.
pub(super) fn excerpt(body: &[u8]) -> String {
    const CHARACTERS: usize = 200;
    let text = String::from_utf8_lossy(body);
    let mut plain = String::new();
    let mut in_tag = false;
    let is_markup = text.trim_start().starts_with('<');
    for character in text.chars() {
        match character {
            '<' if is_markup => in_tag = true,
            '>' if in_tag => {
                in_tag = false;
                plain.push(' ');
            }
            _ if in_tag => {}
            _ if character.is_control() || character.is_whitespace() => plain.push(' '),
            _ => plain.push(character),
        }
    }
    let mut words = plain.split_whitespace();
    let mut short = words.next().unwrap_or_default().to_owned();
    for word in words {
        short.push(' ');
        short.push_str(word);
        if short.len() > CHARACTERS * 4 {
            break;
        }
    }
    if let Some((cut, _)) = short.char_indices().nth(CHARACTERS) {
        short.truncate(cut);
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b037_markup_becomes_a_short_text() {
        let page = format!("<html>\n<head><title>502  Bad Gateway</title></head>{}</html>", "<p>x</p>".repeat(300_000));
        let short = excerpt(page.as_bytes());
        assert!(short.starts_with("502 Bad Gateway x x"), "{short}");
        assert_eq!(short.chars().count(), 201);
        assert_eq!(excerpt(b"a < b\x1b[0m\n"), "a < b [0m");
    }

    #[test]
    fn media_types_are_compared_without_case_and_parameters() {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", "Application/JSON; Charset=utf-8".parse().unwrap());
        assert_eq!(media_type(&headers), "application/json");
        assert_eq!(media_type(&HeaderMap::new()), "");
    }
}
