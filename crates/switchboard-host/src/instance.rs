//! One named, addressed life of an agent: its name, its manager, its calls.

use std::fmt;
use std::sync::Arc;

use switchboard::Manager;

use crate::call_table::CallTable;

/// The longest name of an agent or an instance, in characters.
const MAX_NAME: usize = 128;

/// The address of an instance: `/agents/{agent}/{instance}`.
///
/// The agent is in kebab-case. The instance is any text of 1 to 128 characters without control characters, and is not
/// safe to use as the name of a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstanceName {
    agent: Box<str>,
    instance: Box<str>,
}

impl InstanceName {
    /// Checks both names.
    ///
    /// # Errors
    /// When one of them is empty, too long or has characters that it may not have.
    pub fn new(agent: &str, instance: &str) -> switchboard::Result<Self> {
        check(agent, instance).map_err(|(path, message)| switchboard::Error::invalid(path, message))?;
        Ok(Self { agent: agent.into(), instance: instance.into() })
    }

    /// The agent's name.
    #[must_use]
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// The instance's name.
    #[must_use]
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// The path of `rest` under this instance, percent-encoded.
    pub(crate) fn path_to(&self, rest: &str) -> String {
        format!("/agents/{}/{}/{rest}", self.agent, encoded(&self.instance))
    }
}

fn check(agent: &str, instance: &str) -> Result<(), (&'static str, String)> {
    let is_kebab = agent
        .split('-')
        .all(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()));
    if !is_kebab || agent.len() > MAX_NAME {
        return Err(("agent", format!("`{agent}` is not a name in kebab-case of {MAX_NAME} characters at most")));
    }
    let length = instance.chars().count();
    if length == 0 || length > MAX_NAME {
        return Err(("instance", format!("the name of an instance has 1 to {MAX_NAME} characters")));
    }
    if instance.chars().any(char::is_control) {
        return Err(("instance", "the name of an instance may not hold control characters".to_owned()));
    }
    Ok(())
}

/// `text` as one segment of a path.
fn encoded(text: &str) -> String {
    let mut segment = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'@' => {
                segment.push(char::from(byte))
            }
            _ => segment.push_str(&format!("%{byte:02X}")),
        }
    }
    segment
}

impl fmt::Display for InstanceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.agent, self.instance)
    }
}

/// An open instance.
pub(crate) struct Instance {
    pub(crate) name: InstanceName,
    pub(crate) manager: Manager,
    pub(crate) calls: Arc<CallTable>,
}

impl Instance {
    pub(crate) fn new(name: InstanceName, manager: Manager) -> Self {
        Self { name, manager, calls: Arc::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded() {
        for (agent, instance) in [("switchboard", "default"), ("my-agent-2", "a b/ü?"), ("a", &"ü".repeat(128))] {
            assert!(InstanceName::new(agent, instance).is_ok(), "{agent}/{instance}");
        }
        let long = "a".repeat(129);
        for (agent, instance) in [
            ("", "x"),
            ("My", "x"),
            ("a_b", "x"),
            ("a--b", "x"),
            ("-a", "x"),
            (long.as_str(), "x"),
            ("a", ""),
            ("a", long.as_str()),
            ("a", "x\ny"),
        ] {
            assert!(InstanceName::new(agent, instance).unwrap_err().is_invalid_input(), "{agent}/{instance}");
        }
    }

    #[test]
    fn a_location_is_encoded() {
        let name = InstanceName::new("a", "me@h/ü ?").unwrap();
        assert_eq!(name.path_to("calls/1"), "/agents/a/me@h%2F%C3%BC%20%3F/calls/1");
    }
}
