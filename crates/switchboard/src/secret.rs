//! Values that cannot be printed by accident.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A value that neither `Debug` nor `Display` shows.
///
/// It serialises, because the store must keep it; nothing else may serialise it.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret<T = String>(T);

impl<T> Secret<T> {
    /// Hides `value`.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// The hidden value, for the wire or the store.
    pub const fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> From<T> for Secret<T> {
    fn from(value: T) -> Self {
        Self(value)
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

impl<T> fmt::Display for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// A URL whose password, and whose query values, are hidden when it is printed.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SafeUrl(url::Url);

impl SafeUrl {
    /// Hides the parts of `url` that may hold a secret.
    #[must_use]
    pub const fn new(url: url::Url) -> Self {
        Self(url)
    }

    /// The whole URL, for the wire or the store.
    #[must_use]
    pub const fn expose(&self) -> &url::Url {
        &self.0
    }
}

impl fmt::Display for SafeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = self.0.clone();
        if shown.password().is_some() {
            // A URL with a password can always carry another one.
            let _ = shown.set_password(Some("hidden"));
        }
        if shown.query().is_some() {
            let names: Vec<String> = self.0.query_pairs().map(|(name, _)| name.into_owned()).collect();
            shown.query_pairs_mut().clear().extend_pairs(names.iter().map(|name| (name, "hidden")));
        }
        write!(f, "{shown}")
    }
}

impl fmt::Debug for SafeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_printed() {
        let secret = Secret::new("token-1".to_owned());
        assert_eq!(format!("{secret} {secret:?}"), "[hidden] [hidden]");
    }

    #[test]
    fn a_url_shows_where_it_leads_but_not_what_it_carries() {
        let url = SafeUrl::new("https://me:pass@h.example/mcp?key=abc&n=1".parse().unwrap());
        assert_eq!(url.to_string(), "https://me:hidden@h.example/mcp?key=hidden&n=hidden");
    }
}
