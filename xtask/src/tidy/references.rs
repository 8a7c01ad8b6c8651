//! References that a program writes are as it would write them now.

use crate::finding::Finding;
use crate::generated::{REFERENCES, Reference, Run};
use crate::tree::Tree;

/// What is out of date, and notes about what was skipped.
pub(super) fn check(tree: &Tree, programs: &dyn Run) -> (Vec<Finding>, Vec<String>) {
    let mut findings = Vec::new();
    let mut notes = Vec::new();
    for reference in &REFERENCES {
        match tree.file(reference.path) {
            Some(file) => findings.extend(compare(reference, &file.text, programs)),
            None => notes.push(format!("{} is not there yet, skipped", reference.path)),
        }
    }
    (findings, notes)
}

fn compare(reference: &Reference, kept: &str, programs: &dyn Run) -> Option<Finding> {
    match reference.current(programs) {
        Ok(Some(current)) if current == kept => None,
        Ok(Some(current)) => {
            let same = current.lines().zip(kept.lines()).take_while(|(now, then)| now == then).count();
            Some(Finding::new(reference.path, same + 1, "is out of date: run `cargo xtask generate`"))
        }
        Ok(None) => {
            Some(Finding::new(reference.path, 1, "nothing writes it any more: delete it, or bring its source back"))
        }
        Err(error) => {
            let message = format!("could not be made anew: {}", error.to_string().replace('\n', " "));
            Some(Finding::new(reference.path, 1, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::generated::Scripted;
    use crate::tree::Tree;

    #[test]
    fn a_reference_that_differs_is_found_at_the_first_difference() {
        let tree = Tree::of(&[("docs/openapi.json", "{\n}\n")]);
        let (findings, notes) = check(&tree, &Scripted { example: Some("{\n  \"a\": 1\n}"), help: "" });
        assert_eq!(findings.len(), 1);
        assert_eq!((findings[0].file.as_str(), findings[0].line), ("docs/openapi.json", 2));
        assert_eq!(notes, ["docs/cli.md is not there yet, skipped"]);
    }

    #[test]
    fn a_current_reference_is_right() {
        let tree = Tree::of(&[("docs/openapi.json", "{}\n")]);
        assert!(check(&tree, &Scripted { example: Some("{}"), help: "" }).0.is_empty());
    }

    #[test]
    fn a_reference_whose_source_is_gone_is_found() {
        let tree = Tree::of(&[("docs/openapi.json", "{}\n")]);
        assert_eq!(check(&tree, &Scripted { example: None, help: "" }).0.len(), 1);
    }
}
