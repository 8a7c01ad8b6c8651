//! Connections opened and closed, thousands of times: nothing of them may stay.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use switchboard::spec::InProcessTarget;
use switchboard::{Added, Client, Manager, ServerSpec};
use switchboard_testing::process::{open_files, resident_memory, wait_until, zombie_children};
use switchboard_testing::stdio::{Script, ToolAnswer};
use switchboard_testing::{HttpPeer, HttpReply, Peer, memory};

use super::{PATIENCE, alive_tasks};

/// How much more memory may be held after ten thousand connections than after one thousand.
const GROWTH: u64 = 8 << 20;
/// Connections opened and closed at the same time.
const AT_ONCE: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b187_a_close_that_races_the_stream_leaves_no_stream_behind() {
    let tasks_before = alive_tasks();
    let delays = AtomicUsize::new(0);
    let server = HttpPeer::start(Peer::legacy().tool("echo")).await.on_http(move |request| {
        // From at once to long after the close.
        let delay = Duration::from_millis(1 << (delays.fetch_add(1, Ordering::Relaxed) % 10));
        (request.method == http::Method::GET).then(|| HttpReply::usual().delay(delay))
    });
    let manager = Manager::builder("test", "1.0.0").start().await.unwrap();
    let spec = ServerSpec::http("peer", &server.url()).unwrap();
    for _ in 0..200 {
        let Added::Ready { id } = manager.add(spec.clone()).await.unwrap() else { panic!("it is there") };
        manager.close(&id).await.unwrap();
    }
    assert!(wait_until(PATIENCE, || server.open_streams() == 0).await, "{} streams are open", server.open_streams());
    assert_eq!(server.sessions(), Vec::<String>::new());
    manager.shutdown(Duration::ZERO).await;
    drop(manager);
    server.wait_for_open_sockets(0).await;
    drop(server);
    assert!(wait_until(PATIENCE, || alive_tasks() <= tasks_before).await, "{} tasks run", alive_tasks());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "asks about the whole process: ./test.sh storm"]
async fn ten_thousand_connections_opened_and_closed_leave_nothing_behind() {
    let soak = Soak::new().await;
    // One task looks after the pool, from its first connection on.
    let held_before = (open_files(), alive_tasks() + 1);
    soak.cycles(1_000).await;
    let before = soak.memory_without(held_before).await;
    soak.cycles(9_000).await;
    let after = soak.memory_without(held_before).await;
    println!("memory after 1,000 connections: {} KiB, after 10,000: {} KiB", before >> 10, after >> 10);
    assert!(after <= before + GROWTH, "memory grew from {before} to {after} bytes");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "asks about the whole process: ./test.sh storm"]
async fn fifty_child_processes_started_and_closed_leave_nothing_behind() {
    let command = Script::legacy().tool("echo", ToolAnswer::Echo).command();
    let cycle = || async {
        let spec = ServerSpec::stdio("child", command.program.to_str().unwrap(), command.arguments.clone()).unwrap();
        let client = Client::connect(spec).await.unwrap();
        assert_eq!(client.tools().len(), 1);
        client.close().await;
    };
    cycle().await;
    let (files, tasks) = (open_files(), alive_tasks());
    stream::iter(0..50).for_each_concurrent(4, |_| cycle()).await;
    let is_back = || open_files() <= files && alive_tasks() <= tasks && children().is_empty();
    let held = || format!("{} files, {} tasks, children {:?}", open_files(), alive_tasks(), children());
    assert!(wait_until(PATIENCE, is_back).await, "{files} files and {tasks} tasks became {}", held());
    assert_eq!(zombie_children(), Vec::<u32>::new());
}

#[cfg(unix)]
fn children() -> Vec<u32> {
    let own = std::process::id();
    let all = switchboard_testing::process::Process::all().into_iter();
    all.filter(|process| process.parent == own).map(|process| process.pid).collect()
}

/// A server over HTTP and a peer in this process, to connect to again and again.
struct Soak {
    server: HttpPeer,
    peer: Peer,
    manager: Manager,
}

impl Soak {
    async fn new() -> Self {
        let peer = Peer::both().tool("echo").forgetful();
        let server = HttpPeer::start(Peer::legacy().tool("echo").forgetful()).await;
        let manager = Manager::builder("soak", "1.0.0").start().await.unwrap();
        Self { server, peer, manager }
    }

    /// Half of them over HTTP, half to the peer in this process.
    async fn cycles(&self, count: usize) {
        stream::iter(0..count).for_each_concurrent(AT_ONCE, |number| self.cycle(number)).await;
    }

    async fn cycle(&self, number: usize) {
        let name = format!("server-{number}");
        let spec = if number.is_multiple_of(2) {
            ServerSpec::http(name, &self.server.url_at(&format!("/mcp/{number}"))).unwrap()
        } else {
            let peer = self.peer.clone();
            ServerSpec::in_process(name, InProcessTarget::new(move || memory::serve(&peer))).unwrap()
        };
        let added = self.manager.add(spec).await.unwrap();
        assert!(matches!(added, Added::Ready { .. }), "{added:?}");
        self.manager.close(added.id()).await.unwrap();
        assert!(self.manager.remove(added.id()).await.unwrap());
    }

    /// Waits until what was closed is gone, down to what was held before; the memory that is held then.
    async fn memory_without(&self, (files, tasks): (usize, usize)) -> u64 {
        // The pool would keep its connections for half a minute.
        self.server.cut_connections();
        let is_back = || self.server.open_sockets() == 0 && open_files() <= files && alive_tasks() <= tasks;
        let held = || format!("{} files, {} tasks", open_files(), alive_tasks());
        assert!(wait_until(PATIENCE, is_back).await, "{files} files and {tasks} tasks became {}", held());
        assert_eq!(self.server.sessions(), Vec::<String>::new());
        resident_memory()
    }
}
