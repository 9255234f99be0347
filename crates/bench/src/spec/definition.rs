//! Definitions of benchmarks in the published form, as their YAML says.

use saphyr::{LoadableYamlNode, Yaml};

use super::memtier::Plan;

/// What a benchmark asks for.
#[derive(Debug)]
pub struct Definition {
    /// Options of the server, with their values.
    pub parameters: Vec<(String, String)>,
    /// Requests that store the data.
    pub preload: Option<Plan>,
    /// Commands that follow.
    pub init_commands: Vec<Vec<Vec<u8>>>,
    /// Keys that there are by then.
    pub keys_expected: Option<u64>,
    /// Memory that the server may need.
    pub memory_bytes: u64,
    /// What is measured, all of it at the same time.
    pub clients: Vec<Plan>,
}

impl Definition {
    /// Reads a definition, or says what of it is not understood.
    pub fn read(text: &str) -> Result<Self, String> {
        let documents = Yaml::load_from_str(text).map_err(|error| format!("it is no YAML: {error}"))?;
        let document = documents.first().ok_or("it is empty")?;
        let database = document.as_mapping_get("dbconfig").ok_or("it has no dbconfig")?;
        check_database(database)?;
        check_topologies(document)?;
        let preload = match database.as_mapping_get("preload_tool") {
            Some(tool) => Some(plan(tool).map_err(|error| format!("preload: {error}"))?),
            None => None,
        };
        let one = document.as_mapping_get("clientconfig").into_iter();
        let several = document.as_mapping_get("clientconfigs").and_then(Yaml::as_sequence);
        let clients: Vec<Plan> =
            one.chain(several.into_iter().flatten()).map(plan).collect::<Result<_, _>>()?;
        if clients.is_empty() {
            return Err("it has no clientconfig".to_string());
        }
        let memory = database
            .as_mapping_get("resources")
            .and_then(|resources| resources.as_mapping_get("requests"))
            .and_then(|requests| string(requests, "memory"));
        Ok(Self {
            parameters: parameters(database),
            preload,
            init_commands: init_commands(database)?,
            keys_expected: database
                .as_mapping_get("check")
                .and_then(|check| check.as_mapping_get("keyspacelen"))
                .and_then(Yaml::as_integer)
                .and_then(|keys| u64::try_from(keys).ok()),
            memory_bytes: memory.map_or(Ok(0), |text| bytes(&text))?,
            clients,
        })
    }

    /// Names of all commands that are sent, in lower case.
    pub fn commands(&self) -> Vec<String> {
        let plans = self.preload.iter().chain(&self.clients);
        let mut names: Vec<String> = plans
            .flat_map(Plan::command_names)
            .chain(self.init_commands.iter().filter_map(|command| command.first().cloned()))
            .map(|name| String::from_utf8_lossy(&name).to_lowercase())
            .collect();
        names.sort();
        names.dedup();
        names
    }
}

/// A scalar as text, whatever YAML takes it for.
fn text(node: &Yaml<'_>) -> Option<String> {
    if let Some(text) = node.as_str() {
        return Some(text.to_string());
    }
    let number = node.as_integer().map(|number| number.to_string());
    number
        .or_else(|| node.as_floating_point().map(|number| number.to_string()))
        .or_else(|| node.as_bool().map(|is_on| if is_on { "yes" } else { "no" }.to_string()))
}

fn string(mapping: &Yaml<'_>, key: &str) -> Option<String> {
    mapping.as_mapping_get(key).and_then(text)
}

fn check_database(database: &Yaml<'_>) -> Result<(), String> {
    // Without a replica, whether data is stored before one comes makes no difference.
    const KNOWN: [&str; 10] = [
        "configuration-parameters",
        "check",
        "preload_tool",
        "resources",
        "dataset_name",
        "dataset_description",
        "init_commands",
        "init_lua",
        "dataset",
        "preload_before_replica",
    ];
    for (key, value) in database.as_mapping().into_iter().flatten() {
        let key = text(key).unwrap_or_default();
        match key.as_str() {
            "dataset" => {
                let source = text(value).unwrap_or_default();
                return Err(format!("its data is a file that must be fetched: {source}"));
            }
            key if KNOWN.contains(&key) => {}
            key => return Err(format!("dbconfig says {key}, which is not understood")),
        }
    }
    Ok(())
}

/// Only a server by itself is measured.
fn check_topologies(document: &Yaml<'_>) -> Result<(), String> {
    let topologies = document.as_mapping_get("redis-topologies").and_then(Yaml::as_sequence);
    let names: Vec<String> = topologies.into_iter().flatten().filter_map(text).collect();
    let is_alone = |name: &String| {
        name == "oss-standalone"
            || name.starts_with("oss-standalone-")
                && name.ends_with("io-threads")
                && !name.contains("replicas")
    };
    if names.is_empty() || names.iter().any(is_alone) {
        return Ok(());
    }
    Err(format!("it is for other topologies than a server by itself: {}", names.join(", ")))
}

fn parameters(database: &Yaml<'_>) -> Vec<(String, String)> {
    let mapping = database.as_mapping_get("configuration-parameters").and_then(Yaml::as_mapping);
    let pair = |(name, value): (&Yaml<'_>, &Yaml<'_>)| {
        let value = text(value)?;
        let unquoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        Some((text(name)?, unquoted.unwrap_or(&value).to_string()))
    };
    mapping.into_iter().flatten().filter_map(pair).collect()
}

fn init_commands(database: &Yaml<'_>) -> Result<Vec<Vec<Vec<u8>>>, String> {
    let mut commands = Vec::new();
    if let Some(node) = database.as_mapping_get("init_commands") {
        let items: Vec<&Yaml<'_>> =
            node.as_sequence().map_or_else(|| vec![node], |items| items.iter().collect());
        for item in items {
            let words = match item.as_sequence() {
                Some(words) => words.iter().filter_map(text).collect(),
                None => {
                    let line = text(item).ok_or("an init command is no text")?;
                    shlex::split(&line).ok_or_else(|| format!("quotes do not match in {line}"))?
                }
            };
            commands.push(words.into_iter().map(String::into_bytes).collect());
        }
    }
    if let Some(node) = database.as_mapping_get("init_lua") {
        let scripts = node.as_sequence().map_or_else(|| vec![node], |items| items.iter().collect());
        for script in scripts.into_iter().filter_map(text) {
            commands.push(vec![b"EVAL".to_vec(), script.into_bytes(), b"0".to_vec()]);
        }
    }
    Ok(commands)
}

fn plan(client: &Yaml<'_>) -> Result<Plan, String> {
    let tool = string(client, "tool").unwrap_or_default();
    if tool != "memtier_benchmark" {
        return Err(format!("it needs {tool}"));
    }
    let arguments = string(client, "arguments").ok_or("it has no arguments")?;
    let words = shlex::split(&arguments).ok_or("the quotes of its arguments do not match")?;
    Plan::parse(&words)
}

/// `2g` and the like.
fn bytes(text: &str) -> Result<u64, String> {
    let lower = text.to_lowercase();
    let digits_len = lower.find(|c: char| !c.is_ascii_digit()).unwrap_or(lower.len());
    let (digits, unit) = lower.split_at(digits_len);
    let shift = match unit.trim_end_matches('b') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        _ => return Err(format!("no amount of memory: {text}")),
    };
    digits.parse::<u64>().map(|number| number << shift).map_err(|_| format!("no amount of memory: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFINITION: &str = r#"
version: 0.4
name: hashes-of-five
dbconfig:
  configuration-parameters:
    save: '""'
    maxmemory-samples: 5
  check:
    keyspacelen: 1000
  preload_tool:
    tool: memtier_benchmark
    arguments: '"--data-size" "10" --command "HSET __key__ field __data__" --command-key-pattern="P"
      --key-minimum=1 --key-maximum 1001 -n allkeys -c 1 -t 1 --hide-histogram'
  init_commands:
  - '"SADD" "a set" "member"'
  - ["SCRIPT", "LOAD", "return 1"]
  init_lua: return 2
  resources:
    requests:
      memory: 2g
redis-topologies:
- oss-standalone
clientconfig:
  tool: memtier_benchmark
  arguments: --command "HGETALL __key__" --command-key-pattern="R" --test-time 120
"#;

    #[test]
    fn a_definition_is_read() {
        let definition = Definition::read(DEFINITION).unwrap();
        assert_eq!(definition.keys_expected, Some(1000));
        let pair = |name: &str, value: &str| (name.to_string(), value.to_string());
        assert_eq!(definition.parameters, [pair("save", ""), pair("maxmemory-samples", "5")]);
        assert_eq!(definition.memory_bytes, 2 << 30);
        assert_eq!(definition.init_commands.len(), 3);
        assert_eq!(definition.init_commands[0][1], b"a set");
        assert_eq!(definition.init_commands[2], [b"EVAL".to_vec(), b"return 2".to_vec(), b"0".to_vec()]);
        assert_eq!(definition.commands(), ["eval", "hgetall", "hset", "sadd", "script"]);
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (from, to, why) in [
            (
                "tool: memtier_benchmark\n  arguments: --command",
                "tool: other\n  arguments: --command",
                "other",
            ),
            ("init_lua", "init_python", "init_python"),
            ("oss-standalone", "oss-cluster-3-primaries", "oss-cluster-3-primaries"),
            ("--test-time", "--fly-to", "--fly-to"),
            ("memory: 2g", "memory: much", "much"),
            ("dbconfig:", "dbconfig: [", "YAML"),
            ("init_lua: return 2", "dataset: somewhere", "somewhere"),
        ] {
            let refusal = Definition::read(&DEFINITION.replace(from, to)).err().unwrap_or_default();
            assert!(refusal.contains(why), "{refusal}");
        }
    }
}
