//! References that are written by a program and kept in the repository: where they come from, and how to renew them.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// One reference.
pub(crate) struct Reference {
    /// Where it is kept.
    pub(crate) path: &'static str,
    source: Source,
}

/// What writes a reference.
enum Source {
    /// An example that prints it: package and example. Its file tells whether the package offers it yet.
    Example { package: &'static str, example: &'static str },
    /// A command of a program that prints it.
    Command { package: &'static str, program: &'static str, command: &'static str },
}

/// Every generated reference of the repository.
pub(crate) const REFERENCES: [Reference; 2] = [
    Reference {
        path: "docs/openapi.json",
        source: Source::Example { package: "switchboard-host", example: "openapi" },
    },
    Reference {
        path: "docs/cli.md",
        source: Source::Command { package: "switchboard-cli", program: "switchboard", command: "reference" },
    },
];

/// How programs are run: a trait, so that the checks can be tested without cargo.
pub(crate) trait Run {
    /// Whether the package has this example.
    fn has_example(&self, package: &str, example: &str) -> bool;
    /// What the example prints.
    fn example(&self, package: &str, example: &str) -> io::Result<String>;
    /// What the program prints with these arguments.
    fn program(&self, package: &str, program: &str, arguments: &[&str]) -> io::Result<String>;
}

impl Reference {
    /// The text as it should be now, or `None` when the crate that makes it does not offer it yet.
    pub(crate) fn current(&self, run: &dyn Run) -> io::Result<Option<String>> {
        let text = match self.source {
            Source::Example { package, example } if run.has_example(package, example) => {
                run.example(package, example)?
            }
            Source::Command { package, program, command } => run.program(package, program, &[command])?,
            Source::Example { .. } => return Ok(None),
        };
        Ok(Some(format!("{}\n", text.trim_end())))
    }
}

/// Writes every reference that is offered; returns one line about each.
pub(crate) fn write_all(root: &Path, run: &dyn Run) -> io::Result<Vec<String>> {
    let mut lines = Vec::new();
    for reference in &REFERENCES {
        lines.push(match reference.current(run)? {
            Some(text) => {
                std::fs::write(root.join(reference.path), text)?;
                format!("{} is written", reference.path)
            }
            None => format!("{} is left out: its crate does not offer it yet", reference.path),
        });
    }
    Ok(lines)
}

/// Runs programs through cargo.
pub(crate) struct Cargo {
    root: PathBuf,
}

impl Cargo {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_path_buf() }
    }

    fn output(&self, command: &mut Command) -> io::Result<String> {
        let output = command.current_dir(&self.root).stdin(Stdio::null()).output()?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(io::Error::other(format!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr).trim())))
    }
}

impl Run for Cargo {
    fn has_example(&self, package: &str, example: &str) -> bool {
        self.root.join(format!("crates/{package}/examples/{example}.rs")).exists()
    }

    fn example(&self, package: &str, example: &str) -> io::Result<String> {
        self.output(Command::new("cargo").args(["run", "--quiet", "--package", package, "--example", example]))
    }

    fn program(&self, package: &str, program: &str, arguments: &[&str]) -> io::Result<String> {
        let cargo = ["run", "--quiet", "--package", package, "--bin", program, "--"];
        self.output(Command::new("cargo").args(cargo).args(arguments))
    }
}

/// Programs that print what a test made up.
#[cfg(test)]
pub(crate) struct Scripted {
    /// What the example prints; `None`: there is no example.
    pub(crate) example: Option<&'static str>,
    /// What the program prints.
    pub(crate) help: &'static str,
}

#[cfg(test)]
impl Run for Scripted {
    fn has_example(&self, _: &str, _: &str) -> bool {
        self.example.is_some()
    }

    fn example(&self, _: &str, _: &str) -> io::Result<String> {
        Ok(self.example.unwrap_or_default().to_owned())
    }

    fn program(&self, _: &str, _: &str, arguments: &[&str]) -> io::Result<String> {
        Ok(if arguments.len() == 1 { self.help.to_owned() } else { format!("about {}", arguments[0]) })
    }
}

#[cfg(test)]
mod tests {
    use super::{REFERENCES, Scripted};

    #[test]
    fn a_program_writes_its_own_page() {
        let run = Scripted { example: None, help: "# The command line\n\n" };
        assert_eq!(REFERENCES[1].current(&run).unwrap().unwrap(), "# The command line\n");
    }

    #[test]
    fn what_is_not_offered_yet_is_left_out() {
        let run = Scripted { example: None, help: "" };
        assert!(REFERENCES[0].current(&run).unwrap().is_none());
    }
}
