//! Modes that watch a server, or the machine, for a while.

use crate::process::{Running, Server, client, finish};

pub fn latencies_are_summed_up() {
    let server = Server::start(&[]);
    let numbers = |text: &str, separator: char| -> Vec<f64> {
        text.trim_end().split(separator).map(|number| number.parse().unwrap()).collect()
    };
    let plain = server.run(&["--latency", "-i", "0.2"]).stdout;
    assert!(
        matches!(numbers(&plain, ' ')[..], [min, max, mean, count] if min <= mean && mean <= max && count > 1.0)
    );
    assert_eq!(numbers(&server.run(&["--latency", "--csv", "-i", "0.1"]).stdout, ',').len(), 4);
    let json = server.run(&["--latency", "--json", "-i", "0.1"]).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(json["count"].as_u64().unwrap() > 0);
    let mut live = Running::start(server.client(&["--latency-history", "-i", "0.1"]).env("FAKETTY", "1"));
    live.read_to("\x1b[0G\x1b[2Kmin: ");
    live.read_to(" samples) -- 0.1");
    live.read_to(" seconds range\n");
    let mut spectrum = Running::start(&mut server.client(&["--latency-dist", "-i", "0.1"]));
    spectrum.read_to("From 0 to 100%: ");
    spectrum.read_to("?\x1b[0m\n");
}

pub fn the_machine_itself_is_measured() {
    let text = finish(client().args(["--intrinsic-latency", "1"]), b"").stdout;
    assert!(
        text.starts_with("Max latency so far: ") && text.contains(" total runs (avg latency: "),
        "{text}"
    );
    assert!(text.trim_end().ends_with("x longer than the average latency."), "{text}");
}

pub fn statistics_in_rows() {
    let server = Server::start(&[]);
    server.ask(&["mset", "a", "1", "b", "2"]);
    let mut rows = Running::start(&mut server.client(&["--stat", "-i", "0.05"]));
    rows.read_to("keys       mem      clients blocked requests            connections          \n");
    assert!(rows.read_to("\n").starts_with("2          "));
    assert!(rows.read_to("\n").contains(" (+1) "));
    // A server that comes back is watched on.
    server.ask(&["client", "kill", "type", "normal"]);
    rows.read_to("Reconnecting... 1\r");
    rows.read_to("\n2          ");
}

pub fn caches_are_tried() {
    let server = Server::start(&[]);
    let mut rows = Running::start(&mut server.client(&["--lru-test", "1000"]));
    let row = rows.read_to("\n");
    assert!(row.contains(" Gets/sec | Hits: ") && row.contains("%) | Misses: "), "{row}");
    assert_eq!(server.run(&["--lru-test", "0"]).code, 1);
}
