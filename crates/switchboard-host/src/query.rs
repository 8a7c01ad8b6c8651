//! Query parameters: which are known, which may repeat, and what they mean.

use axum::extract::Query;
use http::Uri;
use switchboard::{Filter, ServerId};

use crate::paging::{Cursor, Page};
use crate::problem::Problem;

/// The parameters of one request. A name that the path does not know is refused, so that a misspelt filter is noticed.
#[derive(Debug)]
pub(crate) struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Reads the query of `uri`, in which only `known` names may stand.
    pub(crate) fn read(uri: &Uri, known: &[&str]) -> Result<Self, Problem> {
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|rejection| Problem::invalid_at("", rejection.body_text()))?;
        match pairs.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            None => Ok(Self(pairs)),
            Some((name, _)) => {
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                Err(Problem::invalid_at(name, format!("is not a parameter of this path; known: {known}")))
            }
        }
    }

    /// Every value of `name`.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// The value of `name`, which may stand there once.
    pub(crate) fn one(&self, name: &str) -> Result<Option<&str>, Problem> {
        let mut values = self.0.iter().filter(|(given, _)| given == name).map(|(_, value)| value.as_str());
        match (values.next(), values.next()) {
            (value, None) => Ok(value),
            _ => Err(Problem::invalid_at(name, "may be given once only")),
        }
    }

    /// The number that `name` gives.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, Problem> {
        let read = |text: &str| {
            text.parse().map_err(|_| Problem::invalid_at(name, format!("`{text}` is not a whole number from 0 on")))
        };
        self.one(name)?.map(read).transpose()
    }

    /// The servers that are meant: `serverId`, `serverName` and `state`, each any number of times.
    pub(crate) fn filter(&self) -> Result<Filter, Problem> {
        let mut filter = Filter::all();
        for id in self.all("serverId") {
            let id = ServerId::parse(id).map_err(|_| Problem::invalid_at("serverId", "may not be empty"))?;
            filter.server_ids.push(id);
        }
        filter.server_names.extend(self.all("serverName").map(str::to_owned));
        for state in self.all("state") {
            filter.states.push(state.parse().map_err(|error| Problem::of(&error))?);
        }
        Ok(filter)
    }

    /// The page that is asked for: `limit` and `cursor`.
    pub(crate) fn page(&self) -> Result<Page, Problem> {
        let limit = match self.number("limit")? {
            Some(0) => return Err(Problem::invalid_at("limit", "must be 1 at least")),
            limit => limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX)),
        };
        let read = |text: &str| {
            Cursor::parse(text)
                .ok_or_else(|| Problem::invalid_at("cursor", "is not a `nextCursor` that this path has given"))
        };
        Ok(Page { limit, cursor: self.one("cursor")?.map(read).transpose()? })
    }
}

#[cfg(test)]
mod tests {
    use switchboard::State;

    use super::*;

    const KNOWN: [&str; 5] = ["serverId", "serverName", "state", "limit", "cursor"];

    fn read(query: &str) -> Result<Parameters, Problem> {
        Parameters::read(&format!("/tools?{query}").parse().unwrap(), &KNOWN)
    }

    fn refused<T>(outcome: Result<T, Problem>) -> String {
        let problem = serde_json::to_value(outcome.err().unwrap()).unwrap();
        assert_eq!(problem["status"], 422);
        problem["errors"][0]["path"].as_str().unwrap().to_owned()
    }

    #[test]
    fn filters_may_repeat_and_ids_are_normalised() {
        let query = read("serverId=a.b&serverId=c&serverName=My%20Server&state=ready&state=failed").unwrap();
        let filter = query.filter().unwrap();
        assert_eq!(filter.server_ids.iter().map(ServerId::as_str).collect::<Vec<_>>(), ["a-b", "c"]);
        assert_eq!(filter.server_names, ["My Server"]);
        assert_eq!(filter.states, [State::Ready, State::Failed]);
    }

    #[test]
    fn nothing_asked_means_everything() {
        let query = Parameters::read(&Uri::from_static("/tools"), &KNOWN).unwrap();
        assert_eq!(query.filter().unwrap(), Filter::all());
        assert!(query.page().unwrap().limit.is_none());
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(refused(read("serverid=a")), "serverid");
        assert_eq!(refused(read("state=redy").unwrap().filter()), "state");
        assert_eq!(refused(read("serverId=").unwrap().filter()), "serverId");
        assert_eq!(refused(read("limit=0").unwrap().page()), "limit");
        assert_eq!(refused(read("limit=-1").unwrap().page()), "limit");
        assert_eq!(refused(read("limit=1&limit=2").unwrap().page()), "limit");
        assert_eq!(refused(read("cursor=x").unwrap().page()), "cursor");
    }
}
