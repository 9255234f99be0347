//! The dashboard and the alert rules in `contrib/` name metrics that servers have, and every alert says what to do.

use crate::process::certificates::Certificates;
use crate::process::{Process, eventually, free_port};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).unwrap()
}

/// Every word of a text that is a metric's name.
fn names_in(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_part(c)).filter(|word| word.starts_with("warmline_"));
    words.map(str::to_owned).collect()
}

fn start(options: &[&str]) -> (Process, u16) {
    let port = free_port();
    let text = port.to_string();
    let options: Vec<&str> = ["--http-port", &text].iter().chain(options).copied().collect();
    (Process::start(&options), port)
}

fn scraped(port: u16) -> BTreeSet<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let samples = answer.lines().filter(|line| !line.starts_with('#'));
    samples.filter_map(|line| line.split([' ', '{']).next()).map(str::to_owned).collect()
}

/// Two nodes of a cluster of which the first has all slots, each with its port for HTTP.
fn cluster() -> [(Process, u16); 2] {
    let nodes = [(); 2].map(|()| {
        let bus_port = free_port().to_string();
        let options = ["--cluster-enabled", "yes", "--cluster-slot-stats-enabled", "yes"];
        let (process, http_port) = start(&[&options[..], &["--cluster-port", &bus_port]].concat());
        (process, http_port, bus_port)
    });
    let mut client = nodes[0].0.connect();
    assert_eq!(client.ask("CLUSTER ADDSLOTSRANGE 0 16383"), "OK");
    let (other, _, bus_port) = &nodes[1];
    assert_eq!(client.ask(&format!("CLUSTER MEET 127.0.0.1 {} {bus_port}", other.port)), "OK");
    eventually("the cluster", || {
        let lines = client.ask("CLUSTER NODES");
        lines.matches(" connected").count() == 2 && !lines.contains("handshake")
    });
    eventually("the state", || client.ask("CLUSTER INFO").contains("cluster_state:ok"));
    assert_eq!(client.ask("SET key value"), "OK");
    nodes.map(|(process, http_port, _)| (process, http_port))
}

#[test]
fn what_is_drawn_and_watched_is_measured() {
    let (primary, primary_http) = start(&["--appendonly", "yes"]);
    let (replica, replica_http) = start(&["--replicaof", &format!("127.0.0.1 {}", primary.port)]);
    replica.eventually_shows("master_link_status", "up");
    primary.eventually_shows("connected_slaves", "1");
    let mut client = primary.connect();
    client.ask("SET key value EX 100");
    client.ask("INCR key");
    client.ask("BGSAVE");
    primary.eventually_shows("rdb_saves", "1");
    let certificates = Certificates::new();
    let tls_port = free_port().to_string();
    let mut options = certificates.options();
    options.extend(["--tls-port".to_owned(), tls_port]);
    let (_tls, tls_http) = start(&options.iter().map(String::as_str).collect::<Vec<_>>());
    let mut measured = scraped(primary_http);
    measured.extend(scraped(replica_http));
    measured.extend(scraped(tls_http));
    // Only nodes have these.
    for name in ["ok", "slots_ok", "node_ok", "open_slots", "own_slots"] {
        assert!(!measured.contains(&format!("warmline_cluster_{name}")), "{name}");
    }
    let nodes = cluster();
    measured.extend(scraped(nodes[0].1));
    // Its scrape is no error there.
    assert_eq!(nodes[0].0.info("total_error_replies").as_deref(), Some("0"));
    for path in [
        "contrib/grafana/warmline.json",
        "contrib/prometheus/alerts.yml",
        "contrib/prometheus/alerts_test.yml",
        "docs/observability.md",
    ] {
        let names = names_in(&read(path));
        assert!(names.len() > 8, "{path}: {names:?}");
        let is_there = |name: &str| measured.contains(name) || measured.contains(&format!("{name}_bucket"));
        let missing: Vec<_> = names.iter().filter(|name| !is_there(name) && *name != "warmline_").collect();
        assert!(missing.is_empty(), "{path}: {missing:?}");
    }
    let told = client.ask("INFO everything") + &replica.connect().ask("INFO everything");
    let fields: BTreeSet<&str> = told.lines().filter_map(|line| Some(line.split_once(':')?.0)).collect();
    let page = read("docs/operations.md");
    let watched = page.split("## What to watch").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = watched.lines().skip(4).filter(|line| line.starts_with("| `"));
    let named = rows.flat_map(|row| row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2));
    let named: Vec<&str> = named.filter(|name| *name != "maxmemory").collect();
    assert!(named.len() > 15, "{named:?}");
    let missing: Vec<_> = named.iter().filter(|name| !fields.contains(**name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn each_alert_says_what_to_do_and_is_tried() {
    let (rules, tests) = (read("contrib/prometheus/alerts.yml"), read("contrib/prometheus/alerts_test.yml"));
    let page = read("docs/observability.md");
    let mut alerts = 0;
    for rule in rules.split("- alert: ").skip(1) {
        let name = rule.lines().next().unwrap();
        let runbook =
            rule.lines().find_map(|line| line.trim().strip_prefix("runbook: docs/observability.md#"));
        let anchor = format!("<a id=\"{}\"></a>`{name}`", runbook.unwrap());
        assert!(page.contains(&anchor), "{anchor}");
        assert!(rule.contains("summary: ") && rule.contains("description: "), "{name}");
        let tried = tests.matches(&format!("alertname=\"{name}\"")).count();
        assert_eq!(tried, 2, "{name}: once where it fires, once where it does not");
        alerts += 1;
    }
    assert!(alerts >= 15, "{alerts}");
}

#[test]
fn the_dashboard_can_be_imported() {
    let dashboard: serde_json::Value = serde_json::from_str(&read("contrib/grafana/warmline.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let title = &panel["title"];
        assert_eq!(panel["datasource"]["uid"], "${source}", "{title}");
        assert!(panel["targets"].as_array().is_some_and(|targets| !targets.is_empty()), "{title}");
        let right = panel["gridPos"]["x"].as_u64().unwrap() + panel["gridPos"]["w"].as_u64().unwrap();
        assert!(right <= 24, "{title}");
    }
}
