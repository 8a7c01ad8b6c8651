//! What was repaired, lost or left out, said by name.

use std::fmt;

/// The most warnings that one tool can cause; a schema made to be bad does not fill the status.
const MOST: usize = 16;

/// What kind of thing a warning reports, as a closed set of stable codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WarningCode {
    /// The tool is left out: nothing that a model could call can be made of its schema.
    BadSchema,
    /// The schema is larger or deeper than the bounds allow.
    SchemaTooLarge,
    /// Something malformed in the schema was put right or left out.
    SchemaRepaired,
    /// A reference leads nowhere inside the schema, and was left out. References are never fetched.
    ReferenceLeftOut,
    /// The provider cannot express a part; the model may send what the server will refuse.
    SchemaWidened,
    /// The provider cannot express a part; the model cannot send all that the server accepts.
    SchemaNarrowed,
    /// The provider's strict mode cannot express the schema, so this tool is offered without it.
    NotStrict,
    /// The schema cannot be compiled or is too large to check values against, so nothing is checked.
    SchemaNotEnforced,
}

impl WarningCode {
    /// The stable code, as it stands in the HTTP API.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::BadSchema => "bad_schema",
            Self::SchemaTooLarge => "schema_too_large",
            Self::SchemaRepaired => "schema_repaired",
            Self::ReferenceLeftOut => "reference_left_out",
            Self::SchemaWidened => "schema_widened",
            Self::SchemaNarrowed => "schema_narrowed",
            Self::NotStrict => "not_strict",
            Self::SchemaNotEnforced => "schema_not_enforced",
        }
    }
}

impl fmt::Display for WarningCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// One thing that was repaired, lost or left out on the way from a server's tool to a model.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Warning {
    /// What kind of thing.
    pub code: WarningCode,
    /// Where in the schema, as a JSON pointer; empty for the whole.
    pub path: String,
    /// A sentence part without a full stop.
    pub message: String,
}

impl Warning {
    pub(crate) fn new(code: WarningCode, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code, path: path.into(), message: message.into() }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "`{path}`: {}", self.message),
        }
    }
}

/// A bounded list of warnings.
#[derive(Debug, Default)]
pub(crate) struct Warnings(Vec<Warning>);

impl Warnings {
    pub(crate) fn push(&mut self, code: WarningCode, path: &str, message: impl Into<String>) {
        if self.0.len() < MOST {
            self.0.push(Warning::new(code, path, message));
        }
    }

    pub(crate) fn into_vec(self) -> Vec<Warning> {
        self.0
    }
}
