//! The tests that run without a command.

use crate::template::Template;

pub struct Workload {
    pub title: String,
    pub template: Template,
    /// A command that runs once before the test.
    pub preparation: Option<Vec<Vec<u8>>>,
}

/// Parameters of the tests' commands.
pub struct Ingredients {
    /// The value.
    pub data: Vec<u8>,
    /// Whether placeholders are replaced by numbers.
    pub is_random: bool,
    /// Number of functions in the loaded library.
    pub functions: u32,
    /// Whether keys have a hash tag.
    pub is_cluster: bool,
    /// Number of keys of the called function.
    pub function_keys: u32,
}

/// Names for `-t`, title, and command (`DATA` is the value, `#` a cluster's hash tag).
const TESTS: &[(&[&str], &str, &str)] = &[
    (&["ping_inline", "ping"], "PING_INLINE", ""),
    (&["ping_mbulk", "ping"], "PING_MBULK", "PING"),
    (&["set"], "SET", "SET key#:__rand_int__ DATA"),
    (&["get"], "GET", "GET key#:__rand_int__"),
    (&["incr"], "INCR", "INCR counter#:__rand_int__"),
    (&["lpush"], "LPUSH", "LPUSH mylist# DATA"),
    (&["rpush"], "RPUSH", "RPUSH mylist# DATA"),
    (&["lpop"], "LPOP", "LPOP mylist#"),
    (&["rpop"], "RPOP", "RPOP mylist#"),
    (&["sadd"], "SADD", "SADD myset# element:__rand_int__"),
    (&["hset"], "HSET", "HSET myhash# element:__rand_int__ DATA"),
    (&["spop"], "SPOP", "SPOP myset#"),
    (&["zadd"], "ZADD", "ZADD myzset# SCORE element:__rand_1st__"),
    (&["zpopmin"], "ZPOPMIN", "ZPOPMIN myzset#"),
    (
        &["lrange", "lrange_100", "lrange_300", "lrange_500", "lrange_600"],
        "LPUSH (needed to benchmark LRANGE)",
        "LPUSH mylist# DATA",
    ),
    (&["lrange", "lrange_100"], "LRANGE_100 (first 100 elements)", "LRANGE mylist# 0 99"),
    (&["lrange", "lrange_300"], "LRANGE_300 (first 300 elements)", "LRANGE mylist# 0 299"),
    (&["lrange", "lrange_500"], "LRANGE_500 (first 500 elements)", "LRANGE mylist# 0 499"),
    (&["lrange", "lrange_600"], "LRANGE_600 (first 600 elements)", "LRANGE mylist# 0 599"),
    (&["mset"], "MSET (10 keys)", "MSET PAIRS"),
    (&["mget"], "MGET (10 keys)", "MGET KEYS"),
    (&["xadd"], "XADD", "XADD mystream# * myfield DATA"),
    (&["function_load"], "FUNCTION LOAD", "FUNCTION LOAD REPLACE LIBRARY"),
    (&["fcall"], "FCALL", "FCALL foo1 FUNCTION_KEYS"),
];

/// Returns the selected tests, all by default.
pub fn selected(names: &[String], ingredients: &Ingredients) -> Result<Vec<Workload>, String> {
    let known =
        |name: &&String| TESTS.iter().any(|(names, ..)| names.contains(&name.to_lowercase().as_str()));
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        let meant =
            wire::spelling::meant(unknown, TESTS.iter().flat_map(|(names, ..)| names.iter().copied()));
        let advice = meant.map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
        return Err(format!("no test is called {unknown}{advice}"));
    }
    let is_selected = |test: &&[&str]| {
        names.is_empty() || names.iter().any(|name| test.contains(&name.to_lowercase().as_str()))
    };
    let workload = |(_, title, command): &(&[&str], &str, &str)| Workload {
        title: title.to_string(),
        template: template(command, ingredients),
        preparation: command.starts_with("FCALL").then(|| {
            let load = [b"FUNCTION".to_vec(), b"LOAD".to_vec(), b"REPLACE".to_vec()];
            [load.as_slice(), &[library(1)]].concat()
        }),
    };
    Ok(TESTS.iter().filter(|(names, ..)| is_selected(names)).map(workload).collect())
}

fn template(command: &str, ingredients: &Ingredients) -> Template {
    if command.is_empty() {
        return Template::inline(b"PING\r\n");
    }
    let tag = if ingredients.is_cluster { ":{tag}" } else { "" };
    let (key, data) = (format!("key{tag}:__rand_int__").into_bytes(), &ingredients.data);
    let function_keys = || {
        let keys = ingredients.function_keys;
        std::iter::once(keys.to_string()).chain((1..=keys).map(|key| format!("key{key}")))
    };
    let args: Vec<Vec<u8>> = command
        .split(' ')
        .flat_map(|word| match word {
            "DATA" => vec![data.clone()],
            "SCORE" if ingredients.is_random => vec![b"__rand_int__".to_vec()],
            "SCORE" => vec![b"0".to_vec()],
            "PAIRS" => vec![[key.clone(), data.clone()]; 10].concat(),
            "KEYS" => vec![key.clone(); 10],
            "LIBRARY" => vec![library(ingredients.functions)],
            "FUNCTION_KEYS" => function_keys().map(String::into_bytes).collect(),
            word => vec![word.replace('#', tag).into_bytes()],
        })
        .collect();
    Template::command(&args)
}

/// Returns a library with this number of functions.
fn library(functions: u32) -> Vec<u8> {
    let function =
        |number: u32| format!("redis.register_function('foo{number}', function(keys, args) return 0 end)\n");
    format!("#!lua name=benchlib\n{}", (1..=functions).map(function).collect::<String>()).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ingredients() -> Ingredients {
        Ingredients {
            data: b"xxx".to_vec(),
            is_random: false,
            is_cluster: false,
            functions: 2,
            function_keys: 1,
        }
    }

    #[test]
    fn tests_are_selected_by_name() {
        let titles = |names: &[&str]| -> Vec<String> {
            let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
            selected(&names, &ingredients()).unwrap().into_iter().map(|workload| workload.title).collect()
        };
        assert_eq!(titles(&[]).len(), TESTS.len());
        assert_eq!(titles(&["ping"]), ["PING_INLINE", "PING_MBULK"]);
        assert_eq!(titles(&["SET", "mget"]), ["SET", "MGET (10 keys)"]);
        assert_eq!(titles(&["lrange_300"]).len(), 2);
        assert!(selected(&["nothing".to_string()], &ingredients()).is_err());
        let mset = &selected(&["mset".to_string()], &ingredients()).unwrap()[0].template;
        assert!(mset.bytes.starts_with(b"*21\r\n$4\r\nMSET\r\n$16\r\nkey:__rand_int__\r\n$3\r\nxxx\r\n"));
        let fcall = &selected(&["fcall".to_string()], &ingredients()).unwrap()[0];
        assert_eq!(fcall.template.bytes, b"*4\r\n$5\r\nFCALL\r\n$4\r\nfoo1\r\n$1\r\n1\r\n$4\r\nkey1\r\n");
        assert_eq!(fcall.preparation.as_ref().map(Vec::len), Some(4));
    }
}
