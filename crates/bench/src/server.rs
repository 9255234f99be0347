//! Starts servers to be measured, and reads their resource use from the system.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::connection::{Conversation, LoadError, Setup};

/// Time in which a server must answer, even if it has much to load.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// A server in its own directory; both are removed at the end.
pub struct Server {
    child: Child,
    /// Process id of the server, which may have been started by a script.
    process_id: u32,
    directory: PathBuf,
    pub setup: Setup,
}

impl Server {
    /// Starts a command with `{port}` replaced, and waits until it answers. With a core the server is pinned to it.
    pub fn start(command: &str, port: u16, core: Option<usize>) -> Result<Self, String> {
        let failed = |error: String| format!("cannot start \"{command}\": {error}");
        let words = shlex::split(&command.replace("{port}", &port.to_string()))
            .filter(|words| !words.is_empty())
            .ok_or_else(|| failed("its quotes do not match".to_string()))?;
        if !command.contains("{port}") {
            return Err(failed("it does not say where the port goes: {port}".to_string()));
        }
        let directory =
            std::env::temp_dir().join(format!("warmline-benchmark-{}-{port}", std::process::id()));
        fs::create_dir_all(&directory).map_err(|error| failed(error.to_string()))?;
        let log = File::create(directory.join("log")).map_err(|error| failed(error.to_string()))?;
        let log_again = log.try_clone().map_err(|error| failed(error.to_string()))?;
        let program = fs::canonicalize(&words[0]).unwrap_or_else(|_| PathBuf::from(&words[0]));
        let _whole_machine = core.map(Pinned::to);
        let child = Command::new(program)
            .args(&words[1..])
            .current_dir(&directory)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(log_again)
            .spawn();
        let child = match child {
            Ok(child) => child,
            Err(error) => {
                let _remains = fs::remove_dir_all(&directory);
                return Err(failed(error.to_string()));
            }
        };
        let setup = Setup::of_port(port);
        let mut server = Self { process_id: child.id(), child, directory, setup };
        server.wait().map_err(failed)?;
        Ok(server)
    }

    fn wait(&mut self) -> Result<(), String> {
        let mut conversation = loop {
            match Conversation::with_patience(&self.setup, Duration::from_secs(1)) {
                Ok(conversation) => break conversation,
                Err(error) => {
                    let ended = self.child.try_wait().map_err(|error| error.to_string())?;
                    if ended.is_some() || self.uptime() > START_PATIENCE {
                        return Err(format!("{error}; it said:\n{}", self.last_words()));
                    }
                }
            }
        };
        let process_id = conversation.info("server", "process_id").ok().flatten();
        self.process_id = process_id.and_then(|id| id.parse().ok()).unwrap_or(self.process_id);
        // Another server may have used the port before.
        match fs::read_to_string(format!("/proc/{}/comm", self.process_id)) {
            Ok(_) => Ok(()),
            Err(_) => Err("it cannot be found in /proc".to_string()),
        }
    }

    fn uptime(&self) -> Duration {
        fs::metadata(self.directory.join("log"))
            .and_then(|log| log.created())
            .ok()
            .and_then(|created| created.elapsed().ok())
            .unwrap_or(START_PATIENCE)
    }

    fn last_words(&self) -> String {
        let log = fs::read_to_string(self.directory.join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("\n")
    }

    pub fn conversation(&self) -> Result<Conversation, LoadError> {
        Conversation::new(&self.setup)
    }

    /// Returns the processor time of all threads, in nanoseconds if the system has them, otherwise in ticks.
    pub fn processor_time(&self) -> Duration {
        processor_time(self.process_id)
    }

    /// Returns the time used since. Threads that have ended are not included.
    pub fn processor_time_since(&self, before: Duration) -> Duration {
        self.processor_time().saturating_sub(before)
    }

    /// Returns the resident memory.
    pub fn resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process_id)).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kilobytes.unwrap_or(0) * 1024
    }

    /// Returns the memory allocated for data.
    pub fn used_memory(&self) -> Result<u64, String> {
        let field = self
            .conversation()
            .and_then(|mut conversation| conversation.info("memory", "used_memory"))
            .map_err(|error| error.to_string())?;
        field.and_then(|bytes| bytes.parse().ok()).ok_or_else(|| "INFO has no used_memory".to_string())
    }

    /// Returns name and version, from INFO.
    pub fn version(&self) -> Result<String, LoadError> {
        let mut conversation = self.conversation()?;
        for (field, name) in
            [("warmline_version", "Warmline"), ("valkey_version", "Valkey"), ("redis_version", "Redis")]
        {
            if let Some(version) = conversation.info("server", field)? {
                return Ok(format!("{name} {version}"));
            }
        }
        Ok("unknown server".to_string())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _gone_already = self.child.kill();
        let _gone_already = self.child.wait();
        let _remains = fs::remove_dir_all(&self.directory);
    }
}

/// Returns the processor time of all threads of a process.
pub fn processor_time(process_id: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{process_id}/task")).into_iter().flatten().flatten();
    let run_ns = |thread: fs::DirEntry| -> Option<u64> {
        fs::read_to_string(thread.path().join("schedstat")).ok()?.split_whitespace().next()?.parse().ok()
    };
    let ns: u64 = threads.filter_map(run_ns).sum();
    if ns > 0 { Duration::from_nanos(ns) } else { processor_ticks(process_id) }
}

fn processor_ticks(process_id: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{process_id}/stat")).unwrap_or_default();
    // The name in brackets may contain any characters.
    let fields: Vec<&str> =
        stat.rsplit_once(')').map(|(_, fields)| fields.split_whitespace().collect()).unwrap_or_default();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    let per_second = rustix::param::clock_ticks_per_second() as f64;
    Duration::from_secs_f64((ticks(11) + ticks(12)) as f64 / per_second)
}

/// Pins the calling thread to a core, which new threads and processes inherit, until this is dropped.
pub struct Pinned {
    before: Option<CpuSet>,
}

impl Pinned {
    pub fn to(core: usize) -> Self {
        let before = rustix::thread::sched_getaffinity(None).ok();
        let mut cores = CpuSet::new();
        cores.set(core);
        // A machine without this core measures without pinning.
        let is_pinned = sched_setaffinity(None, &cores).is_ok();
        Self { before: before.filter(|_| is_pinned) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _unpinned = sched_setaffinity(None, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_works_uses_processor_time() {
        let before = processor_time(std::process::id());
        let mut sum = 0u64;
        while processor_time(std::process::id()) < before + Duration::from_millis(20) {
            sum = (0..1_000_000).fold(sum, |sum, number| std::hint::black_box(sum ^ number));
        }
        assert!(processor_ticks(std::process::id()) > Duration::ZERO);
    }

    #[test]
    fn commands_that_cannot_be_started() {
        for (command, why) in [
            ("nothing-of-this-name --port {port}", "No such file"),
            ("true", "where the port goes"),
            ("'true {port}", "quotes"),
            ("false {port}", "Could not connect"),
        ] {
            let refusal = Server::start(command, 1, None).err().unwrap_or_default();
            assert!(refusal.contains(why), "{refusal}");
        }
    }
}
