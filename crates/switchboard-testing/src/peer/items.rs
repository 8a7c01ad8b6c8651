//! What a peer offers: tools, prompts, resources and templates, each the JSON of its list and what it answers.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use serde_json::{Value, json};

use crate::peer::Context;
use crate::reply::Reply;

/// Answers one request: gets its `params` or arguments and the context.
pub(crate) type Handler = Arc<dyn Fn(&Value, &Context) -> Reply + Send + Sync>;

/// A tool of a peer. Without an answer of its own it echoes its arguments as JSON text.
///
/// A name makes a tool that takes any object; any other JSON value is put into the list as it is, valid or not.
#[derive(Clone)]
pub struct Tool {
    pub(crate) definition: Value,
    pub(crate) handler: Option<Handler>,
}

impl Tool {
    /// A tool that takes any object.
    pub fn new(name: &str) -> Self {
        Self::raw(json!({ "name": name, "inputSchema": { "type": "object" } }))
    }

    /// Any JSON value in the list of tools.
    pub fn raw(definition: Value) -> Self {
        Self { definition, handler: None }
    }

    /// Sets any member of the definition.
    #[must_use]
    pub fn with(mut self, member: &str, value: Value) -> Self {
        self.definition[member] = value;
        self
    }

    /// Sets the description.
    #[must_use]
    pub fn description(self, text: &str) -> Self {
        self.with("description", text.into())
    }

    /// Sets the input schema.
    #[must_use]
    pub fn schema(self, schema: Value) -> Self {
        self.with("inputSchema", schema)
    }

    /// Sets the output schema.
    #[must_use]
    pub fn output_schema(self, schema: Value) -> Self {
        self.with("outputSchema", schema)
    }

    /// Sets the annotations, such as `readOnlyHint`.
    #[must_use]
    pub fn annotations(self, annotations: Value) -> Self {
        self.with("annotations", annotations)
    }

    /// What a call answers, given its arguments.
    #[must_use]
    pub fn answers(mut self, handler: impl Fn(&Value, &Context) -> Reply + Send + Sync + 'static) -> Self {
        self.handler = Some(Arc::new(handler));
        self
    }

    /// Every call answers this text.
    #[must_use]
    pub fn says(self, text: &str) -> Self {
        let text = text.to_owned();
        self.answers(move |_, _| Reply::text(text.clone()))
    }
}

impl From<&str> for Tool {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl From<Value> for Tool {
    fn from(definition: Value) -> Self {
        Self::raw(definition)
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Tool").field(&self.definition).finish()
    }
}

/// A prompt of a peer. Its one message is a text in which `{name}` stands for the argument `name`.
#[derive(Debug, Clone)]
pub struct Prompt {
    pub(crate) definition: Value,
    pub(crate) text: String,
}

impl Prompt {
    /// A prompt without arguments that says its own name.
    pub fn new(name: &str) -> Self {
        Self { definition: json!({ "name": name }), text: name.to_owned() }
    }

    /// Any JSON value in the list of prompts.
    pub fn raw(definition: Value) -> Self {
        Self { definition, text: String::new() }
    }

    /// Adds an argument.
    #[must_use]
    pub fn argument(mut self, name: &str, required: bool) -> Self {
        if !self.definition["arguments"].is_array() {
            self.definition["arguments"] = json!([]);
        }
        if let Some(arguments) = self.definition["arguments"].as_array_mut() {
            arguments.push(json!({ "name": name, "required": required }));
        }
        self
    }

    /// Sets the text of the message.
    #[must_use]
    pub fn text(mut self, text: &str) -> Self {
        text.clone_into(&mut self.text);
        self
    }

    /// The text with the arguments filled in.
    pub(crate) fn fill(&self, arguments: &Value) -> String {
        let mut text = self.text.clone();
        for (name, value) in arguments.as_object().into_iter().flatten() {
            text = text.replace(&format!("{{{name}}}"), value.as_str().unwrap_or_default());
        }
        text
    }
}

impl From<&str> for Prompt {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl From<Value> for Prompt {
    fn from(definition: Value) -> Self {
        Self::raw(definition)
    }
}

/// A resource of a peer and its contents.
#[derive(Debug, Clone)]
pub struct Resource {
    pub(crate) definition: Value,
    pub(crate) contents: Value,
}

impl Resource {
    /// A resource of plain text, named like its address.
    pub fn text(uri: &str, text: &str) -> Self {
        Self {
            definition: json!({ "uri": uri, "name": uri, "mimeType": "text/plain" }),
            contents: json!({ "uri": uri, "mimeType": "text/plain", "text": text }),
        }
    }

    /// A resource of bytes.
    pub fn blob(uri: &str, bytes: &[u8]) -> Self {
        let blob = base64::engine::general_purpose::STANDARD.encode(bytes);
        Self {
            definition: json!({ "uri": uri, "name": uri, "mimeType": "application/octet-stream" }),
            contents: json!({ "uri": uri, "mimeType": "application/octet-stream", "blob": blob }),
        }
    }

    /// Any JSON value in the list of resources.
    pub fn raw(definition: Value) -> Self {
        let contents = json!({ "uri": definition["uri"], "text": "" });
        Self { definition, contents }
    }

    /// Sets any member of the definition.
    #[must_use]
    pub fn with(mut self, member: &str, value: Value) -> Self {
        self.definition[member] = value;
        self
    }
}

impl From<Value> for Resource {
    fn from(definition: Value) -> Self {
        Self::raw(definition)
    }
}
