//! Large keys: a part of the elements is copied, a page at a time, measured and extrapolated.

use wire::response::Value;

use super::own_server::{Request, request};
use super::sample::{Copier, Measured, SampledKey, TTL_MS};
use crate::Failure;
use crate::key_sizes::size_command;

/// Maximum number of bytes read of one key.
const READ_BYTES_MAX: u64 = 8 << 20;
/// Bytes read by one command, approximately, and the limit of elements.
const PAGE_BYTES: u64 = 256 << 10;
const PAGE_ELEMENTS_MAX: u64 = 1000;
/// Maximum length of the string that is stored to measure a longer one.
const STRING_BYTES_MAX: u64 = 1 << 20;

/// Estimates the memory of a key by a part of its elements.
pub fn measure(copier: &mut Copier<'_>, key: &SampledKey) -> Result<Measured, Failure> {
    let Some(len) = key.len else {
        return Ok(Measured::Refused("large value of an unknown type".to_owned()));
    };
    if len == 0 {
        return Ok(Measured::Gone);
    }
    if key.type_name == "string" {
        return measure_string(copier, key, len);
    }
    let page_len = (PAGE_BYTES.saturating_mul(len) / key.bytes.max(1)).clamp(1, PAGE_ELEMENTS_MAX);
    let copied = match key.type_name.as_str() {
        "list" | "zset" => copy_ranges(copier, key, len, page_len)?,
        "stream" => copy_stream(copier, key, len, page_len)?,
        _ => copy_scanned(copier, key, page_len)?,
    };
    if key.expires {
        copier.own.pipeline(&[request(&[b"PEXPIRE", &key.name, TTL_MS])])?;
    }
    match (copied, copier.own.measure(&key.name)?) {
        (1.., Some(bytes)) => Ok(Measured::Bytes((bytes as f64 * len as f64 / copied as f64) as u64)),
        _ => Ok(Measured::Gone),
    }
}

/// Estimates a string by a shorter one, halved until it is short enough: the allocator has equally many size classes in
/// each power of two.
fn measure_string(copier: &mut Copier<'_>, key: &SampledKey, len: u64) -> Result<Measured, Failure> {
    let halvings = (0..u64::BITS).find(|halvings| len >> halvings <= STRING_BYTES_MAX).unwrap_or_default();
    let value = vec![b'x'; (len >> halvings) as usize];
    let mut set = request(&[b"SET", &key.name, &value]);
    if key.expires {
        set.extend(request(&[b"PX", TTL_MS]));
    }
    copier.own.pipeline(&[set])?;
    let bytes = copier.own.measure(&key.name)?;
    Ok(bytes.map_or(Measured::Gone, |bytes| Measured::Bytes(bytes << halvings)))
}

fn bytes_of(values: &[Value]) -> u64 {
    let len = |value: &Value| match value.as_list() {
        Some(values) => bytes_of(values),
        None => value.as_bytes().unwrap_or_default().len() as u64,
    };
    values.iter().map(len).sum()
}

/// Returns all texts of a reply in order, including those of nested lists.
fn words(values: &[Value]) -> Vec<Vec<u8>> {
    let of_value = |value: &Value| match value.as_list() {
        Some(values) => words(values),
        None => vec![value.as_bytes().unwrap_or_default().to_vec()],
    };
    values.iter().flat_map(of_value).collect()
}

impl Copier<'_> {
    /// Returns the reply as a list; `None`: the key does not exist any more or has another type.
    fn read_page(&mut self, command: &Request) -> Result<Option<Vec<Value>>, Failure> {
        let reply = self.source.request(command)?;
        let items = reply.as_list().map(<[Value]>::to_vec);
        self.read_bytes += items.as_deref().map_or(0, bytes_of);
        Ok(items)
    }

    fn has_read_enough(&self, begin: u64) -> bool {
        self.read_bytes - begin >= READ_BYTES_MAX
    }

    /// Returns the number of elements of the copy.
    fn copied_len(&mut self, key: &SampledKey) -> Result<u64, Failure> {
        let command = size_command(&key.type_name).unwrap_or("EXISTS");
        let replies = self.own.pipeline(&[request(&[command.as_bytes(), &key.name])])?;
        Ok(if let Value::Integer(len) = replies[0] { len as u64 } else { 0 })
    }
}

/// Copies a list or a sorted set in the order of its elements, which is the order of loading.
fn copy_ranges(copier: &mut Copier<'_>, key: &SampledKey, len: u64, page_len: u64) -> Result<u64, Failure> {
    let begin = copier.read_bytes;
    let mut from = 0;
    while from < len && !copier.has_read_enough(begin) {
        let (first, last) = (from.to_string(), (from + page_len - 1).to_string());
        let is_list = key.type_name == "list";
        let (range, add): (&[u8], &[u8]) = if is_list { (b"LRANGE", b"RPUSH") } else { (b"ZRANGE", b"ZADD") };
        let mut command = request(&[range, &key.name, first.as_bytes(), last.as_bytes()]);
        if !is_list {
            command.push(b"WITHSCORES".to_vec());
        }
        let Some(items) = copier.read_page(&command)?.filter(|items| !items.is_empty()) else { break };
        let mut items = words(&items);
        if !is_list {
            items.chunks_exact_mut(2).for_each(|member_and_score| member_and_score.reverse());
        }
        let mut command = request(&[add, &key.name]);
        command.extend(items);
        copier.own.pipeline(&[command])?;
        from += page_len;
    }
    copier.copied_len(key)
}

/// Copies a hash or a set.
fn copy_scanned(copier: &mut Copier<'_>, key: &SampledKey, page_len: u64) -> Result<u64, Failure> {
    let (scan, add): (&[u8], &[u8]) = match key.type_name.as_str() {
        "hash" => (b"HSCAN", b"HSET"),
        "set" => (b"SSCAN", b"SADD"),
        _ => return Ok(0),
    };
    let (begin, count) = (copier.read_bytes, page_len.to_string());
    let mut cursor = b"0".to_vec();
    loop {
        let command = request(&[scan, &key.name, &cursor, b"COUNT", count.as_bytes()]);
        let Some(reply) = copier.read_page(&command)? else { break };
        let [next, items] = &reply[..] else { break };
        let items = words(items.as_list().unwrap_or_default());
        if !items.is_empty() {
            let mut command = request(&[add, &key.name]);
            command.extend(items.iter().cloned());
            copier.own.pipeline(&[command])?;
            if scan == b"HSCAN" {
                copy_field_expiry(copier, key, &items)?;
            }
        }
        cursor = next.as_bytes().unwrap_or(b"0").to_vec();
        if cursor == b"0" || copier.has_read_enough(begin) {
            break;
        }
    }
    copier.copied_len(key)
}

/// Copies which fields expire. `items`: alternating fields and values. The error of servers without expiring fields is
/// ignored.
fn copy_field_expiry(copier: &mut Copier<'_>, key: &SampledKey, items: &[Vec<u8>]) -> Result<(), Failure> {
    let fields: Vec<&Vec<u8>> = items.iter().step_by(2).collect();
    let request_of = |command: &[&[u8]], fields: &[&Vec<u8>]| {
        let mut request = request(command);
        request.push(b"FIELDS".to_vec());
        request.push(fields.len().to_string().into_bytes());
        request.extend(fields.iter().map(|field| (*field).clone()));
        request
    };
    let reply = copier.source.request(&request_of(&[b"HPTTL", &key.name], &fields))?;
    let Some(ttls) = reply.as_list() else { return Ok(()) };
    let expires = |ttl: &Value| matches!(ttl, Value::Integer(0..));
    let expiring: Vec<&Vec<u8>> =
        fields.iter().zip(ttls).filter(|(_, ttl)| expires(ttl)).map(|(field, _)| *field).collect();
    if !expiring.is_empty() {
        copier.own.pipeline(&[request_of(&[b"HPEXPIRE", &key.name, TTL_MS], &expiring)])?;
    }
    Ok(())
}

/// Returns the next id: exclusive ranges are not supported by all servers.
fn following_id(id: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(id);
    let (ms, seq) = text.split_once('-').unwrap_or((&text, "0"));
    let (ms, seq): (u64, u64) = (ms.parse().unwrap_or(u64::MAX), seq.parse().unwrap_or(u64::MAX));
    match seq.checked_add(1) {
        Some(seq) => format!("{ms}-{seq}"),
        None => format!("{}-0", ms.saturating_add(1)),
    }
    .into_bytes()
}

fn copy_stream(copier: &mut Copier<'_>, key: &SampledKey, len: u64, page_len: u64) -> Result<u64, Failure> {
    let (begin, count) = (copier.read_bytes, page_len.to_string());
    let mut from = b"-".to_vec();
    while !copier.has_read_enough(begin) {
        let command = request(&[b"XRANGE", &key.name, &from, b"+", b"COUNT", count.as_bytes()]);
        let Some(entries) = copier.read_page(&command)? else { break };
        let mut adds = Vec::new();
        for entry in &entries {
            let Some([id, fields]) = entry.as_list() else { continue };
            let id = id.as_bytes().unwrap_or_default();
            let mut add = request(&[b"XADD", &key.name, id]);
            add.extend(words(fields.as_list().unwrap_or_default()));
            adds.push(add);
            from = following_id(id);
        }
        if adds.is_empty() {
            break;
        }
        copier.own.pipeline(&adds)?;
    }
    let copied = copier.copied_len(key)?;
    copy_groups(copier, key, copied as f64 / len as f64)?;
    Ok(copied)
}

/// Copies the groups of a stream, with this share of each group's pending entries.
fn copy_groups(copier: &mut Copier<'_>, key: &SampledKey, share: f64) -> Result<(), Failure> {
    let reply = copier.source.request(&request(&[b"XINFO", b"GROUPS", &key.name]))?;
    for group in reply.as_list().unwrap_or_default() {
        let field = |name: &[u8]| {
            group
                .entries()
                .into_iter()
                .find(|(field, _)| field.as_bytes() == Some(name))
                .map(|(_, value)| value)
        };
        let name = field(b"name").and_then(Value::as_bytes).unwrap_or_default();
        let pending =
            if let Some(Value::Integer(pending)) = field(b"pending") { *pending as f64 } else { 0.0 };
        let count = ((pending * share) as u64).to_string();
        let mut requests = vec![request(&[b"XGROUP", b"CREATE", &key.name, name, b"0"])];
        if count != "0" {
            let read: [&[u8]; 9] = [
                b"XREADGROUP",
                b"GROUP",
                name,
                b"reader",
                b"COUNT",
                count.as_bytes(),
                b"STREAMS",
                &key.name,
                b">",
            ];
            requests.push(request(&read));
        }
        copier.own.pipeline(&requests)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_each_other() {
        assert_eq!(following_id(b"5-7"), b"5-8");
        assert_eq!(following_id(b"5-18446744073709551615"), b"6-0");
    }
}
