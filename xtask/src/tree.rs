//! The repository as the checks see it: every text file with its content, and which of them only tests have.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::Command;

use crate::rust::Code;

/// One text file.
#[derive(Debug)]
pub(crate) struct File {
    /// Path from the root of the repository, with `/` between folders.
    pub(crate) path: String,
    pub(crate) text: String,
    /// The words of a `.rs` file.
    pub(crate) code: Option<Code>,
    /// Whether only a test build has this file.
    pub(crate) is_test: bool,
}

/// All text files, by path.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    files: BTreeMap<String, File>,
}

impl Tree {
    /// Reads what git tracks or would track; files that are not text are left out.
    pub(crate) fn open(root: &Path) -> io::Result<Self> {
        // A build server's copy may belong to another user, which git would refuse to read.
        let listed = Command::new("git")
            .args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()?;
        if !listed.status.success() {
            return Err(io::Error::other(format!(
                "`git ls-files` failed: {}",
                String::from_utf8_lossy(&listed.stderr)
            )));
        }
        let names = String::from_utf8_lossy(&listed.stdout).into_owned();
        // A file that cannot be read was deleted but not yet committed so, or is not text.
        let read = |name: &str| Some((name.to_owned(), std::fs::read_to_string(root.join(name)).ok()?));
        Ok(Self::new(names.split('\0').filter(|name| !name.is_empty()).filter_map(read)))
    }

    pub(crate) fn new(files: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut tree = Self::default();
        for (path, text) in files {
            let code = path.ends_with(".rs").then(|| Code::read(&text));
            let is_test = path.split('/').any(|part| part == "tests" || part == "benches");
            tree.files.insert(path.clone(), File { path, text, code, is_test });
        }
        tree.mark_test_modules();
        tree
    }

    /// A made-up tree.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        Self::new(files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())))
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &File> {
        self.files.values()
    }

    /// The Rust files, each with its words.
    pub(crate) fn rust(&self) -> impl Iterator<Item = (&File, &Code)> {
        self.files().filter_map(|file| Some((file, file.code.as_ref()?)))
    }

    /// The Rust files that a build without tests has, each with its words.
    pub(crate) fn shipped_rust(&self) -> impl Iterator<Item = (&File, &Code)> {
        self.rust().filter(|(file, _)| !file.is_test)
    }

    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.get(path)
    }

    /// Whether a file or a folder has this path.
    pub(crate) fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        path.is_empty() || self.files.contains_key(path) || self.files_under(path).next().is_some()
    }

    pub(crate) fn files_under<'a>(&'a self, folder: &str) -> impl Iterator<Item = &'a File> + use<'a> {
        let prefix = format!("{folder}/");
        self.files.range(prefix.clone()..).map(|(_, file)| file).take_while(move |file| file.path.starts_with(&prefix))
    }

    /// Marks the files of modules that are declared under `#[cfg(test)]`, with all that is below them.
    fn mark_test_modules(&mut self) {
        let mut roots = Vec::new();
        for (file, code) in self.rust() {
            let folder = module_folder(&file.path);
            for (name, _, _) in code.declared_modules().filter(|(_, _, in_test)| *in_test) {
                roots.push(format!("{folder}/{name}"));
            }
        }
        for root in roots {
            for file in self.files.values_mut() {
                let rest = file.path.strip_prefix(root.as_str());
                file.is_test |= rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'));
            }
        }
    }
}

/// The folder in which the modules that a Rust file declares have their files.
pub(crate) fn module_folder(path: &str) -> String {
    let stem = path.trim_end_matches(".rs");
    let (folder, name) = stem.rsplit_once('/').unwrap_or((".", stem));
    if ["mod", "lib", "main"].contains(&name) { folder.to_owned() } else { stem.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::Tree;

    #[test]
    fn a_module_under_cfg_test_makes_its_files_test_files() {
        let tree = Tree::of(&[
            ("src/lib.rs", "mod a;"),
            ("src/a.rs", "#[cfg(test)]\nmod check;"),
            ("src/a/check.rs", ""),
            ("src/a/check/deep.rs", ""),
            ("src/a/checked.rs", ""),
            ("tests/it/main.rs", ""),
        ]);
        let tests: Vec<_> = tree.files().filter(|file| file.is_test).map(|file| file.path.as_str()).collect();
        assert_eq!(tests, ["src/a/check.rs", "src/a/check/deep.rs", "tests/it/main.rs"]);
    }

    #[test]
    fn folders_are_there_as_well_as_files() {
        let tree = Tree::of(&[("a/b/c.md", "")]);
        assert!(tree.has("a/b/c.md") && tree.has("a/b") && tree.has("a/b/") && tree.has(""));
        assert!(!tree.has("a/bc") && !tree.has("a/b/c"));
    }
}
