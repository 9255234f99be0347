//! Files and payloads of Redis 7.4 to 8.8, which no Valkey reads. Those in `tests/redis_files` were written by the servers
//! that they are named after, most with the same data in them; what no available server writes, all that 8.8 brought among
//! it, is put together here.
//!
//! ```text
//! WARMLINE_TEST_SCALE=40 cargo test -p warmline-server --test processes redis_files::   a long run
//! ```

use crate::process::peer::Peer;
use crate::process::{self, Client, Process, eventually, scale};
use server::db::stream::Stream;
use server::db::{Db, Hash, Turn};
use server::persist::rdb::load::LoadOptions;
use server::persist::rdb::{LoadError, Loader, Reason, Snapshot, write_snapshot};
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use structures::hash::HashSeed;
use wire::cluster_bus::NodeId;
use wire::rdb::{SlotImport, Writer, kind, opcode};

/// Before anything in the files expires that did not expire while they were written.
const NOW_MS: i64 = 1_800_000_000_000;
const NEVER_EXPIRES: i64 = i64::MIN;

/// Files with the same data, and what each server writes fields with expiries and streams as.
const WHOLE: [&str; 4] = ["7.4-rc1", "7.4", "8.0", "8.6"];
const OTHERS: [&str; 7] =
    ["7.4-rc1-past", "8.6-past", "8.6-idle", "8.6-frequency", "8.6-cluster", "8.6-vector", "8.6-added-once"];

/// What DEBUG DIGEST of all of these servers says of the data once the hashes with expiries of fields are gone, which
/// Redis digests in its own way.
const DIGEST_WITHOUT_EXPIRIES: &str = "24dc783a648ddfcd02a23243c7eddb03facd7165";

fn path_of(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/redis_files").join(format!("{name}.rdb"))
}

fn bytes_of(name: &str) -> Vec<u8> {
    fs::read(path_of(name)).unwrap()
}

fn options(verify_checksum: bool) -> LoadOptions {
    LoadOptions {
        strict: true,
        verify_checksum,
        drop_expired: false,
        replaces: false,
        keys_expected_max: 1000,
        key_delay_us: 0,
        now_ms: NOW_MS,
    }
}

fn load_at(bytes: &[u8], now_ms: i64, options: LoadOptions) -> Result<Db, LoadError> {
    let mut db = Db::new(20, HashSeed::new(1, 2), 3);
    db.begin(Turn::new(0, now_ms));
    let mut loader = Loader::open(bytes, options)?;
    assert!(loader.step(&mut db, &mut || false)?);
    Ok(db)
}

fn load(bytes: &[u8], verify_checksum: bool) -> Result<Db, LoadError> {
    load_at(bytes, NOW_MS, options(verify_checksum))
}

fn refusal(bytes: &[u8]) -> String {
    load(bytes, true).map(|_| ()).unwrap_err().to_string()
}

fn snapshot_of(db: &Db) -> Vec<u8> {
    let snapshot = Snapshot { release: "9.1.0", compresses: true, checksummed: true, ..Snapshot::default() };
    write_snapshot(Vec::new(), db, &snapshot, &mut |_| ()).unwrap()
}

/// The fields of a hash with their expiries, in order.
fn fields_of(db: &Db, key: &str) -> Vec<(String, Option<i64>)> {
    let hash = db.stored_collection::<Hash>(db.key(key.as_bytes())).unwrap();
    let mut fields: Vec<_> = ["a", "b", "c", "f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8"]
        .into_iter()
        .filter_map(|field| {
            let (_, expiry_ms) = hash.get_with_expiry(field.as_bytes(), NEVER_EXPIRES)?;
            Some((field.to_owned(), expiry_ms))
        })
        .collect();
    fields.sort();
    fields
}

/// A server that starts on a copy of the file.
struct Server {
    process: Process,
    directory: PathBuf,
}

impl Server {
    fn start(name: &str, options: &[&str]) -> Server {
        let directory = std::env::temp_dir().join(format!(
            "warmline-redis-{name}-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        fs::copy(path_of(name), directory.join("dump.rdb")).unwrap();
        let fixed =
            ["--enable-debug-command", "yes", "--databases", "20", "--dir", directory.to_str().unwrap()];
        Server { process: Process::start(&[&fixed, options].concat()), directory }
    }

    fn connect(&self) -> Client<TcpStream> {
        let mut client = self.process.connect();
        eventually("loading", || client.ask("PING") == "PONG");
        client
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// What the servers that wrote the files answer.
const ANSWERS: &[(&str, &str)] = &[
    ("DBSIZE", "28"),
    ("GET integer", "12345"),
    ("STRLEN packed", "300"),
    ("STRLEN binary", "200"),
    ("GET empty", ""),
    ("PEXPIRETIME timed", "4102444800000"),
    ("LRANGE list:small 0 -1", "[a 1 2 -70000 b]"),
    ("LRANGE list:nodes 0 -1", "[0 e0 1 e1 2 e2 3 e3 4 e4 5 e5 6 e6 7 e7]"),
    ("LINDEX list:plain 2", "b"),
    ("SMISMEMBER set:integers 1 -5 70000 3", "[1 1 1 0]"),
    ("SCARD set:large", "9"),
    ("ZRANGE sorted:small 0 -1 WITHSCORES", "[c -inf a 1 b 2.5]"),
    ("ZSCORE sorted:large m6", "6.25"),
    ("PFCOUNT log", "3"),
    ("HMGET expiring:small a b c d", "[1 2 3 text]"),
    ("HPEXPIRETIME expiring:small FIELDS 4 a b c d", "[4102444800005 -1 4102444800000 4102444800005]"),
    ("HLEN expiring:large", "9"),
    (
        "HPEXPIRETIME expiring:large FIELDS 6 f0 f1 f2 f4 f5 f8",
        "[-1 4102444801000 4102444800000 -1 4102444801000 4102444801000]",
    ),
    ("HPEXPIRETIME expiring:all FIELDS 2 a b", "[4102444800000 4102444800000]"),
    ("HPEXPIRETIME expiring:long FIELDS 1 a", "[4102444800000]"),
    ("PEXPIRETIME expiring:long", "4102444800077"),
    ("HPEXPIRETIME persisted:small FIELDS 2 a b", "[-1 -1]"),
    ("OBJECT ENCODING persisted:small", "listpack"),
    ("HPEXPIRETIME persisted:large FIELDS 2 f3 f4", "[-1 -1]"),
    ("HLEN persisted:large", "8"),
    (
        "XRANGE stream - +",
        "[[1-1 [f v1 g 1]] [2-1 [f v2 g 2]] [5-1 [f v5 g 5]] [6-1 [f v6 g 6]] [7-1 [f v7 g 7]] [9-1 [other 1]]]",
    ),
    ("XPENDING stream readers", "[4 1-1 6-1 [[one 1] [two 3]]]"),
    ("XREADGROUP GROUP readers three COUNT 1 STREAMS stream >", "[[stream [[7-1 [f v7 g 7]]]]]"),
    ("XLEN emptied", "0"),
    ("XADD emptied 1-2 a b", "1-2"),
    ("FCALL f 0 said", "said"),
    ("SELECT 19", "OK"),
    ("HPEXPIRETIME h FIELDS 2 a b", "[-1 4102444800019]"),
    ("SELECT 3", "OK"),
    ("GET in", "3"),
];

#[test]
fn each_server_s_file_is_loaded_whole() {
    for name in WHOLE {
        let server = Server::start(name, &[]);
        let mut client = server.connect();
        let groups = client.ask("XINFO STREAM stream FULL");
        assert!(groups.contains("1700000000000 7"), "a time and a count of deliveries: {groups}");
        for (command, answer) in ANSWERS {
            assert_eq!(client.ask(command), *answer, "{name}: {command}");
        }
        client.ask("SELECT 0");
        let digest = client.ask("DEBUG DIGEST");
        client.ask("DEBUG RELOAD");
        assert_eq!(client.ask("DEBUG DIGEST"), digest, "{name}");
        client.ask("SELECT 0");
        assert_eq!(client.ask("HPEXPIRETIME expiring:long FIELDS 1 a"), "[4102444800000]");
    }
}

#[test]
fn all_but_expiring_fields_has_the_digest_that_its_server_gave() {
    for name in WHOLE {
        let mut db = load(&bytes_of(name), true).unwrap();
        db.with_database(0, |db| {
            for key in ["small", "large", "all", "long"] {
                assert!(db.remove(db.key(format!("expiring:{key}").as_bytes())));
            }
        });
        for index in [3, 19] {
            db.with_database(index, |db| assert!(db.remove(db.key(b"h"))));
        }
        assert_eq!(db.digest().text(), DIGEST_WITHOUT_EXPIRIES, "{name}");
    }
}

#[test]
fn how_keys_were_used_is_taken_over() {
    let server = Server::start("8.6-frequency", &["--maxmemory-policy", "allkeys-lfu"]);
    let frequency: u32 = server.connect().ask("OBJECT FREQ a").parse().unwrap();
    assert!((1..=6).contains(&frequency), "{frequency}");
    let server = Server::start("8.6-idle", &["--maxmemory-policy", "allkeys-lru"]);
    let idle_s: u32 = server.connect().ask("OBJECT IDLETIME h").parse().unwrap();
    assert!((2..=60).contains(&idle_s), "{idle_s}");
}

#[test]
fn a_node_of_a_cluster_leaves_a_file_with_its_slots() {
    let db = load(&bytes_of("8.6-cluster"), true).unwrap();
    assert_eq!(db.database(0).len(), 4);
    let hash = db.stored_collection::<Hash>(db.key(b"h")).unwrap();
    let (_, expiry_ms) = hash.get_with_expiry(b"f", NEVER_EXPIRES).unwrap();
    assert_eq!(expiry_ms, Some(4_102_444_800_000));
}

#[test]
fn what_is_expired_is_left_out_or_stays_as_it_would_in_a_file_of_ours() {
    for name in ["7.4-rc1-past", "8.6-past"] {
        let bytes = bytes_of(name);
        let kept = load(&bytes, true).unwrap();
        assert_eq!(kept.database(0).len(), 6);
        assert_eq!(fields_of(&kept, "some").len(), 3);
        assert_eq!(fields_of(&kept, "large").len(), 9);
        assert_eq!(fields_of(&kept, "all").len(), 2);
        let dropping = LoadOptions { drop_expired: true, ..options(true) };
        let left = load_at(&bytes, NOW_MS, dropping).unwrap();
        let keys: Vec<_> = left.database(0).iter().map(|entry| entry.key().to_vec()).collect();
        assert_eq!(keys.len(), 3, "{keys:?}");
        assert_eq!(fields_of(&left, "some"), [("c".to_owned(), None)]);
        let large = fields_of(&left, "large");
        assert_eq!(large.len(), 5);
        assert!(large.contains(&("f4".to_owned(), Some(4_102_444_800_000))), "{large:?}");
        left.check();
    }
}

#[test]
fn what_has_no_place_here_stops_the_load_and_is_named() {
    let told = refusal(&bytes_of("8.6-vector"));
    assert!(told.contains("key 'vectors' of type 7") && told.contains("'vectorset'"), "{told}");
}

#[test]
fn messages_that_were_added_once_are_remembered_until_their_time_has_passed() {
    // They were added at this time, to be remembered for 200 seconds.
    let (bytes, added_ms) = (bytes_of("8.6-added-once"), 1_795_346_915_078);
    for (later_ms, is_remembered) in [(199_000, true), (200_100, false)] {
        let db = load_at(&bytes, added_ms + later_ms, options(true)).unwrap();
        let entry = db.database(0).iter().next().unwrap();
        let stream = db.value_of(entry).collection::<Stream>().unwrap();
        assert_eq!(stream.message_limits().kept_s, 200);
        assert_eq!(stream.producers().unwrap().is_empty(), !is_remembered);
        db.check();
    }
}

/// A file of this version with what `write` puts into it.
fn file_of(version: u16, write: impl FnOnce(&mut Writer<Vec<u8>>)) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), false, true);
    writer.raw(format!("REDIS{version:04}").as_bytes()).unwrap();
    write(&mut writer);
    writer.byte(opcode::EOF).unwrap();
    writer.finish_file().unwrap()
}

fn lengths(writer: &mut Writer<Vec<u8>>, lengths: &[u64]) {
    lengths.iter().for_each(|&length| writer.length(length).unwrap());
}

/// A stream without entries, as Redis 8.8 writes it: one group with one entry pending, which belongs to `owner`.
fn stream_5(writer: &mut Writer<Vec<u8>>, owner: Option<&[u8]>) {
    let id = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1];
    writer.byte(kind::written(kind::REDIS_STREAM_LISTPACKS_5)).unwrap();
    writer.string(b"stream").unwrap();
    lengths(writer, &[0, 0, 1, 1, 0, 0, 1, 1, 1, 1]);
    writer.string(b"group").unwrap();
    lengths(writer, &[1, 1, 1, 1]);
    writer.raw(&id).unwrap();
    writer.time_ms(1000).unwrap();
    writer.length(2).unwrap();
    match owner {
        Some(name) => {
            writer.length(1).unwrap();
            writer.string(name).unwrap();
            writer.time_ms(1000).unwrap();
            writer.time_ms(1000).unwrap();
            writer.length(1).unwrap();
            writer.raw(&id).unwrap();
            writer.length(0).unwrap();
        }
        None => {
            lengths(writer, &[0, 1]);
            writer.raw(&id).unwrap();
        }
    }
    lengths(writer, &[100, 100, 0, 7, 1]);
}

#[test]
fn streams_of_8_8_are_read_unless_entries_belong_to_nobody() {
    let db = load(&file_of(14, |writer| stream_5(writer, Some(b"one"))), true).unwrap();
    assert_eq!(db.database(0).len(), 1);
    db.check();
    let told = refusal(&file_of(14, |writer| stream_5(writer, None)));
    assert!(told.contains("key 'stream' of type 27 (stream-v5)") && told.contains("XNACK"), "{told}");
}

#[test]
fn types_of_redis_only_are_told_apart_from_those_of_nobody() {
    let of_type = |version, written: u8| {
        file_of(version, |writer| {
            writer.byte(written).unwrap();
            writer.string(b"there").unwrap();
        })
    };
    let told = refusal(&of_type(14, kind::written(kind::REDIS_ARRAY)));
    assert!(told.contains("key 'there' of type 28 (array)"), "{told}");
    assert_eq!(refusal(&of_type(14, 150)), "Can't handle foreign type or opcode 150 in RDB with version 14");
    // Before Redis and Valkey parted there were none.
    assert_eq!(refusal(&of_type(11, 24)), "Can't handle foreign type or opcode 24 in RDB with version 11");
    // What comes after what is known is tried if asked for, and then not taken for something else.
    assert_eq!(refusal(&of_type(15, 0)), "Can't handle RDB format version 15");
    let relaxed = LoadOptions { strict: false, ..options(true) };
    let hash = file_of(15, |writer| {
        writer.byte(kind::written(kind::REDIS_HASH_METADATA)).unwrap();
        writer.string(b"h").unwrap();
        writer.time_ms(5000).unwrap();
        lengths(writer, &[1, 8]);
        writer.string(b"a").unwrap();
        writer.string(b"1").unwrap();
    });
    let db = load_at(&hash, NOW_MS, relaxed).unwrap();
    assert_eq!(fields_of(&db, "h"), [("a".to_owned(), Some(5007))]);
}

/// A key with the metadata of two classes, the second with these flags.
fn with_metadata(flags: u8) -> Vec<u8> {
    file_of(13, |writer| {
        writer.byte(opcode::KEY_METADATA).unwrap();
        writer.length(2).unwrap();
        // Four characters of 6 bits, a version of 5 and flags of 3: "AAAB" may be left out.
        writer.raw(&(1_u32 << 8 | 1).to_le_bytes()).unwrap();
        lengths(writer, &[1, 70_000, 5]);
        writer.string(b"anything").unwrap();
        lengths(writer, &[4]);
        writer.double(1.5).unwrap();
        lengths(writer, &[3]);
        writer.raw(&[0; 4]).unwrap();
        writer.length(0).unwrap();
        writer.raw(&(2_u32 << 8 | u32::from(flags)).to_le_bytes()).unwrap();
        lengths(writer, &[2, 1, 0]);
        writer.byte(kind::STRING).unwrap();
        writer.string(b"key").unwrap();
        writer.string(b"value").unwrap();
    })
}

/// What DUMP of the key of [`with_metadata`] answers.
fn payload_with_metadata(flags: u8) -> Vec<u8> {
    let file = with_metadata(flags);
    // Behind the signature stands what modules keep and the type; before the value a payload has no key.
    let end = file.len() - 9;
    let key = end - b"\x03key\x05value".len();
    let mut payload = [&file[9..key], &file[key + 4..end], &13_u16.to_le_bytes()].concat();
    payload.extend(wire::crc64::extend(0, &payload).to_le_bytes());
    payload
}

#[test]
fn metadata_in_payloads_is_left_out_only_if_it_may_be() {
    let server = Process::start(&[]);
    let mut client = server.connect();
    let mut restore = |flags| {
        client.send(&[b"RESTORE", b"key", b"0", &payload_with_metadata(flags), b"REPLACE"]);
        process::shown(&client.receive().unwrap())
    };
    assert_eq!(restore(1), "OK");
    let told = restore(0);
    assert!(
        told.starts_with("ERR Unsupported foreign data type: 243: ") && told.contains("'AAAC'"),
        "{told}"
    );
    assert_eq!(client.ask("GET key"), "value");
}

#[test]
fn metadata_of_modules_is_left_out_only_if_it_may_be() {
    assert_eq!(load(&with_metadata(1), true).unwrap().database(0).len(), 1);
    let told = refusal(&with_metadata(0));
    assert!(told.contains("key 'key' of type 0") && told.contains("'AAAC'"), "{told}");
    let told = refusal(&file_of(13, |writer| {
        writer.byte(opcode::MODULE_AUX).unwrap();
        writer.length(1 << 10).unwrap();
    }));
    assert!(told.contains("no matching module 'AAAAAAAAB'"), "{told}");
}

#[test]
fn lengths_and_times_that_cannot_be_are_errors() {
    let hash = |kind: u8, write: &dyn Fn(&mut Writer<Vec<u8>>)| {
        let file = file_of(14, |writer| {
            writer.byte(kind::written(kind)).unwrap();
            writer.string(b"h").unwrap();
            write(writer);
        });
        matches!(load(&file, true), Err(LoadError { reason: Reason::Read(_), .. }))
    };
    let field = |writer: &mut Writer<Vec<u8>>, name: &[u8]| {
        writer.string(name).unwrap();
        writer.string(b"v").unwrap();
    };
    let table = kind::REDIS_HASH_METADATA;
    assert!(hash(table, &|writer| {
        writer.time_ms(5).unwrap();
        writer.length(1 << 60).unwrap();
    }));
    assert!(hash(table, &|writer| {
        writer.time_ms(-1).unwrap();
        writer.length(0).unwrap();
    }));
    for later_ms in [1 << 48, u64::MAX] {
        assert!(hash(table, &|writer| {
            writer.time_ms(5).unwrap();
            lengths(writer, &[1, later_ms]);
            field(writer, b"a");
        }));
    }
    assert!(hash(kind::REDIS_HASH_METADATA_PRE_GA, &|writer| {
        lengths(writer, &[2, 0]);
        field(writer, b"a");
        writer.length(0).unwrap();
        field(writer, b"a");
    }));
    // The field `a` with the value 1; then nothing, a text, and -1 where the expiry is to be, and one that is.
    for (rest, is_refused) in
        [(&b""[..], true), (b"\x81x\x02", true), (b"\xdf\xff\x02", true), (b"\x05\x01", false)]
    {
        let elements = if rest.is_empty() { 2 } else { 3 };
        let len = 12 + rest.len() as u8;
        let list = [&[len, 0, 0, 0, elements, 0][..], b"\x81a\x02\x01\x01", rest, b"\xff"].concat();
        let refused = hash(kind::REDIS_HASH_LISTPACK_PRE_GA, &|writer| writer.string(&list).unwrap());
        assert_eq!(refused, is_refused, "{rest:?}");
    }
}

#[test]
fn a_file_cut_anywhere_or_with_a_wrong_bit_is_an_error_or_sound() {
    let (mut sound, mut refused) = (0, 0);
    for name in WHOLE.iter().chain(&OTHERS) {
        let whole = bytes_of(name);
        for len in 0..whole.len() {
            assert!(load(&whole[..len], true).is_err(), "{name} cut to {len}");
        }
        let mut random = structures::random::Random::new(7);
        for _ in 0..300 * scale() {
            let bit = random.below(8 * whole.len() as u64) as usize;
            let mut broken = whole.clone();
            broken[bit / 8] ^= 1 << (bit % 8);
            assert!(load(&broken, true).is_err(), "{name}: the checksum sees bit {bit}");
            let Ok(db) = load(&broken, false) else {
                refused += 1;
                continue;
            };
            sound += 1;
            db.check();
            let again = load(&snapshot_of(&db), true).expect("what was saved can be loaded");
            again.check();
            assert_eq!(again.digest().text(), db.digest().text(), "{name}: bit {bit}");
        }
    }
    assert!(sound > 0 && refused > 0);
}

/// Runs this build's program under the checker's name.
fn check(path: &Path) -> Output {
    static CHECKS: AtomicUsize = AtomicUsize::new(0);
    let number = CHECKS.fetch_add(1, Ordering::Relaxed);
    let checker = std::env::temp_dir().join(format!("warmline-check-rdb-{}-{number}", std::process::id()));
    let named = checker.join("warmline-check-rdb");
    fs::create_dir_all(&checker).unwrap();
    std::os::unix::fs::symlink(process::program(), &named).unwrap();
    let output = Command::new(named).arg(path).output();
    fs::remove_dir_all(&checker).unwrap();
    output.unwrap()
}

#[test]
fn the_checker_reads_them_too() {
    let output = check(&path_of("8.6"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    assert!(text.contains("Foreign RDB version 13 detected") && text.contains("RDB looks OK"), "{text}");
    assert!(text.contains("[info] 32 keys read") && text.contains("[info] 1 functions"), "{text}");
    let output = check(&path_of("8.6-vector"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!output.status.success() && text.contains("no matching module type 'vectorset'"), "{text}");
    assert!(text.contains("Reading key 'vectors'") && text.contains("Reading type 7"), "{text}");
}

/// Opcode 243 is Valkey's in Valkey's files.
#[test]
fn the_checker_shows_slots_that_are_being_imported() {
    let import =
        SlotImport { name: NodeId::parse(&[b'0'; 40]).unwrap(), slots: [1, 2, 3, 9].into_iter().collect() };
    let snapshot = Snapshot { release: "9.1.0", slot_imports: vec![import], ..Snapshot::default() };
    let db = Db::new(1, HashSeed::new(1, 2), 3);
    let file = write_snapshot(Vec::new(), &db, &snapshot, &mut |_| ()).unwrap();
    let path = std::env::temp_dir().join(format!("warmline-slot-imports-{}.rdb", std::process::id()));
    fs::write(&path, file).unwrap();
    let output = check(&path);
    fs::remove_file(&path).unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    let line = format!("Slot import {} of slots 1-3 9", "0".repeat(40));
    assert!(text.contains(&line) && text.contains("RDB looks OK"), "{text}");
}

/// What others who keep a copy get of a payload of Redis is one of ours.
#[test]
fn restored_payloads_go_on_in_our_own_format() {
    let server = Server::start("8.6-idle", &["--appendonly", "no", "--rdbcompression", "no"]);
    let mut client = server.connect();
    client.ask("CONFIG SET appendonly yes");
    eventually("the rewrite", || client.ask("INFO persistence").contains("aof_rewrite_in_progress:0"));
    let mut replica = Peer::connect(server.process.port);
    replica.send(b"PSYNC ? -1\r\n");
    eventually("a replica", || client.ask("INFO replication").contains("state=online"));
    client.send(&[b"RESTORE", b"restored", b"60000", PAYLOAD_8_6]);
    assert_eq!(process::shown(&client.receive().unwrap()), "OK");
    client.send(&[b"FUNCTION", b"RESTORE", LIBRARIES_8_6]);
    assert_eq!(process::shown(&client.receive().unwrap()), "OK");
    assert_eq!(client.ask("FCALL f 0 said"), "said");
    client.send(&[b"DUMP", b"restored"]);
    let ours = client.receive().unwrap().as_bytes().unwrap().to_vec();
    let at_ms = client.ask("PEXPIRETIME restored");
    let digest = client.ask("DEBUG DIGEST");
    let log = fs::read(server.directory.join("appendonlydir/appendonly.aof.1.incr.aof"))
        .or_else(|_| fs::read(server.directory.join("appendonlydir/appendonly.aof.2.incr.aof")))
        .unwrap();
    let holds = |part: &[u8]| log.windows(part.len()).any(|window| window == part);
    assert!(holds(&ours) && holds(at_ms.as_bytes()) && holds(b"ABSTTL"));
    assert!(!holds(PAYLOAD_8_6) && !holds(LIBRARIES_8_6));
    client.ask("PUBLISH end 1");
    let stream = replica.up_to(b"PUBLISH\r\n$3\r\nend");
    let holds = |part: &[u8]| stream.windows(part.len()).any(|window| window == part);
    assert!(holds(&ours) && !holds(PAYLOAD_8_6) && !holds(LIBRARIES_8_6));
    client.ask("DEBUG LOADAOF");
    assert_eq!(client.ask("DEBUG DIGEST"), digest);
    assert_eq!(client.ask("FCALL f 0 said"), "said");
}

/// DUMP of `expiring:small`, and FUNCTION DUMP, of Redis 8.6.
const PAYLOAD_8_6: &[u8] = b"\x19\x05\xd8\xc3,\xbb\x03\x00\x00\xc34?\x1f?\x00\x00\x00\x0c\x00\x81c\x02\x03\x01\xf4\x00\xd8\xc3,\xbb\x03\x00\x00\t\x81d\x02\x84text\x05\xf4\x05\xe0\x00\x12\x03a\x02\x01\x01\xe0\x02\x0e\x06b\x02\x02\x01\x00\x01\xff\r\x00,\xd8\xdb\"\x1e-\x9eH";
const LIBRARIES_8_6: &[u8] = b"\xf5@R#!lua name=lib\nredis.register_function('f',function(keys,args) return args[1] end)\r\x00\x12V\xd2^\xc3\x17F\xea";
