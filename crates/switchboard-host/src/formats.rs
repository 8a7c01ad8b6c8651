//! Tools in the shapes of model providers, in pages.

use switchboard::catalogue::ToolFormat;
use switchboard::wire::Json;
use switchboard::{Filter, Manager};

use crate::code::Code;
use crate::paging::Page;
use crate::problem::Problem;

/// One page of tools as a provider's request takes them, and the cursor of the next. Tools that are withheld are left out.
///
/// Everything about these shapes is the library's; this is the one place that asks it.
pub(crate) fn page(
    manager: &Manager,
    format: ToolFormat,
    filter: &Filter,
    page: &Page,
) -> Result<(Json, Option<String>), Problem> {
    let (tools, next_cursor) = page.of(manager.offer(format, filter), Json::clone);
    let tools = format
        .list(&tools)
        .map_err(|error| Problem::new(Code::Internal, format!("tools could not be written as `{format}`: {error}")))?;
    Ok((tools, next_cursor))
}
