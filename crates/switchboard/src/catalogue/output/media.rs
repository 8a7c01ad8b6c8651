//! Images and audio of a result.

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::view::{Block, Contents};
use super::{OutputPart, size};

/// The shortest base64 that is looked for in texts; shorter ones could stand there by chance.
pub(super) const MIN_REPEATED: usize = 64;

/// How many media are looked for in texts.
pub(super) const MAX_REPEATED: usize = 32;

const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Image,
    Audio,
}

/// An image or an audio clip, in a block of its own or as an embedded resource.
#[derive(Debug)]
pub(super) struct Media<'a> {
    kind: Kind,
    mime_type: &'a str,
    /// The base64 as the server sent it, without the head of a `data:` address.
    pub(super) data: &'a str,
}

impl<'a> Media<'a> {
    pub(super) fn of(block: &'a Block<'_>) -> Option<Self> {
        let (kind, mime_type, data) = match block {
            Block::Image { data, mime_type } => (Kind::Image, mime_type.as_ref(), data),
            Block::Audio { data, mime_type } => (Kind::Audio, mime_type.as_ref(), data),
            Block::Resource(Contents { mime_type: Some(mime_type), blob: Some(blob), text: None, .. }) => {
                let kind = match mime_type.split('/').next() {
                    Some("image") => Kind::Image,
                    Some("audio") => Kind::Audio,
                    _ => return None,
                };
                (kind, mime_type.as_ref(), blob)
            }
            _ => return None,
        };
        let bare = data.split_once(";base64,").filter(|(head, _)| head.starts_with("data:")).map(|(_, tail)| tail);
        Some(Self { kind, mime_type, data: bare.unwrap_or(data) })
    }

    fn name(&self) -> &'static str {
        match self.kind {
            Kind::Image => "image",
            Kind::Audio => "audio",
        }
    }

    /// What stands in texts in the place of this medium's base64.
    pub(super) fn mark(&self, index: usize) -> String {
        format!("[{} {} of this result]", self.name(), index + 1)
    }

    /// The part for a model, or the note in its place.
    pub(super) fn checked(&self, most: usize) -> Result<OutputPart, String> {
        let length = decoded_length(self.data);
        let refused =
            |why: &str| Err(format!("[{}, {}, {}, not shown: {why}]", self.name(), self.mime_type, size(length)));
        if length > most {
            return refused(&format!("larger than {}", size(most)));
        }
        let spaced = self.data.bytes().any(|byte| byte.is_ascii_whitespace());
        let decoded = if spaced {
            LENIENT.decode(self.data.split_ascii_whitespace().collect::<String>())
        } else {
            LENIENT.decode(self.data)
        };
        // Providers refuse the whole request for bad base64.
        let Ok(bytes) = decoded else { return refused("its data is not base64") };
        if bytes.is_empty() {
            return refused("it is empty");
        }
        let data =
            if spaced || !self.data.len().is_multiple_of(4) { LENIENT.encode(bytes) } else { self.data.to_owned() };
        let mime_type = self.mime_type.to_owned();
        Ok(match self.kind {
            Kind::Image => OutputPart::Image { data, mime_type },
            Kind::Audio => OutputPart::Audio { data, mime_type },
        })
    }
}

/// How many bytes this much base64 stands for.
pub(super) fn decoded_length(base64: &str) -> usize {
    let padding = base64.bytes().rev().take_while(|byte| *byte == b'=').count();
    base64.len() / 4 * 3 + base64.len() % 4 * 3 / 4 - padding.min(2).min(base64.len() / 4 * 3)
}
