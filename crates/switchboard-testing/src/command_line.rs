//! A program and its arguments, for a client to start.

use std::path::PathBuf;

use tempfile::TempPath;

/// What a client starts to get a server over stdio. Keep it while the client may start it again.
#[derive(Debug)]
pub struct CommandLine {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// A script that is too large for an argument.
    pub(crate) _script_file: Option<TempPath>,
}

impl CommandLine {
    /// A program with these arguments.
    pub fn new<T: Into<String>>(program: impl Into<PathBuf>, arguments: impl IntoIterator<Item = T>) -> Self {
        Self { program: program.into(), arguments: arguments.into_iter().map(Into::into).collect(), _script_file: None }
    }

    /// The program as text.
    ///
    /// # Panics
    /// When the path is not Unicode.
    pub fn program(&self) -> &str {
        self.program.to_str().expect("test programs have Unicode paths")
    }

    /// The program and then its arguments.
    pub fn words(&self) -> Vec<String> {
        std::iter::once(self.program().to_owned()).chain(self.arguments.iter().cloned()).collect()
    }
}
