//! Tools in the shapes of the providers: exactly what goes into a request's `tools`.
//!
//! Each provider takes a subset of JSON Schema, and refuses a whole request for one schema outside it. The translation
//! says the same with other words where it can. Where it cannot, it rather allows too much than too little (the server
//! checks its arguments anyway), tells the model in the description, and reports a named warning.
//!
//! The rules are those of mid-2026. Function descriptions are not cut: OpenAI lifted its limit of 1,024 characters in
//! 2025 and the others state none. Mistral takes any schema of draft 2020-12 that is well-formed, without `$schema` and
//! `$id`, which [`schema::prepare`] has removed already.

mod anthropic;
mod flatten;
mod gemini;
mod note;
mod strict;
mod union;

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::schema::{self, Endless, Prepared};
use super::{ToolKey, Warning, WarningCode, Warnings};
use crate::error::Error;
use crate::wire::Json;

/// Whose request a list of tools is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum ToolFormat {
    /// MCP's own shape, the schema as the server sent it.
    #[default]
    Mcp,
    /// OpenAI's chat completions, and the many services that take the same.
    OpenAi,
    /// The same in strict mode, tool by tool where the schema allows it.
    OpenAiStrict,
    /// Anthropic's messages.
    Anthropic,
    /// Gemini's `generateContent`.
    Gemini,
    /// Mistral's chat completions.
    Mistral,
}

impl ToolFormat {
    /// Every format.
    pub const ALL: [Self; 6] =
        [Self::Mcp, Self::OpenAi, Self::OpenAiStrict, Self::Anthropic, Self::Gemini, Self::Mistral];

    /// The name in commands and addresses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mcp => "mcp",
            Self::OpenAi => "openai",
            Self::OpenAiStrict => "openai-strict",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Mistral => "mistral",
        }
    }

    /// One tool in this shape.
    ///
    /// # Errors
    /// When the tool cannot be offered to a model; the warning says why, and the other tools are not concerned.
    pub fn offer(self, tool: &OfferedTool<'_>) -> Result<Offer, Warning> {
        if self == Self::Mcp {
            return tool.as_mcp();
        }
        let Prepared { schema, warnings: repairs } = schema::prepare(tool.input_schema)?;
        let mut lost = Warnings::default();
        let json = match self {
            Self::Mcp | Self::OpenAi => tool.as_function(flatten::root(schema, &mut lost), None),
            Self::OpenAiStrict => tool.as_strict_function(schema, &mut lost),
            Self::Anthropic => tool.described(json!({
                "name": tool.key.as_str(),
                "input_schema": anthropic::input_schema(schema, &mut lost)?,
            })),
            Self::Gemini => tool.as_gemini(schema, &mut lost),
            Self::Mistral => tool.as_function(schema, None),
        };
        let warnings = repairs.into_iter().chain(lost.into_vec()).collect();
        Ok(Offer { json: json.into(), warnings })
    }

    /// The value of a request's `tools` for tools that [`ToolFormat::offer`] has shaped.
    ///
    /// # Errors
    /// Never, as long as `tools` came from `offer`.
    pub fn list(self, tools: &[Json]) -> Result<Json, serde_json::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Declarations<'a> {
            function_declarations: &'a [Json],
        }
        match self {
            Self::Gemini if !tools.is_empty() => Json::of(&[Declarations { function_declarations: tools }]),
            _ => Json::of(tools),
        }
    }
}

impl fmt::Display for ToolFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ToolFormat {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|format| format.name() == text).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            Error::invalid("format", format!("`{text}` is not a format of tools"))
                .hint(format!("choose one of {known}"))
        })
    }
}

/// What a model is told of one tool.
#[derive(Debug, Clone, Copy)]
pub struct OfferedTool<'a> {
    /// The name under which the model sees it.
    pub key: &'a ToolKey,
    /// The server's title for people; it stands in where there is no description.
    pub title: Option<&'a str>,
    /// The server's description.
    pub description: Option<&'a str>,
    /// The server's `inputSchema`, as it came.
    pub input_schema: Option<&'a Json>,
    /// The server's `annotations`, as they came.
    pub annotations: Option<&'a Json>,
}

/// A tool in a provider's shape, and what was lost on the way.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Offer {
    /// One element of the request's `tools`.
    pub json: Json,
    /// What was repaired in the schema, and what the provider cannot express.
    pub warnings: Vec<Warning>,
}

impl OfferedTool<'_> {
    fn description(&self) -> Option<&str> {
        [self.description, self.title].into_iter().flatten().find(|text| !text.trim().is_empty())
    }

    /// Puts the description where people look for it, after the name.
    fn described(&self, mut value: Value) -> Value {
        if let (Some(map), Some(text)) = (value.as_object_mut(), self.description()) {
            map.shift_insert(1, "description".into(), text.into());
        }
        value
    }

    fn as_mcp(&self) -> Result<Offer, Warning> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Tool<'a> {
            name: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            title: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            description: Option<&'a str>,
            input_schema: &'a Json,
            #[serde(skip_serializing_if = "Option::is_none")]
            annotations: Option<&'a Json>,
        }
        let any: Json = json!({"type": "object"}).into();
        let tool = Tool {
            name: self.key.as_str(),
            title: self.title,
            description: self.description,
            input_schema: self.input_schema.unwrap_or(&any),
            annotations: self.annotations,
        };
        let json = Json::of(&tool).map_err(|error| {
            Warning::new(WarningCode::BadSchema, "", format!("the tool cannot be written as JSON: {error}"))
        })?;
        Ok(Offer { json, warnings: Vec::new() })
    }

    fn as_function(&self, parameters: Map<String, Value>, strict: Option<bool>) -> Value {
        let mut function = self.described(json!({"name": self.key.as_str(), "parameters": parameters}));
        if let (Some(strict), Some(function)) = (strict, function.as_object_mut()) {
            function.insert("strict".into(), strict.into());
        }
        json!({"type": "function", "function": function})
    }

    fn as_strict_function(&self, schema: Map<String, Value>, lost: &mut Warnings) -> Value {
        match strict::parameters(schema.clone()) {
            Ok(parameters) => self.as_function(parameters, Some(true)),
            Err(obstacle) => {
                let message = format!("offered without strict mode, which cannot express {}", obstacle.what);
                lost.push(WarningCode::NotStrict, &obstacle.path, message);
                self.as_function(flatten::root(schema, lost), Some(false))
            }
        }
    }

    fn as_gemini(&self, schema: Map<String, Value>, lost: &mut Warnings) -> Value {
        let mut declaration = json!({
            "name": self.key.as_str(),
            // Gemini asks for a description always.
            "description": self.description().unwrap_or_else(|| self.key.as_str()),
        });
        if let (Some(parameters), Some(map)) = (gemini::parameters(schema, lost), declaration.as_object_mut()) {
            map.insert("parametersJsonSchema".into(), parameters.into());
        }
        declaration
    }
}

#[cfg(test)]
mod tests;
