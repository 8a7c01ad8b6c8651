//! Patterns with `*` and `?`.

use serde::{Deserialize, Serialize};

/// A pattern over names: `*` stands for any run of characters, `?` for one.
///
/// ```
/// let glob = switchboard::spec::Glob::new("search*");
/// assert!(glob.matches("search_code") && !glob.matches("research"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Glob(String);

impl Glob {
    /// The pattern as written.
    pub fn new(pattern: impl Into<String>) -> Self {
        Self(pattern.into())
    }

    /// Whether the whole of `name` fits the pattern.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let (pattern, name): (Vec<char>, Vec<char>) = (self.0.chars().collect(), name.chars().collect());
        let (mut at, mut read) = (0, 0);
        // Where the last `*` stood, and how much of the name it has taken.
        let mut star = None;
        while read < name.len() {
            match pattern.get(at) {
                Some('*') => {
                    star = Some((at, read));
                    at += 1;
                }
                Some(&expected) if expected == '?' || expected == name[read] => {
                    at += 1;
                    read += 1;
                }
                _ => match star {
                    Some((star_at, taken)) => {
                        star = Some((star_at, taken + 1));
                        at = star_at + 1;
                        read = taken + 1;
                    }
                    None => return false,
                },
            }
        }
        pattern[at..].iter().all(|&rest| rest == '*')
    }
}

#[cfg(test)]
mod tests {
    use super::Glob;

    #[test]
    fn stars_and_question_marks_stand_for_characters() {
        let table = [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abcd", false),
            ("*.list", "admin.tools.list", true),
            ("a?c", "aéc", true),
            ("a?c", "ac", false),
            ("", "a", false),
            ("a*b*c", "aXbYbZc", true),
        ];
        for (pattern, name, fits) in table {
            assert_eq!(Glob::new(pattern).matches(name), fits, "{pattern} {name}");
        }
    }
}
