//! The server as its clients use it: the SDK's own client starts the program and asks.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    missing_docs,
    reason = "a test fails by panicking, and makes files of its own"
)]

use std::path::{Path, PathBuf};

use rmcp::model::{CallToolRequestParams, CallToolResponse};
use rmcp::service::RunningService;
use rmcp::transport::TokioChildProcess;
use rmcp::{RoleClient, ServiceExt};
use serde_json::{Value, json};

struct Client(RunningService<RoleClient, ()>);

impl Client {
    async fn new(words: &[&str]) -> Client {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_peerlane-mcp"));
        command.args(words);
        Client(().serve(TokioChildProcess::new(command).unwrap()).await.unwrap())
    }

    /// The structured answer, or the text of an error.
    async fn ask(&self, tool: &str, arguments: Value) -> Result<Value, String> {
        let call = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments.as_object().unwrap().clone());
        let result = self.0.call_tool(call).await.map_err(|e| e.to_string())?;
        let CallToolResponse::Complete(result) = CallToolResponse::from(result) else { panic!("not complete") };
        if result.is_error == Some(true) {
            return Err(serde_json::to_value(&result.content).unwrap()[0]["text"].as_str().unwrap().to_owned());
        }
        Ok(result.structured_content.unwrap())
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn slow_node() -> Value {
    let text = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.unwrap().path();
        json!({ "name": path.file_name().unwrap().to_str().unwrap(), "text": std::fs::read_to_string(path).unwrap() })
    };
    json!({ "texts": std::fs::read_dir(root().join("examples/slow-node")).unwrap().map(text).collect::<Vec<_>>() })
}

#[tokio::test]
async fn the_tools_have_schemas_and_say_that_they_change_nothing() {
    let client = Client::new(&[]).await;
    let info = serde_json::to_value(client.0.peer_info().unwrap()).unwrap();
    assert_eq!(info["serverInfo"]["name"], "peerlane", "{info}");
    let tools = client.0.list_all_tools().await.unwrap();
    let mut names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
    names.sort_unstable();
    assert_eq!(names, ["check", "compare", "explain", "predict", "simulate", "systems", "what_if"]);
    for tool in &tools {
        assert!(tool.description.as_ref().is_some_and(|text| text.len() > 30), "{}", tool.name);
        assert!(tool.output_schema.is_some(), "{}", tool.name);
        assert_eq!(tool.annotations.as_ref().and_then(|a| a.read_only_hint), Some(true), "{}", tool.name);
    }
}

#[tokio::test]
async fn the_slow_nodes_cause_is_found_in_pasted_texts() {
    let answer = Client::new(&[]).await.ask("check", slow_node()).await.unwrap();
    assert_eq!(answer["verdict"], "FAULT");
    let first = &answer["machines"][0]["findings"][0];
    assert!(first["summary"].as_str().unwrap().contains("GPU5"), "{first}");
    for key in ["measured", "expected", "fix", "confirm"] {
        assert!(!first[key].as_str().unwrap().is_empty(), "{key}: {first}");
    }
    assert!(answer.to_string().len() < 16_000, "{} bytes", answer.to_string().len());
}

#[tokio::test]
async fn rates_have_units_and_intervals() {
    let client = Client::new(&[]).await;
    let path = client.ask("explain", json!({ "systems": ["dgx-1v"], "from": "GPU0", "to": "GPU5" })).await.unwrap();
    let rate = &path["forward"];
    let [low, value, high] = ["low", "gb_s", "high"].map(|key| rate[key].as_f64().unwrap());
    assert!(low <= value && value <= high && value > 5.0 && value < 30.0, "{path}");
    assert!(path["hops"].as_array().unwrap().len() >= 2 && path["staged"] == true, "{path}");

    let all = client.ask("predict", json!({ "systems": ["dgx-1v"] })).await.unwrap();
    let first = &all["machines"][0]["tables"][0];
    assert_eq!(first["unit"], "GB/s");
    let paths = first["paths"].as_array().unwrap();
    let counted: u64 = paths.iter().map(|group| group["count"].as_u64().unwrap()).sum();
    assert_eq!(counted + first["more_paths"].as_u64().unwrap(), 56, "{first}");
}

#[tokio::test]
async fn a_change_a_cluster_and_a_comparison_are_answered() {
    let client = Client::new(&[]).await;
    let change = json!({ "systems": ["exxact-devbox"], "what_if": ["GPU0.link=pcie 3.0 x4"] });
    let answer = client.ask("what_if", change).await.unwrap();
    let first = &answer["changes"][0];
    assert!(first["paths"][0].as_str().unwrap().contains("GPU0"), "{first}");
    assert!(first["before"].as_f64().unwrap() > 2.0 * first["after"].as_f64().unwrap(), "{first}");
    assert!(!answer["new_findings"].as_array().unwrap().is_empty(), "{answer}");

    let work = json!({ "systems": ["hgx-h100"], "workload": "all-reduce", "sizes": "1GiB", "nodes": 4 });
    let answer = client.ask("simulate", work).await.unwrap();
    let run = &answer["results"][0];
    assert_eq!(run["gpus"], 32);
    assert!((200.0..500.0).contains(&run["points"][0]["busbw_gb_s"].as_f64().unwrap()), "{run}");

    let answer = client.ask("compare", json!({ "systems": ["dgx-1", "dgx-2"] })).await.unwrap();
    assert!(!answer["conclusion"].as_array().unwrap().is_empty());
    let topo = |class: &str| format!("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \t{class}\t0-7\nGPU1\t{class}\t X \t0-7\n");
    let texts = json!({ "texts": [{ "name": "alpha", "text": topo("PIX") }, { "name": "be\nta\u{202e}", "text": topo("SYS") }] });
    let answer = client.ask("compare", texts).await.unwrap();
    let designs: Vec<&str> = answer["designs"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(designs.len(), 2);
    assert!(designs.iter().all(|name| !name.contains(['\n', '\u{202e}'])), "{designs:?}");
    let answer = client.ask("systems", json!({})).await.unwrap();
    assert!(answer["machines"].as_array().unwrap().iter().any(|system| system["name"] == "dgx-1v"));
}

#[tokio::test]
async fn no_path_is_read_that_was_not_allowed() {
    let folder = std::env::temp_dir().join(format!("peerlane-mcp-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("open")).unwrap();
    std::fs::create_dir_all(folder.join("shut")).unwrap();
    let topo = std::fs::read_to_string(root().join("examples/slow-node/topo.txt")).unwrap_or_default();
    std::fs::write(folder.join("shut/topo.txt"), &topo).unwrap();
    std::fs::write(folder.join("open/topo.txt"), &topo).unwrap();
    std::os::unix::fs::symlink(folder.join("shut"), folder.join("open/link")).unwrap();
    std::fs::create_dir_all(folder.join("open/links")).unwrap();
    std::os::unix::fs::symlink(folder.join("shut"), folder.join("open/links/folder")).unwrap();
    std::os::unix::fs::symlink(folder.join("shut/topo.txt"), folder.join("open/links/topo.txt")).unwrap();
    let path = |tail: &str| folder.join(tail).to_str().unwrap().to_owned();
    let ask = |path: String| json!({ "paths": [path] });

    let open = path("open");
    let client = Client::new(&["--allow", &open]).await;
    for refused in ["shut/topo.txt", "open/link/topo.txt", "open/../shut/topo.txt", "open/none.txt", "shut"] {
        let why = client.ask("check", ask(path(refused))).await.unwrap_err();
        assert!(why.contains("is not there, or not in what may be read"), "{refused}: {why}");
    }
    let why = client.ask("check", ask("/etc/passwd".to_owned())).await.unwrap_err();
    assert!(why.contains("not in what may be read"), "{why}");
    // what a folder holds is as far as it reaches
    let seen = client.ask("check", ask(path("open/links"))).await;
    assert!(seen.as_ref().is_err_and(|why| !why.contains("GPU")), "{seen:?}");
    if !topo.is_empty() {
        client.ask("check", ask(path("open/topo.txt"))).await.unwrap();
    }
    let why = Client::new(&[]).await.ask("check", ask(path("open/topo.txt"))).await.unwrap_err();
    assert!(why.contains("--allow"), "{why}");
    // a name of the catalogue is no path, and 'live' is none of it
    for name in ["live", "/etc/passwd", "../x", "-", ""] {
        let why = client.ask("check", json!({ "systems": [name] })).await.unwrap_err();
        assert!(why.contains("no system of the catalogue"), "{name}: {why}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn hostile_arguments_get_errors_and_the_next_question_an_answer() {
    let client = Client::new(&["--patience", "20"]).await;
    let text = |text: String| json!({ "texts": [{ "text": text }] });
    let huge = client.ask("check", text("GPU0 ".repeat(2 << 20))).await.unwrap_err();
    assert!(huge.contains("at most 64 with 8 MiB"), "{huge}");
    for hostile in [
        String::new(),
        "\u{0}\u{1}\u{fffd}".repeat(4096),
        "[".repeat(100_000),
        "{".repeat(100_000),
        format!("{{\"schema\":\"peerlane/run/1\",{}", "\"a\":[".repeat(10_000)),
        "<topology>".repeat(20_000),
        "GPU0 X 99999999999999999999999999 NV999999\n".repeat(5_000),
    ] {
        let begins: String = hostile.chars().take(24).collect();
        match client.ask("check", text(hostile)).await {
            Ok(answer) => assert_ne!(answer["verdict"], "HEALTHY", "{begins}"),
            Err(why) => assert!(!why.is_empty() && !why.contains("in peerlane itself"), "{begins}: {why}"),
        }
    }
    for (tool, arguments) in [
        ("check", json!({})),
        ("check", json!({ "texts": "GPU0" })),
        ("explain", json!({ "systems": ["dgx-1"], "from": "GPU0", "to": "GPU99" })),
        ("explain", json!({ "systems": ["dgx-1"], "from": "GPU0" })),
        ("what_if", json!({ "systems": ["dgx-1"], "what_if": ["rm -rf /"] })),
        ("what_if", json!({ "systems": ["dgx-1"], "what_if": vec!["GPU0=none"; 100] })),
        ("simulate", json!({ "systems": ["dgx-1"], "workload": "all-reduce", "nodes": 4_000_000 })),
        ("simulate", json!({ "systems": ["dgx-1"], "workload": "$(reboot)" })),
        ("simulate", json!({ "systems": ["dgx-1"], "workload": "../../etc/passwd" })),
        ("compare", json!({ "systems": ["dgx-1"] })),
        ("check", json!({ "systems": ["dgx-1"], "whatif": ["GPU0=none"] })),
        ("check", json!({ "texts": [{ "name": "x".repeat(1 << 20), "text": "GPU0" }] })),
        ("what_if", json!({ "systems": ["dgx-1"], "what_if": ["x".repeat(1 << 20)] })),
        ("explain", json!({ "systems": ["dgx-1", "dgx-2"], "from": "GPU0", "to": "GPU1" })),
        ("check", json!({ "systems": vec!["dgx-1"; 65] })),
        ("no-such-tool", json!({})),
    ] {
        let refused = client.ask(tool, arguments.clone()).await;
        assert!(
            refused.as_ref().is_err_and(|why| !why.contains("in peerlane itself")),
            "{tool} {arguments}: {refused:?}"
        );
    }
    client.ask("predict", json!({ "systems": ["dgx-1"] })).await.unwrap();
}
