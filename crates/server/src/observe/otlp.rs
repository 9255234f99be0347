//! Traces in the JSON form of OpenTelemetry's protocol (OTLP), which collectors accept at `/v1/traces`.
//!
//! A request is a span of kind SERVER, and each stage that took any time is a span below it. A request that was blocked
//! ran before and after that: both are in one span.

use super::trace::{Stage, Trace};
use serde_json::{Value, json};
use wire::convert::signed_count;

/// OpenTelemetry's number of the server span kind.
const SPAN_KIND_SERVER: u32 = 2;
const SPAN_KIND_INTERNAL: u32 = 1;

/// The reporting process.
pub struct Process<'a> {
    /// 40 hexadecimal digits, unique to the process.
    pub run_id: &'a str,
    /// Version of the server.
    pub version: &'a str,
    /// Port of the server.
    pub port: u16,
}

/// Encodes an export request of all these traces.
pub fn json<'a>(process: &Process<'_>, traces: impl Iterator<Item = &'a Trace>) -> String {
    let spans: Vec<Value> = traces.flat_map(|trace| spans(process.run_id, trace)).collect();
    json!({"resourceSpans": [{
        "resource": {"attributes": [
            text("service.name", "warmline"),
            text("service.version", process.version),
            text("service.instance.id", process.run_id),
            number("server.port", i64::from(process.port)),
        ]},
        "scopeSpans": [{
            "scope": {"name": "warmline", "version": process.version},
            "spans": spans,
        }],
    }]})
    .to_string()
}

fn spans(run_id: &str, trace: &Trace) -> Vec<Value> {
    let trace_id = format!("{:.16}{:016x}", run_id, trace.id);
    let starts_ns = trace.unix_us.max(0) as u64 * 1000;
    let span = |number: usize, name: &str, starts_ns: u64, lasts_ns: u64| {
        json!({
            "traceId": trace_id,
            "spanId": span_id(trace.id, number),
            "name": name,
            "kind": if number == 0 { SPAN_KIND_SERVER } else { SPAN_KIND_INTERNAL },
            "startTimeUnixNano": starts_ns.to_string(),
            "endTimeUnixNano": (starts_ns + lasts_ns).to_string(),
        })
    };
    let words: Vec<_> = trace.args.iter().map(|arg| String::from_utf8_lossy(arg)).collect();
    let command = words.first().map_or(String::new(), |word| word.to_uppercase());
    let mut root = span(0, &command, starts_ns, trace.stages.total_ns());
    root["attributes"] = json!([
        text("db.system.name", "redis"),
        text("db.namespace", &trace.db_index.to_string()),
        text("db.operation.name", &command),
        text("db.query.text", &words.join(" ")),
        text("client.address", &trace.client_address),
        text("user.name", &String::from_utf8_lossy(&trace.user)),
        text("warmline.client.name", &String::from_utf8_lossy(&trace.client_name)),
        number("warmline.client.id", signed_count(trace.client_id)),
    ]);
    let mut spans = vec![root];
    let mut begins_ns = starts_ns;
    for (stage, number) in Stage::ALL.into_iter().zip(1..) {
        let lasts_ns = trace.stages.ns(stage);
        if lasts_ns > 0 {
            let mut child = span(number, stage.name(), begins_ns, lasts_ns);
            child["parentSpanId"] = span_id(trace.id, 0).into();
            spans.push(child);
        }
        begins_ns += lasts_ns;
    }
    spans
}

/// Returns an id that is unique in the process and not zero, the invalid id.
fn span_id(trace_id: u64, number: usize) -> String {
    format!("{:016x}", trace_id << 3 | number as u64)
}

fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

/// 64-bit integers are strings in the protocol's JSON.
fn number(key: &str, value: i64) -> Value {
    json!({"key": key, "value": {"intValue": value.to_string()}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::trace::Stages;

    #[test]
    fn spans_follow_one_another_within_the_request() {
        let mut stages = Stages::default();
        stages.add(Stage::QueryBuffer, 1500);
        stages.add(Stage::Execution, 700);
        stages.add(Stage::Output, 1);
        let args = vec![b"get".to_vec(), b"a\"\n\xff</script>".to_vec()];
        let trace = Trace { id: 26, unix_us: 1_000_000, args, stages, ..Trace::default() };
        let run_id = "0123456789abcdef0123456789abcdef01234567";
        let process = Process { run_id, version: "1", port: 6379 };
        let parsed: Value = serde_json::from_str(&json(&process, [&trace].into_iter())).unwrap();
        let spans = parsed["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
        let shown: Vec<_> = spans
            .iter()
            .map(|span| {
                assert_eq!(span["traceId"], "0123456789abcdef000000000000001a");
                ["spanId", "parentSpanId", "name", "startTimeUnixNano", "endTimeUnixNano"]
                    .map(|field| span[field].as_str().unwrap_or("none").to_owned())
            })
            .collect();
        assert_eq!(
            shown,
            [
                ["00000000000000d0", "none", "GET", "1000000000", "1000002201"],
                ["00000000000000d1", "00000000000000d0", "query-buffer", "1000000000", "1000001500"],
                ["00000000000000d3", "00000000000000d0", "execution", "1000001500", "1000002200"],
                ["00000000000000d7", "00000000000000d0", "output", "1000002200", "1000002201"],
            ]
        );
        assert_eq!(spans[0]["attributes"][3]["value"]["stringValue"], "get a\"\n\u{fffd}</script>");
    }
}
