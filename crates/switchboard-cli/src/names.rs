//! Which names are close to one that is unknown.

/// How many names are offered.
const OFFERED: usize = 3;

/// How alike two names must be, from 0 to 1.
const ALIKE: f64 = 0.75;

/// The names most like `wanted`, best first.
pub(crate) fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let wanted = wanted.to_lowercase();
    let mut scored: Vec<(f64, &str)> =
        names.map(|name| (strsim::jaro_winkler(&wanted, &name.to_lowercase()), name)).collect();
    scored.retain(|(score, _)| *score > ALIKE);
    scored.sort_by(|one, two| two.0.total_cmp(&one.0).then_with(|| one.1.cmp(two.1)));
    scored.dedup_by_key(|(_, name)| *name);
    scored.into_iter().take(OFFERED).map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn misspelt_names_find_what_was_meant() {
        let names = ["everything", "github", "files"];
        assert_eq!(nearest("everthing", names.into_iter()), ["everything"]);
        assert_eq!(nearest("GitHub", names.into_iter()), ["github"]);
        assert!(nearest("zzz", names.into_iter()).is_empty());
    }
}
