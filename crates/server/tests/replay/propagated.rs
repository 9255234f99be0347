//! Commands that were once propagated wrongly, one story each, and what scripts and connections decide of it.

use super::START_UNIX_MS;
use super::contents::{Contents, Detail};
use super::life::Life;
use super::world::Weather;
use server::command::registry::Registry;
use server::command::{Args, Command, Context, Group, KeySpec, Outcome, access, flag};
use server::config::{AppendFsync, Config, EventClasses};

fn config() -> Config {
    let mut config =
        Config { appendonly: true, appendfsync: AppendFsync::No, save: Vec::new(), ..Config::default() };
    config.enable_debug_command = server::config::ProtectedAction::Yes;
    config
}

/// Sends each line's words; `+` and a number advances the clock by that number of milliseconds.
fn play(life: &mut Life, story: &str) -> Vec<u8> {
    let mut answer = Vec::new();
    for line in story.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.strip_prefix('+') {
            Some(ms) => life.turn(ms.parse().unwrap()),
            None => {
                answer = life.send(0, &line.split(' ').map(|word| word.as_bytes().to_vec()).collect());
            }
        }
    }
    answer
}

fn begin(config: &Config) -> Life {
    let mut life = Life::begin(config, Weather::default(), START_UNIX_MS, 1);
    play(&mut life, "DEBUG SET-ACTIVE-EXPIRE 0");
    life
}

/// Whether the story gives the same when it is read from the file much later.
fn is_propagated(story: &str) -> Result<(), String> {
    let config = config();
    let mut life = begin(&config);
    play(&mut life, story);
    let replayed = life.replayed(&config, 1_000_000_000);
    let here = Contents::of(&life.executor, Detail::WithoutTimes);
    let there = Contents::of(&replayed.executor, Detail::WithoutTimes);
    here.difference(&there).map_or(Ok(()), |(_, difference)| Err(format!("{story}\n{difference}")))
}

const STORIES: &[&str] = &[
    // Entries that groups still have to do with.
    "XADD s 1 f v\n XADD s 2 f v\n XADD s 3 f v\n XADD s 4 f v\n XGROUP CREATE s g 0\n XGROUP CREATE s h 0\n \
     XREADGROUP GROUP g c COUNT 3 STREAMS s >\n XREADGROUP GROUP h d COUNT 2 STREAMS s >\n XDELEX s DELREF IDS 1 1-0\n \
     XACKDEL s g ACKED IDS 2 2-0 3-0\n XACK s h 2-0\n XTRIM s MAXLEN 1 ACKED",
    "XADD s 1 f v\n XADD s 2 f v\n XADD s 3 f v\n XGROUP CREATE s g 0\n XREADGROUP GROUP g c COUNT 3 STREAMS s >\n \
     XACK s g 1 3\n XADD s ACKED MAXLEN 1 4 f v\n XADD s DELREF MAXLEN 2 5 f v\n XADD s DELREF MAXLEN 0 6 f v",
    "XADD s 1 f v\n XGROUP CREATE s g 0\n XREADGROUP GROUP g c COUNT 3 STREAMS s >\n XDEL s 1\n \
     XDELEX s DELREF IDS 1 1",
    // Messages that are added once, after an id so late that none of them is forgotten.
    "XADD s 9999999999999-1 f v\n XADD s IDMP p m * f v\n XADD s IDMP p m * f w\n XADD s IDMP q m * f v\n \
     XADD s IDMPAUTO p * f v g w\n XADD s IDMPAUTO p * g w f v\n XADD s MAXLEN 2 IDMP p n * f v\n XDEL s 9999999999999-5\n \
     COPY s copy\n XADD copy IDMP p n * f v\n XIDMPRECORD s p later 9999999999999-4",
    "XADD s 9999999999999-1 f v\n XADD s IDMP p m * f v\n XCFGSET s IDMP-MAXSIZE 2\n XADD s IDMP p m * f v\n \
     XADD s IDMP p n * f v\n XADD s IDMP p o * f v\n XCFGSET s IDMP-DURATION 77 IDMP-MAXSIZE 2\n XADD s IDMP p o * f v\n \
     MULTI\n XADD s IDMP p q * f v\n XADD s IDMP p q * f v\n XADD s IDMP p o * f v\n EXEC",
    // On conditions, and combined as not every replica can.
    "SET k a\n SET k b IFNE a\n SET k c IFNE a EX 5\n SET k d IFEQ c KEEPTTL\n SET j a\n DELEX j IFNE b\n DELEX j",
    "SET k hello\n SET j hello\n SET k 1 IFDNE 9555e8555c62dcfd\n DELEX j IFDEQ 9555e8555c62dcfd\n SET j 1 IFDNE x",
    "SET a abc EX 9\n SET b xy\n BITOP DIFF a a b\n BITOP ONE c a b a\n BITOP ANDOR b x y\n BITOP DIFF1 d b c",
    // Fields that are expired and have not been looked for.
    "HSET h f 1 g 1\n HPEXPIRE h 10 FIELDS 1 f\n +50\n HINCRBY h f 5",
    "HSET h f 1 g 1\n HPEXPIRE h 10 FIELDS 1 f\n +50\n HSETNX h f 5",
    "HSET h f 1 g 1\n HPEXPIRE h 10 FIELDS 1 f\n +50\n HSETEX h FNX FIELDS 1 f 5",
    "HSET h f 1 g 1\n HPEXPIRE h 10 FIELDS 1 f\n +50\n HSETEX h KEEPTTL FIELDS 2 f 5 g 6",
    "HSET h f 1 g 1\n HPEXPIRE h 10 FIELDS 1 f\n +50\n HPERSIST h FIELDS 2 f g\n HPEXPIRE h 9000 FIELDS 2 f g",
    "HSET h f 1 g 1\n HPEXPIRE h 10 FIELDS 1 f\n +50\n HGETEX h PX 9000 FIELDS 2 f g",
    "HSET h f 1 g 1\n HPEXPIRE h 10 FIELDS 1 f\n +50\n HDEL h f g\n LPUSH h x",
    "HSET h f 1 g 1\n HPEXPIRE h 10 FIELDS 1 f\n +50\n HGETDEL h FIELDS 2 f g\n LPUSH h x",
    "HSET h f 1\n PEXPIRE h 90000\n HPEXPIRE h 10 FIELDS 1 f\n +50\n HSETNX h f 5",
    "HSET h f 1\n HPEXPIRE h 10 FIELDS 1 f\n +50\n HSETEX h XX FIELDS 1 f 5",
    "HSET h f 1 g 2\n PEXPIRE h 90000\n HPEXPIRE h 10 FIELDS 2 f g\n +50\n HSET h f 3 g 4",
    "HSET h f 1 g 2\n PEXPIRE h 90000\n HPEXPIRE h 10 FIELDS 2 f g\n +50\n HMSET h f 3 e 5 g 4",
    "HSET h f 1 g 2\n PEXPIRE h 90000\n HPEXPIRE h 10 FIELDS 2 f g\n +50\n HSETEX h PX 9000 FIELDS 2 f 3 g 4",
    "HSET h f 1 g 2\n PEXPIRE h 90000\n HPEXPIRE h 10 FIELDS 2 f g\n +50\n HSETEX h KEEPTTL FIELDS 2 f 3 g 4",
    "HSET h f 1\n HPEXPIRE h 10 FIELDS 1 f\n +50\n HSETEX h NX FIELDS 1 f 5",
    "HSET h f 1 g 1\n HPEXPIRE h 9000 FIELDS 1 f\n HPERSIST h FIELDS 1 f\n HSETEX h KEEPTTL FIELDS 1 f 2",
    // Times that have passed.
    "HSET h f v\n HEXPIREAT h 1 FIELDS 1 f\n LPUSH h x",
    "HSET h f v\n HPEXPIRE h 0 FIELDS 1 f\n LPUSH h x",
    "HSET h f v\n HGETEX h EXAT 1 FIELDS 1 f\n LPUSH h x",
    "HSET h f v g v\n HSETEX h EXAT 1 FIELDS 2 f 1 g 2\n LPUSH h x",
    "HSET h f v g v\n HEXPIREAT h 1 NX FIELDS 2 f e\n HLEN h",
    "HSET h f v\n MULTI\n HEXPIREAT h 1 FIELDS 1 f\n LPUSH h x\n EXEC",
    "HSET h f v\n EVAL redis.call('HEXPIREAT','h','1','FIELDS','1','f')redis.call('LPUSH','h','x') 0",
    "SET a 1\n SET b 1\n MSETEX 2 a 2 b 2 PXAT 5\n LPUSH a x",
    // What is expired and may not be removed, until a write comes upon it.
    "SET a 1 PX 10\n CONFIG SET import-mode yes\n +50\n INCR a",
    "RPUSH a 1\n PEXPIRE a 10\n CONFIG SET import-mode yes\n +50\n RPUSH a 2\n SADD b x\n SMOVE b a x",
    "SET a 1 PX 10\n SET b 1\n CONFIG SET import-mode yes\n +50\n COPY a b\n RENAMENX b a\n SETNX a 5",
    "HSET a f 1 g 1\n HPEXPIRE a 10 FIELDS 1 f\n CONFIG SET import-mode yes\n +50\n HINCRBY a f 1\n HSETNX a f 7",
    "HSET a f 1 g 1\n CONFIG SET import-mode yes\n HSETEX a FXX PXAT 5 FIELDS 2 f 3 f 4\n HSETEX a PXAT 5 FIELDS 2 f 5 f 6",
    "CONFIG SET import-mode yes\n CLIENT IMPORT-SOURCE ON\n SET a 1 PX 10\n +50\n INCR a\n CLIENT IMPORT-SOURCE OFF\n \
     APPEND a 1",
    "SET a 1 PX 10\n +50\n MULTI\n CLIENT PAUSE 100 WRITE\n INCR a\n EXEC",
    // Databases.
    "SET a 1\n SWAPDB 0 1\n SET a 2",
    "MULTI\n SET a 1\n SWAPDB 0 1\n SELECT 1\n APPEND a 2\n EXEC",
    // Entries that are pending.
    "XADD s 1-1 f v\n XGROUP CREATE s g 0\n XREADGROUP GROUP g c STREAMS s >\n XDEL s 1-1\n \
     XREADGROUP GROUP g c STREAMS s 0",
    "XADD s 1-1 f v\n XGROUP CREATE s g 0\n XREADGROUP GROUP g c STREAMS s >\n XGROUP SETID s g 0\n \
     XREADGROUP GROUP g d NOACK STREAMS s >",
    // What is stored depends on how a set is kept, and on fields that are expired.
    "SADD s a b c d e f g\n HSET h f 1\n HPEXPIRE h 1 FIELDS 1 f\n +50\n \
     SORT s ALPHA BY nothing:*->x GET # GET h->f STORE l",
];

#[test]
fn stories_are_propagated() {
    let failures: Vec<String> = STORIES.iter().filter_map(|story| is_propagated(story).err()).collect();
    assert!(failures.is_empty(), "{} are not:\n{}", failures.len(), failures.join("\n\n"));
}

/// A base of commands holds entries that are pending and gone.
#[test]
fn pending_entries_outlive_a_rewrite() {
    let config = Config { aof_use_rdb_preamble: false, ..config() };
    let mut life = begin(&config);
    play(
        &mut life,
        "XADD s 1-1 f v\n XADD s 1-2 f v\n XGROUP CREATE s g 0\n XREADGROUP GROUP g c STREAMS s >\n XDEL s 1-1",
    );
    let reborn = life.reborn(&config, 2);
    let replayed = reborn.replayed(&config, 0);
    let here = Contents::of(&life.executor, Detail::WithoutTimes);
    let there = Contents::of(&replayed.executor, Detail::WithoutTimes);
    assert_eq!(here.difference(&there), None);
}

/// A script may keep its changes out of the append-only file, but not that what it came upon had expired.
#[test]
fn scripts_choose_what_is_propagated() {
    let config = config();
    let mut life = begin(&config);
    play(&mut life, "SET expired 1 PX 5\n SET kept 1\n +50");
    for (flags, key) in
        [("REPL_NONE", "none"), ("REPL_REPLICA", "replica"), ("REPL_AOF", "aof"), ("REPL_ALL", "all")]
    {
        let script = format!(
            "redis.set_repl(redis.{flags}) redis.call('GET', 'expired') \
             redis.call('SET', KEYS[1], 'x') redis.set_repl(redis.REPL_ALL) redis.call('APPEND', 'kept', '1')"
        );
        life.send(0, &["EVAL", &script, "1", key].map(|word| word.as_bytes().to_vec()).to_vec());
    }
    assert_eq!(life.propagated(b"expired", 1), "  \"UNLINK\" \"expired\"\n");
    let mut replayed = life.replayed(&config, 0);
    assert_eq!(play(&mut replayed, "EXISTS none replica expired"), b":0\r\n");
    assert_eq!(play(&mut replayed, "EXISTS aof all"), b":2\r\n");
    assert_eq!(play(&mut replayed, "GET kept"), b"$5\r\n11111\r\n");
}

/// A unit of more than one command stands between MULTI and EXEC, with the databases that its commands are about; each
/// increment selects its own database first.
#[test]
fn units_stand_whole_in_the_file() {
    let config = Config { aof_timestamp_enabled: true, ..config() };
    let mut life = begin(&config);
    play(
        &mut life,
        "SELECT 2\n SET a 1 EX 1\n SET b 1\n MULTI\n SET c 1\n SELECT 1\n SET d 1\n EXEC\n SET e 1",
    );
    play(&mut life, "MULTI\n GET c\n EXEC\n MULTI\n INCR e\n EXEC\n SELECT 2\n +2000\n INCR a\n GET b");
    let start_s = START_UNIX_MS / 1000;
    let (now_s, at_ms) = (start_s + 2, START_UNIX_MS + 1000);
    let file = format!(
        "#{start_s};SELECT 2;SET a 1 PXAT {at_ms};SET b 1;\
         MULTI;SET c 1;SELECT 1;SET d 1;EXEC;SET e 1;INCR e;\
         #{now_s};MULTI;SELECT 2;UNLINK a;INCR a;EXEC;"
    );
    assert_eq!(life.increments(), file);
    play(&mut life, "BGREWRITEAOF");
    (0..100).for_each(|_| life.turn(20));
    play(&mut life, "INCR b");
    // A new increment may begin with a note about the one before it.
    let increments = life.increments();
    assert_eq!(increments.trim_start_matches("#;"), format!("#{};SELECT 2;INCR b;", now_s + 2));
}

/// Stories, and how the reference tells the end of them.
const TOLD: &[(&str, &str)] = &[
    // Removals that a search has come upon have nothing to do with one another; others have.
    ("SET a 1 PX 5\n SET b 1 PX 5\n SET c 1\n +50\n SCAN 0 COUNT 100", ";SET c 1;UNLINK a;UNLINK b;"),
    ("SET a 1 PX 5\n SET b 1 PX 5\n SET c 1\n +50\n MGET a b", ";SET c 1;MULTI;UNLINK a;UNLINK b;EXEC;"),
    (
        "SET a 1 PX 5\n SET b 1 PX 5\n SET c 1\n +50\n MULTI\n SCAN 0 COUNT 100\n EXEC",
        ";SET c 1;MULTI;UNLINK a;UNLINK b;EXEC;",
    ),
    ("SELECT 1\n SET a 1 PX 5\n +50\n RANDOMKEY", ";UNLINK a;"),
    ("SELECT 3\n MULTI\n SET a 1\n FLUSHALL\n EXEC", "MULTI;SELECT 3;SET a 1;FLUSHALL;EXEC;"),
    // A time that is a point in time already stays as it was given.
    ("SET a 1 pxat 9999999999999", ";SET a 1 pxat 9999999999999;"),
    ("SET a 1 EXAT 9999999999", ";SET a 1 PXAT 9999999999000;"),
    ("SET a 1 EX 9\n SET a 2 keepttl", ";SET a 2 keepttl;"),
    ("RPUSH l a\n BLMOVE l m left right 0", ";LMOVE l m left right;"),
    // All of a set is gone with its key.
    ("SADD s a b\n SPOP s 2", ";SADD s a b;UNLINK s;"),
    ("SADD s a\n SPOP s", ";SADD s a;SREM s a;"),
    // Conditions were met.
    ("HSETEX h NX FNX PXAT 9999999999999 FIELDS 1 f XX", ";HSETEX h PXAT 9999999999999 FIELDS 1 f XX;"),
    ("HSETEX h nx fnx FIELDS 1 f v", ";HSETEX h FIELDS 1 f v;"),
    ("HSET h f 1\n HSETEX h FXX EXAT 9999999999 FIELDS 1 f v", ";HSETEX h PXAT 9999999999000 FIELDS 1 f v;"),
    (
        "SET a 1\n SET b 1\n EVAL redis.call('RESTORE','b','5',redis.call('DUMP','a'),'REPLACE','ABSTTL') 0",
        ";SET b 1;UNLINK b;",
    ),
    (
        "CONFIG SET lazyfree-lazy-server-del no\n SET a 1\n SET b 1\n \
         EVAL redis.call('RESTORE','b','5',redis.call('DUMP','a'),'REPLACE','ABSTTL') 0",
        ";SET b 1;DEL b;",
    ),
    // A command that assigns entries creates the consumer; otherwise the consumer is propagated by itself.
    (
        "XADD s 1-1 f v\n XGROUP CREATE s g 0\n XREADGROUP GROUP g c STREAMS s >",
        ";MULTI;XCLAIM s g c 0 1-1 TIME now RETRYCOUNT 1 JUSTID FORCE;\
         XGROUP SETID s g 1-1 ENTRIESREAD 1;EXEC;",
    ),
    (
        "XADD s 1-1 f v\n XGROUP CREATE s g $\n XREADGROUP GROUP g c STREAMS s >",
        ";XGROUP CREATE s g $;XGROUP CREATECONSUMER s g c;",
    ),
    (
        "XADD s 1-1 f v\n XGROUP CREATE s g 0\n XREADGROUP GROUP g c NOACK STREAMS s >",
        ";MULTI;XGROUP CREATECONSUMER s g c;XGROUP SETID s g 1-1 ENTRIESREAD 1;EXEC;",
    ),
    (
        "XADD s 1-1 f v\n XGROUP CREATE s g 0\n XREADGROUP GROUP g c STREAMS s >\n XAUTOCLAIM s g d 0 0",
        ";EXEC;XCLAIM s g d 0 1-1 TIME now RETRYCOUNT 2 JUSTID FORCE;",
    ),
    (
        "XADD s 1-1 f v\n XGROUP CREATE s g 0\n XREADGROUP GROUP g c STREAMS s >\n \
         XCLAIM s g c 0 1-1 RETRYCOUNT 9223372036854775807\n XAUTOCLAIM s g d 0 0",
        ";XCLAIM s g d 0 1-1 TIME now RETRYCOUNT -9223372036854775808 JUSTID FORCE;",
    ),
    (
        "XADD s 1-1 f v\n XGROUP CREATE s g 0\n XREADGROUP GROUP g c STREAMS s >\n \
         XREADGROUP GROUP g d CLAIM 0 STREAMS s >",
        ";EXEC;XCLAIM s g d 0 1-1 TIME now RETRYCOUNT 2 JUSTID FORCE;",
    ),
    (
        "XADD s 1-1 f v\n XADD s 2-1 f v\n XGROUP CREATE s g 0\n XREADGROUP GROUP g c COUNT 1 STREAMS s >\n \
         XREADGROUP GROUP g d CLAIM 0 STREAMS s >",
        ";MULTI;XCLAIM s g d 0 1-1 TIME now RETRYCOUNT 2 JUSTID FORCE;\
         XCLAIM s g d 0 2-1 TIME now RETRYCOUNT 1 JUSTID FORCE;XGROUP SETID s g 2-1 ENTRIESREAD 2;EXEC;",
    ),
];

#[test]
fn commands_are_told_as_the_reference_tells_them() {
    for (story, end) in TOLD {
        let mut life = begin(&config());
        play(&mut life, story);
        // In which order keys are found is not said.
        let told = life
            .increments()
            .replace(&START_UNIX_MS.to_string(), "now")
            .replace("LINK b;UNLINK a", "LINK a;UNLINK b");
        assert!(told.ends_with(end), "{story}\n{told}");
    }
}

/// Who waits for a key is not served with one that has expired, which stays until somebody asks for it.
#[test]
fn a_key_that_has_expired_before_it_comes_to_who_waits_for_it_stays_where_it_is() {
    let mut life = begin(&config());
    play(&mut life, "RPUSH k v\n PEXPIRE k 100");
    let words = |text: &str| text.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
    life.send(1, &words("SELECT 9"));
    life.send(1, &words("BRPOP k 0"));
    play(&mut life, "+101\n SWAPDB 0 9\n SET other 1");
    assert!(life.waits(1));
    assert!(life.increments().ends_with(";SWAPDB 0 9;SET other 1;"), "{}", life.increments());
    play(&mut life, "SELECT 9\n EXISTS k");
    assert!(life.increments().ends_with(";SELECT 9;UNLINK k;"), "{}", life.increments());
}

/// What is done while the file is off is in none of its units, whatever transaction it is part of.
#[test]
fn a_transaction_that_switches_the_file_on_is_told_from_there_on() {
    let config = config();
    let mut life = begin(&config);
    play(&mut life, "MULTI\n SET a 1\n CONFIG SET appendonly no\n SET b 1\n EXEC\n SET c 1");
    play(&mut life, "MULTI\n SET d 1\n CONFIG SET appendonly yes\n SET e 1\n INCR e\n EXEC\n INCR e");
    life.rewrite_log();
    let here = Contents::of(&life.executor, Detail::WithoutTimes);
    let there = Contents::of(&life.replayed(&config, 0).executor, Detail::WithoutTimes);
    assert_eq!(here.difference(&there), None);
}

#[test]
fn a_transaction_that_loads_its_file_anew_keeps_what_it_has_done() {
    let config = config();
    let mut life = begin(&config);
    play(&mut life, "SET a 1\n MULTI\n INCR a\n DEBUG LOADAOF\n INCR a\n EXEC");
    assert_eq!(play(&mut life, "GET a"), b"$1\r\n3\r\n");
    let mut replayed = life.replayed(&config, 0);
    assert_eq!(play(&mut replayed, "GET a"), b"$1\r\n3\r\n");
}

/// What is expired is not loaded from a snapshot; that it is gone has to be propagated.
#[test]
fn what_expires_while_a_snapshot_is_loaded_is_propagated() {
    let config = config();
    let mut life = begin(&config);
    play(&mut life, "SET a 1 PX 5\n +50\n DEBUG RELOAD\n LPUSH a x");
    let mut replayed = life.replayed(&config, 0);
    assert_eq!(play(&mut replayed, "LLEN a"), b":1\r\n");
}

/// What is answered at once or within two seconds.
fn answer_in_time(life: &mut Life, command: &str) -> Vec<u8> {
    let mut answer = play(life, command);
    for _ in 0..100 {
        if !answer.is_empty() {
            break;
        }
        life.turn(20);
        answer = life.received(0);
    }
    answer
}

#[test]
fn clients_wait_until_their_changes_are_on_disk() {
    const DONE: &[u8] = b"*2\r\n:1\r\n:0\r\n";
    const NOT_DONE: &[u8] = b"*2\r\n:0\r\n:0\r\n";
    for appendfsync in [AppendFsync::Always, AppendFsync::EverySecond, AppendFsync::No] {
        let config = Config { appendfsync, ..config() };
        let mut life = begin(&config);
        assert_eq!(play(&mut life, "WAITAOF 1 0 0"), DONE, "nothing has been changed");
        play(&mut life, "SET a 1");
        let syncs = appendfsync != AppendFsync::No;
        let wanted = if syncs { DONE } else { NOT_DONE };
        assert_eq!(answer_in_time(&mut life, "WAITAOF 1 0 1500"), wanted, "{appendfsync:?}");
        assert_eq!(play(&mut life, "WAITAOF 0 0 0"), wanted, "{appendfsync:?}");
        assert_eq!(answer_in_time(&mut life, "WAITAOF 0 1 30"), wanted, "there are no replicas");
        assert_eq!(play(&mut life, "MULTI\n SET a 2\n WAITAOF 1 0 0\n EXEC").last_chunk(), Some(b":0\r\n"));
    }
}

fn unrecorded(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    ctx.db.put_string(args.key(1), b"value", None);
    ctx.reply.ok();
    Ok(())
}

fn said(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    unrecorded(ctx, args)?;
    ctx.db.changed(EventClasses::STRING, "set", args.key(1));
    Ok(())
}

const CHANGED: &[KeySpec] = &[KeySpec::one(1, access::RW | access::UPDATE)];
const READ: &[KeySpec] = &[KeySpec::one(1, access::RO | access::ACCESS)];

/// Commands that are wrong on purpose: one does not say what it changes, one says in its row that it changes nothing, one
/// changes a key of which its row says that it is read, and one a key of which its row does not speak.
const WRONG: &[Command] = &[
    Command::new("unrecorded", 2, Group::String, unrecorded).flags(flag::WRITE).keys(CHANGED),
    Command::new("unpropagated", 2, Group::String, said).flags(flag::READONLY).keys(CHANGED),
    Command::new("read", 2, Group::String, said).flags(flag::WRITE).keys(READ),
    Command::new("unnamed", 2, Group::String, said).flags(flag::WRITE),
    Command::new("right", 2, Group::String, said).flags(flag::WRITE).keys(CHANGED),
];

fn record_wrongly(story: &str) {
    let mut life = Life::begin(&config(), Weather::default(), START_UNIX_MS, 1);
    life.executor.server.registry = Registry::new(&[WRONG]);
    play(&mut life, story);
}

#[test]
fn debug_builds_let_pass_what_is_recorded_and_propagated() {
    record_wrongly("RIGHT key");
}

#[cfg(debug_assertions)]
#[test]
#[should_panic(expected = "the value of 'key' in database 0 was changed, but the change is not recorded")]
fn debug_builds_stop_what_is_not_recorded() {
    record_wrongly("RIGHT other\n UNRECORDED key");
}

#[cfg(debug_assertions)]
#[test]
#[should_panic(expected = "the value of 'key' in database 0 was changed, and what is propagated is []")]
fn debug_builds_stop_what_is_not_propagated() {
    record_wrongly("RIGHT other\n UNPROPAGATED key");
}

#[cfg(debug_assertions)]
#[test]
#[should_panic(expected = "read changes 'key', and its row does not say so")]
fn debug_builds_stop_what_changes_a_key_that_it_is_to_read() {
    record_wrongly("RIGHT other\n READ key");
}

#[cfg(debug_assertions)]
#[test]
#[should_panic(expected = "unnamed changes 'key', and its row does not say so")]
fn debug_builds_stop_what_touches_a_key_that_its_row_does_not_find() {
    record_wrongly("RIGHT other\n UNNAMED key");
}
