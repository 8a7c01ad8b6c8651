//! Tools in the shapes of models' providers.

use std::collections::HashMap;

use super::Inner;
use super::entries::{Filter, ToolEntry};
use crate::catalogue::ToolFormat;
use crate::catalogue::format::OfferedTool;
use crate::id::ServerId;
use crate::status::Warning;
use crate::wire::Json;

impl Inner {
    pub(super) fn offer(&self, format: ToolFormat, filter: &Filter) -> Vec<Json> {
        let mut warnings: HashMap<ServerId, Vec<Warning>> = HashMap::new();
        let mut offered = Vec::new();
        for entry in self.tools(filter).into_iter().filter(|entry| entry.withheld.is_none()) {
            let noted = warnings.entry(entry.server.clone()).or_default();
            offered.extend(offer(format, &entry, noted));
        }
        for (id, warnings) in warnings {
            if let Ok(connection) = self.connection(&id) {
                connection.note(format.name(), warnings);
            }
        }
        offered
    }
}

fn offer(format: ToolFormat, entry: &ToolEntry, warnings: &mut Vec<Warning>) -> Option<Json> {
    let (title, description) = (entry.tool.title(), entry.tool.description());
    let tool = OfferedTool {
        key: &entry.key,
        title: title.as_deref(),
        description: description.as_deref(),
        input_schema: entry.tool.input_schema(),
        annotations: entry.tool.annotations(),
    };
    let mut note = |warning: &crate::catalogue::Warning, left_out: &str| {
        let message = format!("{left_out}in the `{format}` format: {warning}");
        warnings.push(Warning::new(warning.code.code(), message, Some(entry.tool.name().to_owned())));
    };
    match format.offer(&tool) {
        Ok(offer) => {
            offer.warnings.iter().for_each(|warning| note(warning, ""));
            Some(offer.json)
        }
        Err(warning) => {
            note(&warning, "left out ");
            None
        }
    }
}
