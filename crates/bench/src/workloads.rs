//! The tests that run when no command is given.

use crate::template::Template;

pub struct Workload {
    pub title: String,
    pub template: Template,
}

/// Names by which `-t` selects the test, its title, and its command (`DATA` stands for the value).
const TESTS: &[(&[&str], &str, &str)] = &[
    (&["ping_inline", "ping"], "PING_INLINE", ""),
    (&["ping_mbulk", "ping"], "PING_MBULK", "PING"),
    (&["set"], "SET", "SET key:__rand_int__ DATA"),
    (&["get"], "GET", "GET key:__rand_int__"),
    (&["incr"], "INCR", "INCR counter:__rand_int__"),
    (&["lpush"], "LPUSH", "LPUSH mylist DATA"),
    (&["rpush"], "RPUSH", "RPUSH mylist DATA"),
    (&["lpop"], "LPOP", "LPOP mylist"),
    (&["rpop"], "RPOP", "RPOP mylist"),
    (&["sadd"], "SADD", "SADD myset element:__rand_int__"),
    (&["hset"], "HSET", "HSET myhash element:__rand_int__ DATA"),
    (&["spop"], "SPOP", "SPOP myset"),
    (&["zadd"], "ZADD", "ZADD myzset SCORE element:__rand_1st__"),
    (&["zpopmin"], "ZPOPMIN", "ZPOPMIN myzset"),
    (
        &["lrange", "lrange_100", "lrange_300", "lrange_500", "lrange_600"],
        "LPUSH (needed to benchmark LRANGE)",
        "LPUSH mylist DATA",
    ),
    (&["lrange", "lrange_100"], "LRANGE_100 (first 100 elements)", "LRANGE mylist 0 99"),
    (&["lrange", "lrange_300"], "LRANGE_300 (first 300 elements)", "LRANGE mylist 0 299"),
    (&["lrange", "lrange_500"], "LRANGE_500 (first 500 elements)", "LRANGE mylist 0 499"),
    (&["lrange", "lrange_600"], "LRANGE_600 (first 600 elements)", "LRANGE mylist 0 599"),
    (&["mset"], "MSET (10 keys)", "MSET PAIRS"),
    (&["mget"], "MGET (10 keys)", "MGET KEYS"),
    (&["xadd"], "XADD", "XADD mystream * myfield DATA"),
];

/// The selected tests, all of them when none is named.
pub fn selected(names: &[String], data: &[u8], is_random: bool) -> Result<Vec<Workload>, String> {
    let known =
        |name: &&String| TESTS.iter().any(|(names, ..)| names.contains(&name.to_lowercase().as_str()));
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        return Err(format!("no test is called {unknown}"));
    }
    let is_selected = |test: &&[&str]| {
        names.is_empty() || names.iter().any(|name| test.contains(&name.to_lowercase().as_str()))
    };
    let workload = |(_, title, command): &(&[&str], &str, &str)| Workload {
        title: title.to_string(),
        template: template(command, data, is_random),
    };
    Ok(TESTS.iter().filter(|(names, ..)| is_selected(names)).map(workload).collect())
}

fn template(command: &str, data: &[u8], is_random: bool) -> Template {
    if command.is_empty() {
        return Template::inline(b"PING\r\n");
    }
    let key = b"key:__rand_int__".as_slice();
    let args: Vec<&[u8]> = command
        .split(' ')
        .flat_map(|word| match word {
            "DATA" => vec![data],
            "SCORE" if is_random => vec![b"__rand_int__".as_slice()],
            "SCORE" => vec![b"0".as_slice()],
            "PAIRS" => [key, data].repeat(10),
            "KEYS" => vec![key; 10],
            word => vec![word.as_bytes()],
        })
        .collect();
    Template::command(&args)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_selected_by_name() {
        let titles = |names: &[&str]| -> Vec<String> {
            let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
            selected(&names, b"xxx", false).unwrap().into_iter().map(|workload| workload.title).collect()
        };
        assert_eq!(titles(&[]).len(), TESTS.len());
        assert_eq!(titles(&["ping"]), ["PING_INLINE", "PING_MBULK"]);
        assert_eq!(titles(&["SET", "mget"]), ["SET", "MGET (10 keys)"]);
        assert_eq!(titles(&["lrange_300"]).len(), 2);
        assert!(selected(&["nothing".to_string()], b"", false).is_err());
        let mset = &selected(&["mset".to_string()], b"xxx", false).unwrap()[0].template;
        assert!(mset.bytes.starts_with(b"*21\r\n$4\r\nMSET\r\n$16\r\nkey:__rand_int__\r\n$3\r\nxxx\r\n"));
    }
}
