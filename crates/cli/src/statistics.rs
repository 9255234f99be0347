//! `--stat`: rows of figures from INFO, printed periodically.

use std::thread;
use std::time::Duration;

use client::info_field;

use crate::Failure;
use crate::session::Session;

const INTERVAL: Duration = Duration::from_secs(1);
const ROWS_PER_HEADING: usize = 20;

fn info_number(info: &str, name: &str) -> i64 {
    info_field(info, name).and_then(|value| value.parse().ok()).unwrap_or(0)
}

/// Returns the number of keys in all databases, the sum of lines such as `db0:keys=5,...`.
fn total_keys(info: &str) -> i64 {
    let keys = |line: &str| -> Option<i64> {
        let (_, rest) = line.strip_prefix("db")?.split_once(":keys=")?;
        rest.split(',').next()?.parse().ok()
    };
    info.lines().filter_map(keys).fold(0, i64::saturating_add)
}

pub fn human_bytes(bytes: i64) -> String {
    let (mut value, mut unit) = (bytes as f64, "B");
    for next in ["K", "M", "G", "T"] {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    if unit == "B" { format!("{bytes}B") } else { format!("{value:.2}{unit}") }
}

/// Returns the running saves, rewrites and loads.
fn work_under_way(info: &str) -> String {
    let running = |(field, name): (&str, &'static str)| (info_number(info, field) != 0).then_some(name);
    let all = [("rdb_bgsave_in_progress", "SAVE"), ("aof_rewrite_in_progress", "AOF"), ("loading", "LOAD")];
    all.into_iter().filter_map(running).collect::<Vec<_>>().join("+")
}

fn row(info: &str, requests_before: Option<i64>) -> (String, i64) {
    let requests = info_number(info, "total_commands_processed");
    let more = requests.saturating_sub(requests_before.unwrap_or(requests));
    let text = format!(
        "{:<11}{:<8} {:<8}{:<8}{:<19} {:<12}{}",
        total_keys(info),
        human_bytes(info_number(info, "used_memory")),
        info_number(info, "connected_clients"),
        info_number(info, "blocked_clients"),
        format!("{requests} (+{more})"),
        info_number(info, "total_connections_received"),
        work_under_way(info)
    );
    (text, requests)
}

pub fn run(session: &mut Session, interval: Option<Duration>) -> Result<(), Failure> {
    session.connect()?;
    let mut requests_before = None;
    for index in 0.. {
        let reply = session.request_with_retries(&["INFO"])?;
        let info = String::from_utf8_lossy(reply.as_bytes().unwrap_or_default()).into_owned();
        if reply.is_error() {
            return Err(Failure::Reply(format!("ERROR: {info}")));
        }
        if index % ROWS_PER_HEADING == 0 {
            print_line!("------- data ------ --------------------- load -------------------- - child -");
            print_line!("keys       mem      clients blocked requests            connections          ");
        }
        let (text, requests) = row(&info, requests_before);
        print_line!("{text}");
        requests_before = Some(requests);
        thread::sleep(interval.unwrap_or(INTERVAL));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_may_be_any() {
        let info =
            format!("total_commands_processed:{}\r\ndb0:keys={},\r\ndb1:keys=9,\r\n", i64::MIN, i64::MAX);
        assert!(row(&info, Some(i64::MAX)).0.starts_with("9223372036854775807"));
    }

    #[test]
    fn info_is_read() {
        let info = "# Server\r\nused_memory:1234\r\nused_memory_human:1K\r\ntotal_commands_processed:9\r\n\
                    aof_rewrite_in_progress:1\r\nloading:1\r\n# Keyspace\r\ndb0:keys=5,expires=0\r\ndb12:keys=7,expires=1\r\n";
        assert_eq!((total_keys(info), info_number(info, "nothing")), (12, 0));
        assert_eq!([0, 1023, 1024, 1536 * 1024].map(human_bytes), ["0B", "1023B", "1.00K", "1.50M"]);
        let (text, requests) = row(info, Some(4));
        assert_eq!(requests, 9);
        assert_eq!(text, "12         1.21K    0       0       9 (+5)              0           AOF+LOAD");
    }
}
