//! How long files and functions may be, tests excluded.

use crate::finding::Finding;
use crate::rust::Code;
use crate::tree::{File, Tree};

const FILE_LINES: usize = 600;
const TABLE_LINES: usize = 1_200;
const FUNCTION_LINES: usize = 100;
const PARAMETERS: usize = 6;

/// Files that are one declarative table and may be longer: path, and why.
const TABLES: [(&str, &str); 0] = [];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, code) in tree.shipped_rust() {
        check_file(file, code, &mut findings);
        for function in functions(code) {
            check_function(file, &function, &mut findings);
        }
    }
    for (path, _) in TABLES.iter().filter(|(path, _)| tree.file(path).is_none()) {
        findings.push(Finding::new(path, 1, "is gone: take it off the list of tables in xtask/src/tidy/budget.rs"));
    }
    findings
}

/// One line with the sizes that `docs/STYLE.md` aims at.
pub(super) fn summary(tree: &Tree) -> String {
    let files = Spread::of(tree.shipped_rust().map(|(_, code)| code.lines_outside_tests()));
    let functions =
        Spread::of(tree.shipped_rust().flat_map(|(_, code)| functions(code)).map(|function| function.lines));
    format!(
        "{} files, lines p50 {} p90 {} longest {}; {} functions, lines p50 {} p90 {} longest {}",
        files.count,
        files.p50,
        files.p90,
        files.longest,
        functions.count,
        functions.p50,
        functions.p90,
        functions.longest
    )
}

struct Spread {
    count: usize,
    p50: usize,
    p90: usize,
    longest: usize,
}

impl Spread {
    fn of(sizes: impl Iterator<Item = usize>) -> Self {
        let mut sizes: Vec<usize> = sizes.collect();
        sizes.sort_unstable();
        let at = |percent: usize| sizes.get(sizes.len().saturating_sub(1) * percent / 100).copied().unwrap_or(0);
        Self { count: sizes.len(), p50: at(50), p90: at(90), longest: at(100) }
    }
}

fn check_file(file: &File, code: &Code, findings: &mut Vec<Finding>) {
    let lines = code.lines_outside_tests();
    let stop = if TABLES.iter().any(|(path, _)| *path == file.path) { TABLE_LINES } else { FILE_LINES };
    if lines > stop {
        let message = format!("{lines} lines, the limit is {stop}: make the room a folder, one job a file");
        findings.push(Finding::new(&file.path, 1, message));
    }
}

fn check_function(file: &File, function: &Function<'_>, findings: &mut Vec<Finding>) {
    let Function { name, line, lines, parameters } = function;
    if *lines > FUNCTION_LINES {
        let message = format!("`{name}` has {lines} lines, the limit is {FUNCTION_LINES}: name its steps");
        findings.push(Finding::new(&file.path, *line, message));
    }
    if *parameters > PARAMETERS {
        let message =
            format!("`{name}` takes {parameters} parameters, the limit is {PARAMETERS}: make a struct of them");
        findings.push(Finding::new(&file.path, *line, message));
    }
}

struct Function<'a> {
    name: &'a str,
    line: usize,
    /// Lines with words, as clippy counts them.
    lines: usize,
    parameters: usize,
}

/// The functions with a body, outside tests.
fn functions(code: &Code) -> Vec<Function<'_>> {
    let starts = (0..code.len()).filter(|&i| code.word(i) == "fn" && code.is_identifier(i + 1) && !code.in_test(i));
    starts.filter_map(|start| function(code, start)).collect()
}

fn function(code: &Code, start: usize) -> Option<Function<'_>> {
    let list = parameter_list(code, start + 2)?;
    let list_end = code.closing(list);
    let mut body = list_end + 1;
    while code.word(body) != "{" {
        if [";", ""].contains(&code.word(body)) {
            return None;
        }
        body = if ["(", "["].contains(&code.word(body)) { code.closing(body) + 1 } else { body + 1 };
    }
    Some(Function {
        name: code.word(start + 1),
        line: code.line(start),
        lines: code.lines_with_words(start..code.closing(body) + 1),
        parameters: parameters(code, list, list_end),
    })
}

/// The `(` of the parameters; the generics before it may hold others (`F: Fn(u8)`).
fn parameter_list(code: &Code, mut index: usize) -> Option<usize> {
    let mut angles = 0_usize;
    while index < code.len() {
        match code.word(index) {
            "<" => angles += 1,
            ">" => angles = angles.saturating_sub(1),
            "(" if angles == 0 => return Some(index),
            "(" | "[" | "{" => index = code.closing(index),
            _ => {}
        }
        index += 1;
    }
    None
}

fn parameters(code: &Code, open: usize, close: usize) -> usize {
    let mut angles = 0_usize;
    let mut count = 0;
    let mut begun = false;
    let mut index = open + 1;
    while index < close {
        match code.word(index) {
            "," if angles == 0 => begun = false,
            word => {
                if !begun {
                    count += 1;
                    begun = true;
                }
                match word {
                    "<" => angles += 1,
                    ">" => angles = angles.saturating_sub(1),
                    "(" | "[" | "{" => index = code.closing(index),
                    _ => {}
                }
            }
        }
        index += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::{check, functions, summary};
    use crate::rust::Code;
    use crate::tree::Tree;

    fn messages(text: &str) -> Vec<String> {
        check(&Tree::of(&[("a.rs", text)])).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_long_file_is_found_and_its_tests_do_not_count() {
        assert_eq!(messages(&"// why\n".repeat(601)).len(), 1);
        let tested = format!("{}#[cfg(test)]\nmod tests {{\n{}}}\n", "// why\n".repeat(600), "// why\n".repeat(600));
        assert_eq!(messages(&tested), Vec::<String>::new());
    }

    #[test]
    fn a_long_function_is_found_at_its_line() {
        let long = format!("\nfn a() {{\n{}}}\n", "b();\n".repeat(99));
        assert_eq!(messages(&long), ["a.rs:2: `a` has 101 lines, the limit is 100: name its steps"]);
        assert!(messages(&format!("fn a() {{\n{}// why\n}}\n", "b();\n".repeat(98))).is_empty());
    }

    #[test]
    fn parameters_are_counted_whatever_their_types() {
        let text =
            "fn a<F: Fn(u8, u8), const N: usize>(&self, b: Map<u8, (u8, u8)>, f: impl Fn(u8, u8) -> u8,) -> [u8; 2] {}";
        let code = Code::read(text);
        assert_eq!(functions(&code).iter().map(|function| function.parameters).collect::<Vec<_>>(), [3]);
        assert_eq!(messages("fn a(b: B, c: C, d: D, e: E, f: F, g: G, h: H) {}").len(), 1);
    }

    #[test]
    fn declarations_and_tests_are_no_functions() {
        let code = Code::read("trait A { fn a(&self) -> [u8; 2]; } #[cfg(test)] mod t { fn b() {} } type C = fn(u8);");
        assert!(functions(&code).is_empty());
    }

    #[test]
    fn the_summary_names_the_middle_and_the_longest() {
        let tree = Tree::of(&[("a.rs", "\n"), ("b.rs", "\n\n"), ("c.rs", "fn a() {\n}\n\n")]);
        assert_eq!(summary(&tree), "3 files, lines p50 2 p90 2 longest 3; 1 functions, lines p50 2 p90 2 longest 2");
    }
}
