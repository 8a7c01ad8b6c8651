//! What a check has found: the place, what is wrong there, and how to mend it.

use std::fmt;

/// One mistake at one place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// Path from the root of the repository.
    pub(crate) file: String,
    /// Line, counted from one.
    pub(crate) line: usize,
    /// What it is and how to mend it, on one line.
    pub(crate) message: String,
}

impl Finding {
    pub(crate) fn new(file: &str, line: usize, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
    }
}
