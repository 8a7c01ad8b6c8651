//! `serve`: the daemon. Takes the data folder's lock, listens, tells clients where, and stops in order when it is asked to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use serde_json::json;
use switchboard::secret::Secret;
use switchboard_host::{Access, ApiOptions, BindError, Host, HostOptions, InstanceName, ServeOptions};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::args::Serve;
use crate::backend::{Wake, local};
use crate::daemon_file::{DaemonFile, DaemonLock};
use crate::problem::{Exit, Problem, Result};
use crate::program::asked_to_stop;
use crate::session::Session;

/// The longest token file.
const TOKEN_BYTES: usize = 4096;

pub(super) async fn run(serve: &Serve, session: &Session) -> Result<Exit> {
    let settings = &session.settings;
    let token = token(serve, session)?;
    local::make_folder(&settings.data)?;
    let lock = DaemonLock::take(&settings.data).await?;
    let store = local::open_store(&settings.data)?;
    let listener = switchboard_host::bind(serve.listen).await.map_err(|error| not_bound(error, serve.listen))?;
    let address = listener.local_addr().map_err(|cause| not_bound(other(cause, serve.listen), serve.listen))?;

    let owner_token = random_token()?;
    let mut access = Access::for_listener(address).owner_token(owner_token.clone());
    if let Some(token) = token {
        access = access.token(token);
    }
    if serve.allow_commands {
        access = access.allow_commands();
    }
    for name in &serve.allowed_host {
        access = access.allow_host(name);
    }
    let opener = settings.clone();
    let host = Host::new(HostOptions::default(), move |name: InstanceName| {
        let (store, settings) = (store.clone(), opener.clone());
        async move {
            let namespace = local::namespace(name.agent(), name.instance());
            local::build(&settings, store, &namespace, Wake::Everything).await
        }
    });

    lock.announce(&DaemonFile { address: reachable(address), pid: std::process::id(), token: owner_token })?;
    tell(session, address)?;
    let exit = until_stopped(session, listener, host, ServeOptions::new(ApiOptions::new(access))).await;
    lock.withdraw()?;
    exit
}

/// Serves until a signal asks to stop; a second one cuts what is still under way.
async fn until_stopped(session: &Session, listener: TcpListener, host: Host, options: ServeOptions) -> Result<Exit> {
    let (stop, stopping) = oneshot::channel::<()>();
    let name = InstanceName::new(local::AGENT, &session.settings.instance)?;
    let serving = switchboard_host::serve(listener, host.clone(), options, async {
        // Whether it was sent or dropped: it is over.
        let _ = stopping.await;
    });
    let restoring = async {
        for (name, error) in host.restore([name]).await {
            session.output.note(&format!("warning: instance `{}` could not be opened: {error}", name.instance()));
        }
    };
    let mut serving = std::pin::pin!(async { tokio::join!(serving, restoring) });
    let asked = tokio::select! {
        _ = &mut serving => return Ok(Exit::Failed),
        asked = asked_to_stop() => asked,
    };
    session.output.note("stopping; once more stops at once");
    // The receiver lives in `serving`.
    let _ = stop.send(());
    tokio::select! {
        (stopped, ()) = &mut serving => {
            if !stopped.is_clean() {
                let text = format!("{} connections and {} calls were cut", stopped.connections, stopped.calls);
                session.output.note(&text);
            }
        }
        _ = asked_to_stop() => {}
    }
    // To end a daemon politely is how it is meant to end.
    Ok(if asked == Exit::Terminated { Exit::Done } else { asked })
}

/// Says where the daemon listens.
fn tell(session: &Session, address: SocketAddr) -> Result<()> {
    let url = format!("http://{address}");
    if session.output.is_json() {
        return session.output.document(&json!({"url": url, "address": address, "pid": std::process::id()}));
    }
    session.output.line(&format!("listening on {url}"))?;
    session.output.note(&format!("data folder {}; Ctrl-C stops", session.settings.data.display()));
    Ok(())
}

/// The token that clients must show.
fn token(serve: &Serve, session: &Session) -> Result<Option<Secret>, Problem> {
    let Some(path) = &serve.token_file else {
        if serve.listen.ip().is_loopback() {
            return Ok(None);
        }
        return Err(Problem::input(format!("{} can be reached by others, so a token is needed", serve.listen))
            .hint("--token-file FILE names a file with one, or listen on a loopback address"));
    };
    let path = session.settings.absolute(path);
    let text = std::fs::read_to_string(&path).map_err(|cause| {
        Problem::input(format!("the token file `{}` cannot be read", path.display())).because(cause)
    })?;
    let token = text.trim();
    if token.is_empty() || token.len() > TOKEN_BYTES || token.contains(char::is_whitespace) {
        return Err(Problem::input(format!("the token file `{}` must hold one token", path.display())));
    }
    Ok(Some(Secret::new(token.to_owned())))
}

/// 32 bytes that nobody can guess, in hexadecimal.
fn random_token() -> Result<Secret, Problem> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|cause| Problem::new("unsupported", "there is no randomness").because(cause))?;
    Ok(Secret::new(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
}

/// Where a program on this machine finds a listener at `address`.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}

fn other(source: std::io::Error, address: SocketAddr) -> BindError {
    if source.kind() == std::io::ErrorKind::AddrInUse {
        BindError::InUse { address }
    } else {
        BindError::NotHere { address }
    }
}

fn not_bound(error: BindError, address: SocketAddr) -> Problem {
    let hint = match &error {
        BindError::InUse { .. } => {
            "another program listens there: stop it, or choose another address with --listen (port 0 takes a free one)"
        }
        BindError::NotPermitted { .. } => "ports below 1024 are kept for the system; choose another with --listen",
        _ => "choose another address with --listen",
    };
    let mut problem = Problem::new("address_in_use", error.to_string()).with("address", address.to_string());
    if let Some(cause) = std::error::Error::source(&error) {
        problem = problem.because(cause);
    }
    problem.hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_long_and_new_each_time() {
        let (one, two) = (random_token().unwrap(), random_token().unwrap());
        assert_eq!(one.expose().len(), 64);
        assert_ne!(one, two);
    }

    #[test]
    fn a_listener_on_all_addresses_is_found_on_the_loopback() {
        assert_eq!(reachable("0.0.0.0:7".parse().unwrap()).to_string(), "127.0.0.1:7");
        assert_eq!(reachable("[::]:7".parse().unwrap()).to_string(), "[::1]:7");
        assert_eq!(reachable("192.0.2.1:7".parse().unwrap()).to_string(), "192.0.2.1:7");
    }
}
