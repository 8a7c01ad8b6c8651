//! `reference`: the command line as Markdown, made from what clap knows of it. `docs/cli.md` is its output.

use std::fmt::Write as _;

use clap::{Command, CommandFactory};

use crate::args::Arguments;
use crate::output::Output;
use crate::problem::{Exit, Result};

pub(crate) fn run() -> Result<Exit> {
    Output::plain(false).raw(text().as_bytes())?;
    Ok(Exit::Done)
}

fn text() -> String {
    let mut root = Arguments::command().term_width(100);
    root.build();
    let mut text = "<!-- Made by `switchboard reference`; do not edit. -->\n\n# The command line\n\n".to_owned();
    text.push_str("Data goes to standard output, everything else to standard error.\n");
    text.push_str("The global options, described first, go with every command.\n");
    section(&mut text, &mut root, "switchboard", true);
    let commands: Vec<_> = root.get_subcommands().filter(|command| !command.is_hide_set()).cloned().collect();
    for mut command in commands {
        let name = format!("switchboard {}", command.get_name());
        section(&mut text, &mut command, &name, false);
    }
    text
}

fn section(text: &mut String, command: &mut Command, name: &str, with_globals: bool) {
    let help = command.render_long_help().to_string();
    let mut is_shown = true;
    let mut lines: Vec<&str> = Vec::new();
    for line in help.lines().map(str::trim_end) {
        // A heading begins at the left edge; everything of it is indented.
        if !line.is_empty() && !line.starts_with(' ') {
            is_shown = with_globals || line != "Global options:";
        }
        if is_shown && !(line.is_empty() && lines.last().is_none_or(|last| last.is_empty())) {
            lines.push(line);
        }
    }
    let _ = write!(text, "\n## `{name}`\n\n```text\n{}\n```\n", lines.join("\n").trim_end());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_in_the_documentation_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            kept == text(),
            "docs/cli.md is not what `switchboard reference` prints: run `switchboard reference > docs/cli.md`"
        );
    }
}
