//! Forks that fail: what clients are answered, and that nothing else is refused because of it.

use crate::history::ask;
use crate::world::{Disk, Weather};
use crate::{connect, server_of};
use server::config::{AppendFsync, Config, SavePoint};
use server::engine::{Executor, confirmation};
use server::server::Shutdown;
use server::session::ClientHandle;
use server::sys::world::World;
use std::sync::Arc;

const OK: &str = "+OK\r\n";
const NO_LOG: &str = "-ERR CONFIG SET failed (possibly related to argument 'appendonly') - Unable to turn on AOF. Check server logs.\r\n";
const NO_REWRITE: &str =
    "-ERR Can't execute an AOF background rewriting. Please check the server logs for more information.\r\n";
const NO_WRITES: &str = "-MISCONF Valkey is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may modify the data set are disabled, because this instance is configured to report errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the Valkey logs for details about the RDB error.\r\n";

/// A server on a simulated disk, and one client.
pub struct Bench {
    disk: Arc<Disk>,
    executor: Box<Executor>,
    client: ClientHandle,
    now_us: u64,
}

impl Bench {
    fn new(appendonly: bool, saves: bool) -> Bench {
        let config = Config {
            appendonly,
            appendfsync: AppendFsync::Always,
            save: saves.then_some(SavePoint { seconds: 3600, changes: 1 }).into_iter().collect(),
            ..Config::default()
        };
        Bench::on(Arc::new(Disk::new(1)), config)
    }

    pub fn on(disk: Arc<Disk>, config: Config) -> Bench {
        let mut executor = Box::new(server_of(config, 0));
        executor.move_to(World::of(disk.clone()));
        disk.set_time(0);
        executor.begin_loading().unwrap();
        while executor.is_loading() {
            executor.begin_tick();
            executor.load_step().unwrap();
            executor.end_tick();
        }
        let client = connect(&mut executor);
        Bench { disk, executor, client, now_us: 0 }
    }

    pub fn ask(&mut self, command: &str) -> String {
        self.ask_at_once(&[command])
    }

    /// The replies to commands of one tick, in one: all of them are done before any is answered. Under `appendfsync always`
    /// they are on disk then.
    pub fn ask_at_once(&mut self, commands: &[&str]) -> String {
        self.executor.begin_tick();
        let mut answers = Vec::new();
        for command in commands {
            let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
            answers.extend(ask(&mut self.executor, self.client, &words));
        }
        self.executor.end_tick();
        while confirmation::is_pending(&self.executor) {
            self.executor.begin_tick();
            self.executor.end_tick();
        }
        String::from_utf8(answers).unwrap()
    }

    /// Ends the server as SHUTDOWN does; whether it may.
    pub fn shut_down(mut self) -> bool {
        self.executor.begin_tick();
        self.executor.shut_down(Shutdown::default())
    }

    /// Children have ended by then, and what was due has been tried.
    pub fn wait(&mut self) {
        for _ in 0..100 {
            self.now_us += 100_000;
            self.executor.clock.advance_ms(100);
            self.disk.set_time(self.now_us);
            self.executor.begin_tick();
            self.executor.run_timers();
            self.executor.end_tick();
        }
    }

    fn let_forks_fail(&self, fail: bool) {
        self.disk.set_weather(Weather { fork: if fail { 1000 } else { 0 }, ..Weather::default() });
    }

    pub fn info(&mut self, line: &str) -> bool {
        self.ask("INFO persistence").lines().any(|known| known == line)
    }
}

#[test]
fn the_file_is_not_switched_on_when_its_first_rewrite_cannot_fork() {
    let mut bench = Bench::new(false, false);
    assert_eq!(bench.ask("SET before 1"), OK);
    bench.let_forks_fail(true);
    assert_eq!(bench.ask("CONFIG SET appendonly yes"), NO_LOG);
    assert_eq!(bench.ask("CONFIG GET appendonly"), "*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n");
    assert!(bench.info("aof_enabled:0") && bench.info("aof_last_bgrewrite_status:err"));
    assert!(bench.info("aof_rewrite_scheduled:0"));
    assert_eq!(bench.ask("SET meanwhile 1"), OK);
    let files: Vec<usize> = bench.disk.listing().into_iter().map(|(_, bytes)| bytes).collect();
    assert!(files.iter().all(|&bytes| bytes == 0), "nothing is left of it: {:?}", bench.disk.listing());

    bench.let_forks_fail(false);
    assert_eq!(bench.ask("CONFIG SET appendonly yes"), OK);
    assert_eq!(bench.ask("SET behind 1"), OK);
    bench.wait();
    assert!(bench.info("aof_enabled:1") && bench.info("aof_last_bgrewrite_status:ok"));
    let config = bench.executor.server.config.clone();
    let mut next = Bench::on(bench.disk.clone(), config);
    assert_eq!(next.ask("EXISTS before meanwhile behind"), ":3\r\n");
}

/// One of several options that cannot be had takes the others with it.
#[test]
fn no_option_is_set_when_the_file_cannot_be_switched_on() {
    let mut bench = Bench::new(false, false);
    bench.let_forks_fail(true);
    assert_eq!(bench.ask("CONFIG SET maxmemory 1000000 appendonly yes appendfsync no hz 20"), NO_LOG);
    for (option, value) in [("maxmemory", "0"), ("appendonly", "no"), ("appendfsync", "always"), ("hz", "10")]
    {
        let answer = bench.ask(&format!("CONFIG GET {option}"));
        assert!(answer.ends_with(&format!("\r\n{value}\r\n")), "{option}: {answer}");
    }
    bench.disk.set_weather(Weather { entry: 1000, ..Weather::default() });
    bench.executor.server.observed.persistence.log.last_rewrite_ok = true;
    assert_eq!(
        bench.ask("CONFIG SET maxmemory 1000000 appendonly yes"),
        NO_LOG,
        "nor where it can make no file"
    );
    assert!(bench.ask("CONFIG GET maxmemory").ends_with("\r\n0\r\n"));
    assert!(bench.info("aof_last_bgrewrite_status:err"));
    bench.let_forks_fail(false);
    assert_eq!(bench.ask("CONFIG SET maxmemory 1000000 appendonly yes hz 20"), OK);
    assert!(bench.ask("CONFIG GET maxmemory").ends_with("\r\n1000000\r\n"));
    assert!(bench.info("aof_enabled:1"));
}

#[test]
fn writes_go_on_when_a_rewrite_cannot_fork() {
    for saves in [false, true] {
        let mut bench = Bench::new(true, saves);
        bench.let_forks_fail(true);
        assert_eq!(bench.ask("BGREWRITEAOF"), NO_REWRITE);
        assert!(bench.info("aof_last_bgrewrite_status:err") && bench.info("rdb_last_bgsave_status:ok"));
        assert_eq!(bench.ask("SET key 1"), OK);
        assert_eq!(bench.ask("EVAL return(redis.call('incr','key')) 0"), ":2\r\n");
        assert_eq!(bench.ask("PING"), "+PONG\r\n");
        // Those that it begins by itself fail too.
        assert_eq!(bench.ask("CONFIG SET auto-aof-rewrite-min-size 1 auto-aof-rewrite-percentage 1"), OK);
        bench.wait();
        assert_eq!(bench.ask("INCR key"), ":3\r\n");

        bench.let_forks_fail(false);
        assert_eq!(bench.ask("BGREWRITEAOF"), "+Background append only file rewriting started\r\n");
        bench.wait();
        assert!(bench.info("aof_last_bgrewrite_status:ok"));
        let config = bench.executor.server.config.clone();
        assert_eq!(Bench::on(bench.disk.clone(), config).ask("GET key"), "$1\r\n3\r\n");
    }
}

#[test]
fn writes_stop_for_a_save_that_cannot_fork_where_saves_are_relied_on() {
    let mut bench = Bench::new(false, false);
    bench.let_forks_fail(true);
    assert_eq!(bench.ask("BGSAVE"), "-ERR\r\n");
    assert!(bench.info("rdb_last_bgsave_status:err"));
    assert_eq!(bench.ask("SET key 1"), OK, "nobody relies on saves");

    for appendonly in [false, true] {
        let mut bench = Bench::new(appendonly, true);
        bench.let_forks_fail(true);
        assert_eq!(bench.ask("BGSAVE"), "-ERR\r\n");
        assert_eq!(bench.ask("SET key 1"), NO_WRITES);
        assert_eq!(bench.ask("PING"), NO_WRITES);
        assert_eq!(bench.ask("GET key"), "$-1\r\n");
        assert_eq!(bench.ask("CONFIG SET stop-writes-on-bgsave-error no"), OK);
        assert_eq!(bench.ask("SET key 1"), OK);
        assert_eq!(bench.ask("CONFIG SET stop-writes-on-bgsave-error yes"), OK);
        assert_eq!(bench.ask("SET key 2"), NO_WRITES);
        bench.let_forks_fail(false);
        assert_eq!(bench.ask("BGSAVE"), "+Background saving started\r\n");
        assert_eq!(bench.ask("SET key 2"), NO_WRITES, "until it has ended well");
        bench.wait();
        assert_eq!(bench.ask("SET key 2"), OK);
    }
}
