//! Lists: pages, cursors, bounds, bad items, capabilities, and lists that fail alone.

use serde_json::{Value, json};
use switchboard::status::ListState;
use switchboard::{Client, State};
use switchboard_testing::{HttpPeer, Peer, Prompt, Reply, Resource, Tool};

use crate::fixture::{client, in_process, names, over_http, text, warnings};

/// A server whose list of tools is answered by `page`, which gets the cursor.
fn paged(page: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Peer {
    Peer::both()
        .capabilities(json!({ "tools": {} }))
        .on("tools/list", move |request, _| Reply::result(page(&request["params"]["cursor"])))
}

fn tools(range: std::ops::Range<usize>) -> Value {
    range.map(|number| json!({ "name": format!("t{number}"), "inputSchema": { "type": "object" } })).collect()
}

#[tokio::test]
async fn b083_every_page_of_every_list_is_read_in_order() {
    let mut peer = Peer::both().page_size(2);
    for number in 0..5 {
        let name = format!("n{number}");
        peer = peer
            .tool(name.as_str())
            .prompt(name.as_str())
            .resource(Resource::text(&format!("file:///{name}"), ""))
            .template(&format!("file:///{name}/{{x}}"), &name);
    }
    let server = HttpPeer::start(&peer).await;
    for spec in [in_process(&peer), over_http(&server)] {
        let client = client(spec).await;
        let expected = |prefix: &str, suffix: &str| -> Vec<String> {
            (0..5).map(|number| format!("{prefix}n{number}{suffix}")).collect()
        };
        let keys = |items: Vec<switchboard::wire::ListItem>| -> Vec<String> {
            items.iter().map(|item| item.key().to_owned()).collect()
        };
        assert_eq!(names(&client), expected("", ""));
        assert_eq!(keys(client.prompts()), expected("", ""));
        assert_eq!(keys(client.resources()), expected("file:///", ""));
        assert_eq!(keys(client.resource_templates()), expected("file:///", "/{x}"));
        assert_eq!(warnings(&client), []);
    }
    for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
        assert_eq!(peer.count(method), 6, "three pages, twice: {method}");
        assert!(peer.received_of(method)[0]["params"].get("cursor").is_none(), "the first page has no cursor");
    }
}

#[tokio::test]
async fn b083_a_cursor_goes_back_as_it_came() {
    for cursor in [json!("  é\u{2028}\"\\/%20+=&"), json!("0"), json!(7), json!(7.5), json!({ "page": 2 }), json!(true)]
    {
        let given = cursor.clone();
        let peer = paged(move |asked| match asked {
            Value::Null => json!({ "tools": tools(0..1), "nextCursor": given }),
            _ => json!({ "tools": tools(1..2) }),
        });
        let client = client(in_process(&peer)).await;
        assert_eq!(names(&client), ["t0", "t1"]);
        assert_eq!(peer.received_of("tools/list")[1]["params"]["cursor"], cursor);
    }
}

#[tokio::test]
async fn b085_an_empty_or_null_cursor_ends_the_list() {
    for cursor in [json!(""), json!(null)] {
        let peer = paged(move |_| json!({ "tools": tools(0..3), "nextCursor": cursor }));
        let client = client(in_process(&peer)).await;
        assert_eq!(names(&client), ["t0", "t1", "t2"]);
        assert!(peer.count("tools/list") <= 2);
        assert_eq!(client.status().lists.tools, ListState::Ok);
        assert_eq!(warnings(&client), []);
    }
}

#[tokio::test]
async fn b085_an_empty_cursor_behind_other_pages_ends_the_list() {
    let peer = paged(|asked| match asked {
        Value::Null => json!({ "tools": tools(0..2), "nextCursor": "a" }),
        _ => json!({ "tools": tools(2..3), "nextCursor": "" }),
    });
    let client = client(in_process(&peer)).await;
    assert_eq!(names(&client), ["t0", "t1", "t2"]);
    assert_eq!((peer.count("tools/list"), client.status().lists.tools), (2, ListState::Ok));
}

#[tokio::test]
async fn a_cursor_that_comes_again_ends_the_list_and_is_told() {
    let always = paged(|_| json!({ "tools": tools(0..2), "nextCursor": "again" }));
    let in_turn = paged(|asked| match asked.as_str() {
        Some("a") => json!({ "tools": tools(1..2), "nextCursor": "b" }),
        _ => json!({ "tools": tools(0..1), "nextCursor": "a" }),
    });
    for (peer, most) in [(always, 2), (in_turn, 3)] {
        let client = client(in_process(&peer)).await;
        assert_eq!(names(&client), ["t0", "t1"], "each tool stands once");
        assert!(peer.count("tools/list") <= most, "{}", peer.count("tools/list"));
        assert_eq!(client.status().lists.tools, ListState::Partial);
        assert!(warnings(&client).iter().any(|(code, _)| code == "list_cut"), "{:?}", warnings(&client));
        assert_eq!(client.state(), State::Ready);
    }
}

#[tokio::test]
async fn an_endless_list_is_cut_after_100_pages() {
    let number = std::sync::atomic::AtomicUsize::new(0);
    let peer = paged(move |_| {
        let page = number.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        json!({ "tools": tools(page..page + 1), "nextCursor": page.to_string() })
    });
    let client = client(in_process(&peer)).await;
    assert_eq!((client.tools().len(), peer.count("tools/list")), (100, 100));
    assert_eq!(client.status().lists.tools, ListState::Partial);
}

#[tokio::test]
async fn a_list_of_exactly_100_pages_is_whole() {
    let peer = Peer::both().many_tools(100).page_size(1);
    let client = client(in_process(&peer)).await;
    assert_eq!((client.tools().len(), client.status().lists.tools), (100, ListState::Ok));
}

#[tokio::test]
async fn a_list_is_cut_at_10_000_items_and_not_before() {
    let sizes = [(vec![10_000], 10_000, ListState::Ok), (vec![10_001], 10_000, ListState::Partial)];
    let pages = [(vec![5000, 5000], 10_000, ListState::Ok), (vec![9999, 2, 5], 10_000, ListState::Partial)];
    for (sizes, count, state) in sizes.into_iter().chain(pages) {
        let peer = paged(move |asked| {
            let page = asked.as_str().map_or(0, |cursor| cursor.parse::<usize>().unwrap());
            let start = sizes[..page].iter().sum();
            let mut result = json!({ "tools": tools(start..start + sizes[page]) });
            if page + 1 < sizes.len() {
                result["nextCursor"] = (page + 1).to_string().into();
            }
            result
        });
        let client = client(in_process(&peer)).await;
        let lists = client.status().lists;
        assert_eq!((client.tools().len(), lists.tools), (count, state));
    }
}

#[tokio::test]
async fn b063_one_odd_schema_does_not_cost_the_other_tools() {
    let any_of =
        json!({ "anyOf": [{ "type": "object", "properties": { "a": { "type": "string" } } }, { "type": "object" }] });
    let peer = Peer::both().many_tools(10).raw_tool(json!({ "name": "odd", "inputSchema": any_of }));
    let server = HttpPeer::start(&peer).await;
    for spec in [in_process(&peer), over_http(&server)] {
        let client = client(spec).await;
        assert_eq!((client.state(), client.tools().len()), (State::Ready, 11));
        assert_eq!(client.tools()[10].input_schema().unwrap().to_value(), any_of, "kept as it came");
        assert!(text(&client.call("odd", None).await.unwrap()).contains("{}"));
    }
}

/// Elements of a list of tools that are none, and how the status names them; no name: the tool is good enough.
fn odd_tools() -> Vec<(Value, Option<&'static str>)> {
    vec![
        (json!(null), Some("#1")),
        (json!(5), Some("#1")),
        (json!("tool"), Some("#1")),
        (json!([]), Some("#1")),
        (json!({}), Some("#1")),
        (json!({ "name": null }), Some("#1")),
        (json!({ "name": 7 }), Some("#1")),
        (json!({ "name": "" }), Some("#1")),
        (json!({ "name": " \n" }), Some("#1")),
        (json!({ "name": "odd", "inputSchema": [] }), Some("odd")),
        (json!({ "name": "odd", "inputSchema": "object" }), Some("odd")),
        (json!({ "name": "odd", "inputSchema": 5 }), Some("odd")),
        (json!({ "name": "odd" }), None),
        (json!({ "name": "odd", "inputSchema": null }), None),
        (json!({ "name": "odd", "inputSchema": {} }), None),
        (json!({ "name": "odd", "inputSchema": { "type": "object", "properties": [] } }), None),
        (json!({ "name": "odd", "inputSchema": {}, "outputSchema": true }), None),
        (json!({ "name": "odd", "inputSchema": {}, "outputSchema": null, "annotations": "none" }), None),
        (json!({ "name": "odd", "inputSchema": {}, "description": 5, "title": [] }), None),
        (json!({ "name": "\u{0}\"\\odd\u{2028}", "inputSchema": {} }), None),
    ]
}

#[tokio::test]
async fn b063_a_bad_tool_costs_itself_and_is_named() {
    for (odd, named) in odd_tools() {
        let peer = Peer::both().tool("before").raw_tool(odd.clone()).tool("after");
        let client = client(in_process(&peer)).await;
        assert_eq!(client.state(), State::Ready);
        assert_eq!(client.status().lists.tools, ListState::Ok);
        let name = odd["name"].as_str().unwrap_or_default();
        match named {
            Some(item) => {
                assert_eq!(names(&client), ["before", "after"], "{odd}");
                assert_eq!(warnings(&client), [("bad_tool".to_owned(), Some(item.to_owned()))], "{odd}");
            }
            None => assert_eq!(names(&client), ["before", name, "after"], "{odd}"),
        }
    }
}

#[tokio::test]
async fn bad_prompts_and_resources_cost_themselves_and_are_named() {
    let peer = Peer::both()
        .prompt("good")
        .prompt(json!({ "title": "no name" }))
        .resource(Resource::text("file:///good", ""))
        .resource(json!({ "name": "no address" }))
        .raw_template(json!({ "uriTemplate": "file:///{good}" }))
        .raw_template(json!({ "name": "no template" }))
        .raw_template(json!(7));
    let client = client(in_process(&peer)).await;
    assert_eq!((client.prompts().len(), client.resources().len(), client.resource_templates().len()), (1, 1, 1));
    let items = |item: &str| ("bad_item".to_owned(), Some(item.to_owned()));
    assert_eq!(warnings(&client), [items("#1"), items("#1"), items("#1"), items("#2")]);
}

#[tokio::test]
async fn a_name_that_stands_twice_is_kept_once_and_told() {
    let peer = Peer::both()
        .tool(Tool::new("twice").description("first"))
        .tool("other")
        .tool(Tool::new("twice").description("second"));
    let client = client(in_process(&peer)).await;
    assert_eq!(names(&client), ["twice", "other"]);
    assert_eq!(client.tools()[0].description().as_deref(), Some("first"));
    assert_eq!(warnings(&client), [("duplicate_tool".to_owned(), Some("twice".to_owned()))]);
}

#[tokio::test]
async fn names_with_escapes_are_called_as_the_server_wrote_them() {
    let name = "a\"b\\c/é\u{2028}\n漢 🦀";
    let peer = Peer::both().tool(Tool::new(name).says("hi"));
    let server = HttpPeer::start(&peer).await;
    for spec in [in_process(&peer), over_http(&server)] {
        let client = client(spec).await;
        assert_eq!(names(&client), [name]);
        assert_eq!(text(&client.call(name, None).await.unwrap()), "hi");
    }
    let escaped = Peer::both().capabilities(json!({ "tools": {} })).on("tools/list", |_, _| {
        Reply::result_text(r#"{"tools":[{"name":"\u0061\u00e9\ud83e\udd80\/","inputSchema":{}}]}"#)
    });
    assert_eq!(names(&client(in_process(&escaped)).await), ["aé🦀/"]);
}

#[tokio::test]
async fn tools_keep_their_bytes_unknown_members_and_large_numbers() {
    let tool = r#"{"name":"t","inputSchema":{"type":"object","maximum":12345678901234567890123},"execution": { "x":1.0 } ,"n":1e400}"#;
    let peer = Peer::both()
        .capabilities(json!({ "tools": {} }))
        .on("tools/list", move |_, _| Reply::result_text(format!(r#"{{"tools":[ {tool} ]}}"#)));
    let server = HttpPeer::start(&peer).await;
    for spec in [in_process(&peer), over_http(&server)] {
        assert_eq!(client(spec).await.tools()[0].json().as_str(), tool);
    }
}

#[tokio::test]
async fn a_very_long_description_is_kept_whole() {
    let long = "é".repeat(1 << 20);
    let peer = Peer::both().tool(Tool::new("long").description(&long)).tool("short");
    let server = HttpPeer::start(&peer).await;
    for spec in [in_process(&peer), over_http(&server)] {
        let client = client(spec).await;
        assert_eq!(client.tools().len(), 2);
        assert!(client.tools()[0].description().unwrap() == long);
    }
}

#[tokio::test]
async fn b127_lists_that_are_not_announced_are_not_asked_for() {
    for peer in [Peer::modern().tool("echo"), Peer::legacy().tool("echo")] {
        let client = client(in_process(&peer)).await;
        for _ in 0..10 {
            client.refresh().await.unwrap();
        }
        assert_eq!(peer.count("tools/list"), 11);
        for method in ["prompts/list", "resources/list", "resources/templates/list"] {
            assert_eq!(peer.count(method), 0, "{method}");
        }
        assert!(client.prompts().is_empty() && client.resources().is_empty());
        let lists = client.status().lists;
        assert_eq!(
            (lists.tools, lists.prompts, lists.resources),
            (ListState::Ok, ListState::Unsupported, ListState::Unsupported)
        );
        assert_eq!(warnings(&client), []);
    }
}

async fn expect_ready(peer: &Peer) -> Client {
    let server = HttpPeer::start(peer).await;
    client(over_http(&server)).await.close().await;
    let client = client(in_process(peer)).await;
    assert_eq!(client.state(), State::Ready);
    assert_eq!(client.status().error, None);
    client
}

#[tokio::test]
async fn b129_a_server_without_tools_is_ready() {
    for base in [Peer::modern, Peer::legacy, Peer::both] {
        let resources = expect_ready(&base().resource(Resource::text("file:///a", "hello"))).await;
        assert_eq!((resources.resources().len(), resources.tools().len()), (1, 0));
        assert!(resources.read_resource("file:///a").await.unwrap().as_str().contains("hello"));
        let prompts = expect_ready(&base().prompt(Prompt::new("plain")).prompt(json!({ "name": "bare" }))).await;
        assert_eq!(prompts.prompts().len(), 2);
        assert!(prompts.get_prompt("plain", None).await.unwrap().as_str().contains("messages"));
        expect_ready(&base()).await;
    }
}

#[tokio::test]
async fn b129_capabilities_of_any_shape_leave_a_server_ready() {
    for capabilities in
        [json!({}), json!(null), json!([]), json!("tools"), json!({ "tools": null }), json!({ "experimental": {} })]
    {
        for base in [Peer::modern, Peer::legacy] {
            let peer = base().capabilities(capabilities.clone());
            let client = expect_ready(&peer).await;
            assert_eq!((client.tools().len(), peer.count("tools/list")), (0, 0), "{capabilities}");
        }
    }
    for announced in [json!({}), json!(true), json!([]), json!({ "listChanged": "yes" })] {
        let peer = Peer::both().tool("echo").capabilities(json!({ "tools": announced }));
        assert_eq!(expect_ready(&peer).await.tools().len(), 1);
    }
}

#[tokio::test]
async fn b129_a_handshake_without_capabilities_or_server_info_is_enough() {
    for more in [
        json!({}),
        json!({ "serverInfo": "me", "instructions": 5 }),
        json!({ "serverInfo": null, "instructions": null }),
    ] {
        let mut result = more;
        result["protocolVersion"] = "2025-11-25".into();
        let peer = Peer::legacy().on("initialize", move |_, _| Reply::result(result.clone()));
        assert_eq!(expect_ready(&peer).await.status().instructions, None);
    }
    let peer =
        Peer::modern().on("server/discover", |_, _| Reply::bare_result(json!({ "supportedVersions": ["2026-07-28"] })));
    expect_ready(&peer).await;
}

#[tokio::test]
async fn a_list_that_is_announced_and_absent_costs_only_itself() {
    let peer = Peer::both().tool("echo").capabilities(json!({ "tools": {}, "prompts": {}, "resources": {} }));
    let peer = ["prompts/list", "resources/list", "resources/templates/list"]
        .into_iter()
        .fold(peer, |peer, method| peer.on(method, move |_, _| Reply::method_not_found(method)));
    let client = expect_ready(&peer).await;
    assert_eq!(client.tools().len(), 1);
    let lists = client.status().lists;
    assert_eq!(
        (lists.prompts, lists.resources, lists.resource_templates),
        (ListState::Unsupported, ListState::Unsupported, ListState::Unsupported)
    );
}

#[tokio::test]
async fn a_list_that_fails_costs_only_itself_and_says_why() {
    let failing = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"];
    for failing in failing {
        let peer = Peer::both()
            .tool("echo")
            .prompt("greet")
            .resource(Resource::text("file:///a", ""))
            .template("file:///{x}", "x")
            .on(failing, |_, _| Reply::error(-32603, "the disk is full"));
        let client = expect_ready(&peer).await;
        let counts =
            [client.tools().len(), client.prompts().len(), client.resources().len(), client.resource_templates().len()];
        assert_eq!(counts.iter().sum::<usize>(), 3, "{failing}");
        let status = client.status();
        let lists = status.lists;
        let states = [lists.tools, lists.prompts, lists.resources, lists.resource_templates];
        assert_eq!(states.iter().filter(|state| **state == ListState::Failed).count(), 1, "{failing}");
        assert!(
            status.warnings.iter().any(|it| it.message.contains(failing) && it.message.contains("the disk is full"))
        );
    }
}

#[tokio::test]
async fn a_list_that_fails_on_a_later_page_keeps_what_was_read() {
    for failure in [|| Reply::error(-32603, "page two is gone"), || Reply::error(-32601, "Method not found")] {
        let peer = Peer::both().many_tools(4).page_size(2).prompt("greet").on("tools/list", move |request, context| {
            if request["params"]["cursor"].is_null() { context.usual() } else { failure() }
        });
        let client = expect_ready(&peer).await;
        assert_eq!(names(&client), ["tool-0", "tool-1"]);
        assert_eq!((client.status().lists.tools, client.prompts().len()), (ListState::Partial, 1));
        assert_eq!(warnings(&client), [("list_failed".to_owned(), None)]);
    }
}

#[tokio::test]
async fn a_list_of_null_is_an_empty_list() {
    for page in [json!({ "tools": null }), json!({ "tools": [] })] {
        let peer = paged(move |_| page.clone());
        let client = expect_ready(&peer).await;
        assert_eq!((client.tools().len(), client.status().lists.tools), (0, ListState::Ok));
        assert_eq!(warnings(&client), []);
    }
}

#[tokio::test]
async fn a_result_that_has_no_list_is_a_failed_list() {
    for page in [json!({}), json!({ "tools": {} }), json!({ "tools": "none" }), json!([]), json!({ "items": [] })] {
        let peer = paged(move |_| page.clone()).prompt("unasked");
        let client = expect_ready(&peer).await;
        assert_eq!((client.tools().len(), client.status().lists.tools), (0, ListState::Failed));
        assert_eq!(warnings(&client), [("list_failed".to_owned(), None)]);
    }
}

#[tokio::test]
async fn a_list_that_fails_at_a_refresh_keeps_the_last_known_items() {
    let peer = Peer::both().tool("echo").prompt("greet");
    let client = client(in_process(&peer)).await;
    let _ = peer.clone().on("tools/list", |_, _| Reply::error(-32603, "not now"));
    client.refresh().await.unwrap();
    assert_eq!((names(&client), client.status().lists.tools), (vec!["echo".to_owned()], ListState::Failed));
    let _ = peer.on("tools/list", |_, context| context.usual());
    client.refresh().await.unwrap();
    assert_eq!((client.status().lists.tools, warnings(&client)), (ListState::Ok, Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn a_list_that_never_answers_costs_only_itself() {
    let peer = Peer::both().tool("echo").prompt("greet").on("prompts/list", |_, _| Reply::stall());
    let client = client(in_process(&peer)).await;
    assert_eq!((client.tools().len(), client.status().lists.prompts), (1, ListState::Failed));
    assert_eq!(client.state(), State::Ready);
}

#[tokio::test]
async fn a_late_answer_of_an_abandoned_discovery_changes_nothing() {
    let gate = switchboard_testing::Gate::new();
    let held = gate.clone();
    let number = std::sync::atomic::AtomicUsize::new(0);
    let peer = Peer::both().tool("new").ignores_cancel().on("tools/list", move |_, context| {
        match number.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
            0 => Reply::result(json!({ "tools": tools(0..3) })).when(&held),
            _ => context.usual(),
        }
    });
    let manager = crate::fixture::manager().await;
    let spec = in_process(&peer);
    let (_, id) = manager.register(spec.clone()).await.unwrap();
    let establish = manager.establish(&id);
    let close = async {
        peer.wait_for("tools/list").await;
        manager.close(&id).await.unwrap();
    };
    let (abandoned, ()) = tokio::join!(establish, close);
    assert!(!matches!(abandoned.unwrap(), switchboard::Added::Ready { .. }));
    crate::fixture::ready(&manager, spec).await;
    gate.open();
    manager.discover(&id).await.unwrap();
    let names: Vec<_> = manager.tools(&switchboard::Filter::all()).iter().map(|it| it.tool.name().to_owned()).collect();
    assert_eq!(names, ["new"]);
}

#[tokio::test]
async fn b085_a_server_that_ignores_the_cursor_gives_each_item_once() {
    let peer = Peer::both().on("prompts/list", |_, _| {
        Reply::result(json!({ "prompts": [{ "name": "a" }, { "name": "b" }], "nextCursor": "2" }))
    });
    let client = client(in_process(&peer.prompt("unused"))).await;
    assert_eq!(client.prompts().iter().map(|prompt| prompt.key().to_owned()).collect::<Vec<_>>(), ["a", "b"]);
}
