//! Compiled schemas of a server's tools, made at the first use and kept for as long as the schema stays the same.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::catalogue::check::{SchemaCheck, check_arguments, check_output, without_refused_nulls};
use crate::error::Problem;
use crate::wire::{Json, Tool};

/// How many compiled schemas are kept.
const KEPT: usize = 1024;

/// Compiled schemas by tool.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    arguments: Compiled,
    outputs: Compiled,
}

type Compiled = Mutex<HashMap<Box<str>, (Json, Arc<SchemaCheck>)>>;

impl Checks {
    /// The arguments as they may be sent, and what is wrong with them by the tool's input schema.
    pub(crate) fn arguments(&self, tool: &Tool, arguments: &Json) -> (Json, Vec<Problem>) {
        let Some(schema) = tool.input_schema() else { return (arguments.clone(), Vec::new()) };
        let check = compiled(&self.arguments, tool, schema, || SchemaCheck::of_arguments(Some(schema)));
        let arguments = without_refused_nulls(&check, arguments);
        let problems = check_arguments(&check, &arguments);
        (arguments, problems)
    }

    /// What is wrong with a result by the tool's output schema.
    pub(crate) fn output(&self, tool: &Tool, result: &Json) -> Vec<Problem> {
        let Some(schema) = tool.output_schema() else { return Vec::new() };
        let check = compiled(&self.outputs, tool, schema, || SchemaCheck::of_output(schema));
        check_output(&check, result)
    }
}

fn compiled(kept: &Compiled, tool: &Tool, schema: &Json, compile: impl FnOnce() -> SchemaCheck) -> Arc<SchemaCheck> {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((of, check)) = kept.get(tool.name())
        && of == schema
    {
        return check.clone();
    }
    if kept.len() >= KEPT {
        kept.clear();
    }
    let check = Arc::new(compile());
    kept.insert(tool.name().into(), (schema.clone(), check.clone()));
    check
}
