//! Tools in the shapes of model providers.

use std::str::FromStr;

use serde_json::Value;
use switchboard::ErrorKind;
use switchboard::manager::ToolEntry;

use crate::code::Code;
use crate::problem::Problem;

/// The shape in which tools are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Mcp,
    OpenAi,
    OpenAiStrict,
    Anthropic,
    Gemini,
    Mistral,
}

impl Format {
    /// Every format, by its name.
    pub(crate) const ALL: [(&'static str, Self); 6] = [
        ("mcp", Self::Mcp),
        ("openai", Self::OpenAi),
        ("openai-strict", Self::OpenAiStrict),
        ("anthropic", Self::Anthropic),
        ("gemini", Self::Gemini),
        ("mistral", Self::Mistral),
    ];
}

impl FromStr for Format {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        let found = Self::ALL.into_iter().find(|(name, _)| *name == text);
        found.map(|(_, format)| format).ok_or_else(|| {
            let names = Self::ALL.map(|(name, _)| name).join(", ");
            Problem::invalid_at("format", format!("`{text}` is not a format: {names}"))
        })
    }
}

/// What goes into a provider's request as `tools`. Tools that are withheld are left out.
///
/// Everything about these shapes is the library's; this is the one place that asks it.
pub(crate) fn for_provider(_tools: &[ToolEntry], _format: Format) -> Result<Vec<Value>, Problem> {
    Err(Problem::new(Code::Kind(ErrorKind::Unsupported), "this build offers tools in the format `mcp` only"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_known_by_name() {
        for (name, format) in Format::ALL {
            assert_eq!(name.parse::<Format>().unwrap(), format);
        }
        let problem = serde_json::to_string(&"open-ai".parse::<Format>().unwrap_err()).unwrap();
        assert!(problem.contains("openai-strict"), "{problem}");
    }
}
