//! A registration as JSON: the body of `POST /servers`, and what the store keeps.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    DriftPolicy, EraChoice, Headers, HttpTarget, Inherit, Limits, OutputSchemaPolicy, Retry, ServerSpec, StdioTarget,
    Target, Timeouts, ToolPolicy, TransportKind,
};
use crate::error::{Error, ErrorKind, Problem};
use crate::id::ServerId;
use crate::secret::Secret;
use crate::wire::Json;

/// A registration as it is written in JSON. Unknown members are refused, so that a misspelt setting is noticed.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(missing_docs, reason = "the members are those of ServerSpec, and are described in the API reference")]
#[non_exhaustive]
pub struct SpecDocument {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<TransportKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<Headers>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, Secret>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inherit_env: Option<InheritDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<TimeoutsDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub era: Option<EraChoice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<OutputSchemaPolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftPolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolPolicy>,
}

/// `"all"`, or a list of names.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub enum InheritDocument {
    Word(String),
    Names(Vec<String>),
}

/// The members of `retry`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetryDocument {
    pub max_attempts: Option<u32>,
    pub base_delay_ms: Option<u64>,
    pub max_delay_ms: Option<u64>,
}

/// The members of `timeouts`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TimeoutsDocument {
    pub connect_ms: Option<u64>,
    pub probe_ms: Option<u64>,
    pub request_ms: Option<u64>,
    pub max_request_ms: Option<u64>,
    pub discovery_ms: Option<u64>,
    pub list_changed_ms: Option<u64>,
    pub heartbeat_ms: Option<u64>,
}

/// The members of `limits`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LimitsDocument {
    pub message_bytes: Option<usize>,
    pub in_flight: Option<usize>,
    pub waiting: Option<usize>,
}

/// The members of `client`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientDocument {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Json>,
}

/// One error for everything that is wrong with a registration.
pub(super) fn refused(problems: Vec<Problem>) -> Error {
    let text = problems.iter().map(|problem| format!("`{}`: {}", problem.path, problem.message)).collect::<Vec<_>>();
    Error::new(ErrorKind::InvalidInput, text.join("; ")).with(|data| data.problems = problems)
}

impl TryFrom<SpecDocument> for ServerSpec {
    type Error = Error;

    fn try_from(document: SpecDocument) -> Result<Self, Error> {
        let mut problems = Vec::new();
        let id = document.id.as_deref().map(ServerId::parse).transpose();
        let id = id.unwrap_or_else(|error| {
            problems.extend(error.data().problems.clone());
            None
        });
        let target = target(&document, &mut problems);
        let Some(target) = target else { return Err(refused(problems)) };
        let spec = Self {
            name: document.name,
            id,
            timeouts: timeouts(document.timeouts, Timeouts::of(&target)),
            target,
            retry: retry(document.retry),
            limits: limits(document.limits),
            capabilities: document.client.and_then(|client| client.capabilities),
            era: document.era.unwrap_or_default(),
            output_schema: document.output_schema.unwrap_or_default(),
            drift: document.drift.unwrap_or_default(),
            tools: document.tools.unwrap_or_default(),
        };
        problems.extend(spec.problems());
        if problems.is_empty() { Ok(spec) } else { Err(refused(problems)) }
    }
}

/// The target that a document names: exactly one of `url` and `command`, with the members that go with it.
fn target(document: &SpecDocument, problems: &mut Vec<Problem>) -> Option<Target> {
    let misplaced = |given: &[(&str, bool)], why: &str, problems: &mut Vec<Problem>| {
        let given = given.iter().filter(|(_, is_given)| *is_given);
        problems.extend(given.map(|(member, _)| Problem::new(*member, why)));
    };
    match (&document.url, &document.command) {
        (Some(url), None) => {
            let of_commands = [
                ("args", document.args.is_some()),
                ("env", document.env.is_some()),
                ("inheritEnv", document.inherit_env.is_some()),
                ("cwd", document.cwd.is_some()),
            ];
            misplaced(&of_commands, "goes with `command`, not with `url`", problems);
            match HttpTarget::new(url) {
                Ok(mut target) => {
                    target.transport = document.transport.unwrap_or_default();
                    target.headers = document.headers.clone().unwrap_or_default();
                    Some(Target::Http(target))
                }
                Err(error) => {
                    problems.extend(error.data().problems.clone());
                    None
                }
            }
        }
        (None, Some(command)) => {
            let of_urls = [("transport", document.transport.is_some()), ("headers", document.headers.is_some())];
            misplaced(&of_urls, "goes with `url`, not with `command`", problems);
            Some(Target::Stdio(StdioTarget {
                command: command.clone(),
                args: document.args.clone().unwrap_or_default(),
                env: document.env.clone().unwrap_or_default(),
                inherit: inherit(document.inherit_env.as_ref(), problems),
                cwd: document.cwd.clone(),
            }))
        }
        (Some(_), Some(_)) => {
            problems.push(Problem::new("command", "give either `url` or `command`, not both"));
            None
        }
        (None, None) => {
            problems.push(Problem::new("url", "give either `url` or `command`"));
            None
        }
    }
}

fn inherit(document: Option<&InheritDocument>, problems: &mut Vec<Problem>) -> Inherit {
    match document {
        None => Inherit::Safe,
        Some(InheritDocument::Names(names)) if names.is_empty() => Inherit::Safe,
        Some(InheritDocument::Names(names)) => Inherit::Also(names.clone()),
        Some(InheritDocument::Word(word)) if word == "all" => Inherit::All,
        Some(InheritDocument::Word(_)) => {
            problems.push(Problem::new("inheritEnv", "must be a list of names, or `all`"));
            Inherit::Safe
        }
    }
}

fn millis(given: Option<u64>, default: Duration) -> Duration {
    given.map_or(default, Duration::from_millis)
}

fn as_millis(duration: Duration) -> Option<u64> {
    Some(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

fn retry(document: Option<RetryDocument>) -> Retry {
    let (document, default) = (document.unwrap_or_default(), Retry::default());
    Retry {
        max_attempts: document.max_attempts.unwrap_or(default.max_attempts),
        base_delay: millis(document.base_delay_ms, default.base_delay),
        max_delay: millis(document.max_delay_ms, default.max_delay),
    }
}

fn timeouts(document: Option<TimeoutsDocument>, default: Timeouts) -> Timeouts {
    let document = document.unwrap_or_default();
    let request = millis(document.request_ms, default.request);
    Timeouts {
        connect: millis(document.connect_ms, default.connect),
        probe: millis(document.probe_ms, default.probe),
        request,
        max_request: millis(document.max_request_ms, default.max_request.max(request)),
        discovery: millis(document.discovery_ms, default.discovery),
        list_changed: millis(document.list_changed_ms, default.list_changed),
        heartbeat: millis(document.heartbeat_ms, default.heartbeat),
    }
}

fn limits(document: Option<LimitsDocument>) -> Limits {
    let (document, default) = (document.unwrap_or_default(), Limits::default());
    Limits {
        message_bytes: document.message_bytes.unwrap_or(default.message_bytes),
        in_flight: document.in_flight.unwrap_or(default.in_flight),
        waiting: document.waiting.unwrap_or(default.waiting),
    }
}

impl From<ServerSpec> for SpecDocument {
    /// Settings that are the defaults are left out, so that a later default reaches old registrations.
    fn from(spec: ServerSpec) -> Self {
        let mut document = Self { name: spec.name, id: spec.id.map(|id| id.to_string()), ..Self::default() };
        let default_timeouts = Timeouts::of(&spec.target);
        match spec.target {
            Target::Http(target) => {
                document.url = Some(target.url.into());
                document.transport = (target.transport != TransportKind::Auto).then_some(target.transport);
                document.headers = (!target.headers.is_empty()).then_some(target.headers);
            }
            Target::Stdio(target) => {
                document.command = Some(target.command);
                document.args = (!target.args.is_empty()).then_some(target.args);
                document.env = (!target.env.is_empty()).then_some(target.env);
                document.inherit_env = match target.inherit {
                    Inherit::Safe => None,
                    Inherit::Also(names) => Some(InheritDocument::Names(names)),
                    Inherit::All => Some(InheritDocument::Word("all".to_owned())),
                };
                document.cwd = target.cwd;
            }
            Target::InProcess(_) => {}
        }
        document.retry = (spec.retry != Retry::default()).then(|| RetryDocument {
            max_attempts: Some(spec.retry.max_attempts),
            base_delay_ms: as_millis(spec.retry.base_delay),
            max_delay_ms: as_millis(spec.retry.max_delay),
        });
        document.timeouts = (spec.timeouts != default_timeouts).then(|| TimeoutsDocument {
            connect_ms: as_millis(spec.timeouts.connect),
            probe_ms: as_millis(spec.timeouts.probe),
            request_ms: as_millis(spec.timeouts.request),
            max_request_ms: as_millis(spec.timeouts.max_request),
            discovery_ms: as_millis(spec.timeouts.discovery),
            list_changed_ms: as_millis(spec.timeouts.list_changed),
            heartbeat_ms: as_millis(spec.timeouts.heartbeat),
        });
        document.limits = (spec.limits != Limits::default()).then_some(LimitsDocument {
            message_bytes: Some(spec.limits.message_bytes),
            in_flight: Some(spec.limits.in_flight),
            waiting: Some(spec.limits.waiting),
        });
        document.client = spec.capabilities.map(|capabilities| ClientDocument { capabilities: Some(capabilities) });
        document.era = (spec.era != EraChoice::default()).then_some(spec.era);
        document.output_schema = (spec.output_schema != OutputSchemaPolicy::default()).then_some(spec.output_schema);
        document.drift = (spec.drift != DriftPolicy::default()).then_some(spec.drift);
        document.tools = (spec.tools != ToolPolicy::default()).then_some(spec.tools);
        document
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ServerSpec, serde_json::Error> {
        serde_json::from_str(text)
    }

    #[test]
    fn registrations_read_back_as_they_were_written() {
        let texts = [
            r#"{"name":"github","id":"github","url":"https://h.example/mcp","transport":"streamable-http","headers":[["x-key","v"]]}"#,
            r#"{"name":"files","command":"npx","args":["-y","x"],"env":{"K":"V"},"inheritEnv":["HTTPS_PROXY"],"cwd":"/tmp"}"#,
            r#"{"name":"t","url":"http://h/","outputSchema":"refuse","drift":"refuse-changed","tools":{"allow":["search*"],"rename":{"a":"b"}}}"#,
        ];
        for text in texts {
            assert_eq!(serde_json::to_string(&read(text).unwrap()).unwrap(), text);
        }
    }

    #[test]
    fn everything_that_is_wrong_is_said_at_once() {
        let document: SpecDocument = serde_json::from_str(
            r#"{"name":" ","url":"http://h/","args":[],"retry":{"maxAttempts":0},"limits":{"inFlight":0}}"#,
        )
        .unwrap();
        let error = ServerSpec::try_from(document).unwrap_err();
        let paths: Vec<_> = error.data().problems.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(paths, ["args", "name", "retry/maxAttempts", "limits/inFlight"]);
    }

    #[test]
    fn a_misspelt_setting_is_noticed() {
        assert!(read(r#"{"name":"a","url":"http://h/","timeout":{}}"#).unwrap_err().to_string().contains("timeout"));
        assert!(read(r#"{"name":"a"}"#).is_err());
        assert!(read(r#"{"name":"a","url":"http://h/","command":"x"}"#).is_err());
    }
}
