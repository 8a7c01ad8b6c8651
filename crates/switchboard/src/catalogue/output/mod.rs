//! What a model is given of a tool's result, and what a person at a terminal sees of it.
//!
//! Text, images and audio pass; links are told and never fetched; what is unknown is kept as marked text. The structured
//! part is given unless the text says the same already. Each image is given once: its base64 never appears as text, and
//! what is too large is replaced by a note that says so.

mod media;
mod view;

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use self::media::Media;
use self::view::{Block, Contents};
use crate::wire::Json;

pub(crate) use self::view::ResultView;

/// The largest structured part that is compared with the texts, in bytes.
const MAX_COMPARED: usize = 1 << 20;

/// How much of a result a model is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutputLimits {
    /// The longest text of one part, in bytes.
    pub text: usize,
    /// The largest image or audio clip, in bytes as decoded.
    pub media: usize,
    /// The most of all parts together, in bytes as sent to the model.
    pub total: usize,
}

impl Default for OutputLimits {
    fn default() -> Self {
        Self { text: 128 << 10, media: 3 << 20, total: 8 << 20 }
    }
}

/// One part of what a model is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum OutputPart {
    /// A text.
    Text {
        /// The text.
        text: String,
    },
    /// An image.
    Image {
        /// The image in standard base64.
        data: String,
        /// Its type, such as `image/png`.
        mime_type: String,
    },
    /// An audio clip.
    Audio {
        /// The clip in standard base64.
        data: String,
        /// Its type, such as `audio/wav`.
        mime_type: String,
    },
}

/// What a model is given of one result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ModelOutput {
    /// The parts, in the order in which the server gave them; never empty.
    pub parts: Vec<OutputPart>,
    /// Whether the tool reported an error.
    pub is_error: bool,
}

/// What a model is given of a call's result.
#[must_use]
pub fn for_model(result: &Json, limits: &OutputLimits) -> ModelOutput {
    let result = &result.whole_characters();
    let Some(view) = ResultView::of(result) else {
        let text = format!("[a result of an unknown shape] {result}");
        return ModelOutput { parts: vec![OutputPart::Text { text: cut(text, limits.text) }], is_error: false };
    };
    let blocks = view.blocks();
    let media: Vec<Media> = blocks.iter().filter_map(Media::of).collect();
    let mut collector = Collector { media: &media, limits, parts: Vec::new(), left: limits.total, dropped: 0 };
    let mut next_medium = 0;
    for block in &blocks {
        if Media::of(block).is_some() {
            collector.add_media(next_medium);
            next_medium += 1;
        } else {
            collector.add_text(told(block));
        }
    }
    let texts: Vec<&str> = blocks.iter().filter_map(Block::as_text).collect();
    if let Some(structured) = view.structured.filter(|raw| adds_something(raw, &texts, view.is_error())) {
        collector.add_structured(structured);
    }
    ModelOutput { parts: collector.finish(view.is_error()), is_error: view.is_error() }
}

/// A result as text for a terminal: texts as they are, without control characters; the rest by name.
#[must_use]
pub fn text_of(result: &Json) -> String {
    let result = &result.whole_characters();
    let Some(view) = ResultView::of(result) else { return without_controls(result.as_str()) };
    let blocks = view.blocks();
    let mut lines: Vec<String> = blocks.iter().map(named).collect();
    if lines.is_empty() {
        lines.extend(view.structured.map(|structured| structured.get().to_owned()));
    }
    without_controls(&lines.join("\n"))
}

/// Gathers parts until the total is spent.
struct Collector<'a> {
    media: &'a [Media<'a>],
    limits: &'a OutputLimits,
    parts: Vec<OutputPart>,
    left: usize,
    dropped: usize,
}

impl Collector<'_> {
    fn add(&mut self, part: OutputPart) {
        let size = match &part {
            OutputPart::Text { text } => text.len(),
            OutputPart::Image { data, .. } | OutputPart::Audio { data, .. } => data.len(),
        };
        if self.dropped == 0 && size <= self.left {
            self.left -= size;
            self.parts.push(part);
        } else {
            self.dropped += 1;
        }
    }

    fn add_text(&mut self, mut text: String) {
        for (index, medium) in self.media.iter().enumerate().take(media::MAX_REPEATED) {
            if medium.data.len() >= media::MIN_REPEATED && text.contains(medium.data) {
                text = text.replace(medium.data, &medium.mark(index));
            }
        }
        self.add(OutputPart::Text { text: cut(text, self.limits.text) });
    }

    fn add_media(&mut self, index: usize) {
        let part = match self.media[index].checked(self.limits.media) {
            Ok(part) => part,
            Err(note) => OutputPart::Text { text: note },
        };
        self.add(part);
    }

    /// The structured part as JSON, with marks in the place of media that are given already.
    fn add_structured(&mut self, structured: &RawValue) {
        // Escaped slashes, as some languages write them, would hide base64 from the search for it.
        let plain = |value: Value| value.to_string();
        let escaped = structured.get().contains("\\/").then(|| serde_json::from_str(structured.get()).map(plain));
        self.add_text(escaped.and_then(Result::ok).unwrap_or_else(|| structured.get().to_owned()));
    }

    fn finish(mut self, is_error: bool) -> Vec<OutputPart> {
        if self.dropped > 0 {
            let (count, total) = (self.dropped, size(self.limits.total));
            let text = format!("[parts of this result that are not shown: {count}; all together exceed {total}]");
            self.parts.push(OutputPart::Text { text });
        }
        if self.parts.is_empty() {
            let text =
                if is_error { "[the tool failed without saying why]" } else { "[the tool answered with nothing]" };
            self.parts.push(OutputPart::Text { text: text.to_owned() });
        }
        self.parts
    }
}

/// Whether the structured part says something that the texts do not: they often are its serialised form, or the bare
/// value of a structured part that only wraps it as `result`. Of an error, the text alone is what counts.
fn adds_something(structured: &RawValue, texts: &[&str], is_error: bool) -> bool {
    if texts.iter().all(|text| text.trim().is_empty()) {
        return structured.get() != "null";
    }
    if is_error || structured.get().len() > MAX_COMPARED {
        return !is_error;
    }
    let Ok(value) = serde_json::from_str::<Value>(structured.get()) else { return true };
    let says = |text: &str, value: &Value| {
        value.as_str() == Some(text) || serde_json::from_str::<Value>(text).is_ok_and(|parsed| parsed == *value)
    };
    let bare = value.as_object().filter(|map| map.len() == 1).and_then(|map| map.get("result"));
    let item_by_item = |value: &Value| {
        value.as_array().is_some_and(|items| {
            items.len() == texts.len() && items.iter().zip(texts).all(|(item, text)| says(text, item))
        })
    };
    let same = [Some(&value), bare].into_iter().flatten();
    !same.into_iter().any(|value| texts.iter().any(|text| says(text, value)) || item_by_item(value))
}

/// A block that is not media, in words for a model.
fn told(block: &Block<'_>) -> String {
    match block {
        Block::Text(text) => text.to_string(),
        Block::Link(link) => link.told(),
        Block::Resource(Contents { uri, text: Some(text), .. }) => format!("[resource {uri}]\n{text}"),
        Block::Resource(contents) => contents.named(),
        Block::Image { .. } | Block::Audio { .. } => named(block),
        Block::Unknown { kind: Some(kind), raw } => format!("[content of the unknown type `{kind}`] {raw}"),
        Block::Unknown { kind: None, raw } => format!("[content of an unknown shape] {raw}"),
    }
}

/// A block for a terminal.
fn named(block: &Block<'_>) -> String {
    match block {
        Block::Text(text) => text.to_string(),
        Block::Link(link) => link.told(),
        Block::Resource(contents) => contents.named(),
        Block::Image { data, mime_type } => format!("[image, {mime_type}, {}]", size(media::decoded_length(data))),
        Block::Audio { data, mime_type } => format!("[audio, {mime_type}, {}]", size(media::decoded_length(data))),
        Block::Unknown { kind, .. } => format!("[content of the unknown type `{}`]", kind.as_deref().unwrap_or("?")),
    }
}

/// The beginning of a text that is too long, with a note.
fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        let whole = text.len();
        let mut end = most;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        // Writing to a string cannot fail.
        let _ = write!(text, "\n[cut here: the first {} of {} are shown]", size(end), size(whole));
    }
    text
}

/// A number of bytes as people write it.
fn size(bytes: usize) -> String {
    match bytes {
        0..1_024 => format!("{bytes} bytes"),
        1_024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1_024.0),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}

fn without_controls(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

#[cfg(test)]
mod tests;
