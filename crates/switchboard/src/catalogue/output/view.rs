//! Views of a result and its content blocks that no odd block can break.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{media, size};
use crate::wire::Json;

/// The parts of a call's result that are looked at.
#[derive(Debug, Deserialize)]
pub(crate) struct ResultView<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    /// The structured part; `null` is a value like any other.
    #[serde(borrow, default, rename = "structuredContent", deserialize_with = "present")]
    pub(crate) structured: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "isError")]
    is_error: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "resultType")]
    result_type: Option<&'a RawValue>,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl<'a> ResultView<'a> {
    /// The view of a result; `None` when it is no object.
    pub(crate) fn of(result: &'a Json) -> Option<Self> {
        if result.is_object() { result.view().ok() } else { None }
    }

    pub(crate) fn is_error(&self) -> bool {
        self.is_error.is_some_and(|flag| flag.get() == "true")
    }

    /// Whether this is no result yet: the server wants answers first.
    pub(crate) fn asks_for_input(&self) -> bool {
        self.result_type.is_some_and(|kind| kind.get() == "\"input_required\"")
    }

    pub(super) fn blocks(&self) -> Vec<Block<'a>> {
        let Some(content) = self.content else { return Vec::new() };
        match serde_json::from_str::<Vec<&'a RawValue>>(content.get()) {
            Ok(blocks) => blocks.into_iter().map(Block::of).collect(),
            // Some servers send the text, or one block, in the place of the list.
            Err(_) => vec![read::<Cow<'a, str>>(content.get()).map_or_else(|| Block::of(content), Block::Text)],
        }
    }
}

/// Texts with escapes are owned, all others borrowed.
fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    serde_json::from_str(text).ok()
}

/// One content block.
#[derive(Debug)]
pub(super) enum Block<'a> {
    Text(Cow<'a, str>),
    Image { data: Cow<'a, str>, mime_type: Cow<'a, str> },
    Audio { data: Cow<'a, str>, mime_type: Cow<'a, str> },
    Link(Link<'a>),
    Resource(Contents<'a>),
    Unknown { kind: Option<Cow<'a, str>>, raw: &'a str },
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
enum Known<'a> {
    Text {
        #[serde(borrow)]
        text: Cow<'a, str>,
    },
    Image {
        #[serde(borrow)]
        data: Cow<'a, str>,
        #[serde(borrow)]
        mime_type: Cow<'a, str>,
    },
    Audio {
        #[serde(borrow)]
        data: Cow<'a, str>,
        #[serde(borrow)]
        mime_type: Cow<'a, str>,
    },
    #[serde(borrow)]
    ResourceLink(Link<'a>),
    Resource {
        #[serde(borrow)]
        resource: Contents<'a>,
    },
}

/// A resource that the server points to.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Link<'a> {
    #[serde(borrow)]
    uri: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    title: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    description: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    mime_type: Option<Cow<'a, str>>,
    #[serde(default)]
    size: Option<f64>,
}

/// A resource inside the result.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Contents<'a> {
    #[serde(borrow)]
    pub(super) uri: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) mime_type: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) blob: Option<Cow<'a, str>>,
}

impl<'a> Block<'a> {
    fn of(raw: &'a RawValue) -> Self {
        #[derive(Deserialize)]
        struct Kind<'a> {
            #[serde(borrow, rename = "type")]
            kind: Cow<'a, str>,
        }
        let known = raw.get().starts_with('{').then(|| read::<Known<'a>>(raw.get())).flatten();
        match known {
            Some(Known::Text { text }) => Self::Text(text),
            Some(Known::Image { data, mime_type }) => Self::Image { data, mime_type },
            Some(Known::Audio { data, mime_type }) => Self::Audio { data, mime_type },
            Some(Known::ResourceLink(link)) => Self::Link(link),
            Some(Known::Resource { resource }) => Self::Resource(resource),
            None => Self::Unknown { kind: read::<Kind<'a>>(raw.get()).map(|kind| kind.kind), raw: raw.get() },
        }
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl Link<'_> {
    /// The link in words; it is never followed.
    pub(super) fn told(&self) -> String {
        let mut text = format!("[link to the resource {}", self.uri);
        if let Some(name) = self.title.as_ref().or(self.name.as_ref()) {
            text.push_str(&format!(", `{name}`"));
        }
        if let Some(mime_type) = &self.mime_type {
            text.push_str(&format!(", {mime_type}"));
        }
        if let Some(bytes) = self.size.filter(|bytes| *bytes >= 0.0) {
            text.push_str(&format!(", {}", size(bytes as usize)));
        }
        text.push(']');
        if let Some(description) = &self.description {
            text.push_str(&format!(" {description}"));
        }
        text
    }
}

impl Contents<'_> {
    pub(super) fn named(&self) -> String {
        let kind = self.mime_type.as_deref().unwrap_or("unknown type");
        let bytes = match (&self.text, &self.blob) {
            (Some(text), _) => text.len(),
            (None, Some(blob)) => media::decoded_length(blob),
            (None, None) => 0,
        };
        format!("[resource {}, {kind}, {}]", self.uri, size(bytes))
    }
}
