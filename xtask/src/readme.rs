//! The commands of the README that a test runs word for word.

/// The line before a block of commands that is to be tested. Readers of the rendered page do not see it.
const MARK: &str = "<!-- tested -->";

/// The text of each ` ```sh ` block that follows the mark.
pub(crate) fn tested_blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim() == MARK && lines.by_ref().find(|next| !next.trim().is_empty()) == Some("```sh") {
            let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            blocks.push(block.join("\n"));
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::tested_blocks;

    #[test]
    fn only_marked_blocks_are_tested() {
        let text = "```sh\nno\n```\n<!-- tested -->\n\n```sh\none\ntwo\n```\n<!-- tested -->\n```text\nno\n```\n";
        assert_eq!(tested_blocks(text), ["one\ntwo"]);
    }
}
