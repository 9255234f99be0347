//! Settings of the machine and of this process's user that impair the server, each with what to do about it.

use crate::commands::info::human_bytes;
use crate::config::Config;
use std::path::Path;

const OVERCOMMIT: &str = "/proc/sys/vm/overcommit_memory";
const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
/// The control groups of this process; version 2 has one line, `0::/path`.
const CONTROL_GROUPS: &str = "/proc/self/cgroup";
const CONTROL_GROUP_ROOT: &str = "/sys/fs/cgroup";

/// What a warning depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Machine {
    /// The text of the file; `None`: the kernel has no such setting.
    overcommit: Option<String>,
    /// As `overcommit`.
    huge_pages: Option<String>,
    is_root: bool,
    memory_bytes: u64,
    swap_bytes: u64,
    /// The limit of this process's control group, below that of the machine.
    control_group_bytes: Option<u64>,
}

impl Machine {
    fn read() -> Self {
        let system = rustix::system::sysinfo();
        let bytes = |units: u64| units * u64::from(system.mem_unit);
        let text = |path: &str| std::fs::read_to_string(path).ok();
        Machine {
            overcommit: text(OVERCOMMIT),
            huge_pages: text(HUGE_PAGES),
            is_root: rustix::process::geteuid().is_root(),
            memory_bytes: bytes(system.totalram as u64),
            swap_bytes: bytes(system.totalswap as u64),
            control_group_bytes: text(CONTROL_GROUPS).as_deref().and_then(control_group_limit),
        }
    }
}

/// Returns warnings about this machine. `without_huge_pages`: the process has turned them off for itself.
pub fn warnings(config: &Config, without_huge_pages: bool) -> Vec<String> {
    warnings_of(&Machine::read(), config, without_huge_pages)
}

fn warnings_of(machine: &Machine, config: &Config, without_huge_pages: bool) -> Vec<String> {
    let overcommit = machine.overcommit.as_deref().filter(|setting| needs_overcommit(setting));
    let huge_pages = machine.huge_pages.as_deref().filter(|setting| setting.contains("[always]"));
    let texts = [
        overcommit.map(|_| OVERCOMMIT_WARNING.to_owned()),
        huge_pages.filter(|_| !without_huge_pages).map(|_| HUGE_PAGES_WARNING.to_owned()),
        machine.is_root.then(|| ROOT_WARNING.to_owned()),
        warning_about_memory(machine, config.maxmemory_bytes),
    ];
    texts.into_iter().flatten().collect()
}

const OVERCOMMIT_WARNING: &str = "Memory overcommit must be enabled! Without it, a background save or replication may \
    fail when memory is short. Write `vm.overcommit_memory = 1` into /etc/sysctl.conf, and run `sysctl \
    vm.overcommit_memory=1` for it to take effect.";

const HUGE_PAGES_WARNING: &str = "Transparent huge pages are always used: while a child saves, each change copies 2 MB, \
    which takes memory and time. Set `disable-thp yes`, or run `echo madvise > \
    /sys/kernel/mm/transparent_hugepage/enabled` as root, and restart the server.";

const ROOT_WARNING: &str = "The server runs as root: an attacker who breaks into it controls the machine. Run it as a user of \
    its own that owns the data directory (`User=` in a systemd unit, `--user` of a container).";

/// 0, the default, guesses; 2 counts and refuses earlier; 1 always grants.
fn needs_overcommit(setting: &str) -> bool {
    setting.trim() != "1"
}

/// Warns if the data may exceed the memory: it is swapped out, or the process is killed.
fn warning_about_memory(machine: &Machine, maxmemory_bytes: u64) -> Option<String> {
    let limit_bytes = machine.control_group_bytes.unwrap_or(machine.memory_bytes).min(machine.memory_bytes);
    let owner = if limit_bytes < machine.memory_bytes { "its control group" } else { "the machine" };
    let limit = human_bytes(limit_bytes);
    let consequence = match machine.swap_bytes {
        0 => "the system kills it",
        _ => "parts of the data are swapped out, and commands wait for the disk",
    };
    match maxmemory_bytes {
        0 if machine.swap_bytes == 0 => None,
        0 => Some(format!(
            "No maxmemory is set and the machine has swap space: when the server needs more than the {limit} of {owner}, {consequence}. Set maxmemory to less than that, or turn swap off (`swapoff -a`, `MemorySwapMax=0` in a systemd unit)."
        )),
        bytes if bytes > limit_bytes => Some(format!(
            "maxmemory is {}, {owner} has {limit}: when the server needs more than that, {consequence}. Set maxmemory to less; a save and replicas need memory too.",
            human_bytes(bytes)
        )),
        _ => None,
    }
}

/// Returns the memory limit of the control group that this text of `/proc/self/cgroup` names.
fn control_group_limit(groups: &str) -> Option<u64> {
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let limit = std::fs::read_to_string(Path::new(CONTROL_GROUP_ROOT).join(path).join("memory.max")).ok()?;
    // `max` is no limit.
    limit.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn warnings(machine: &Machine, maxmemory_bytes: u64, without_huge_pages: bool) -> Vec<String> {
        let config = Config { maxmemory_bytes, ..Config::default() };
        warnings_of(machine, &config, without_huge_pages)
    }

    #[test]
    fn only_what_gives_all_that_is_asked_for_will_do() {
        assert_eq!(["0\n", "1\n", "2\n"].map(needs_overcommit), [true, false, true]);
    }

    #[test]
    fn a_machine_in_order_is_not_warned_of() {
        let machine = Machine {
            overcommit: Some("1\n".to_owned()),
            huge_pages: Some("always [madvise] never\n".to_owned()),
            memory_bytes: 8 * GIB,
            ..Machine::default()
        };
        assert_eq!(warnings(&machine, 0, false), [""; 0]);
        assert_eq!(warnings(&machine, 8 * GIB, false), [""; 0]);
    }

    #[test]
    fn huge_pages_are_warned_of_where_the_process_has_them() {
        let huge_pages = Some("[always] madvise never\n".to_owned());
        let machine = Machine { huge_pages, memory_bytes: GIB, ..Machine::default() };
        assert_eq!(warnings(&machine, 0, true), [""; 0]);
        assert_eq!(warnings(&machine, 0, false), [HUGE_PAGES_WARNING]);
    }

    #[test]
    fn root_is_warned_of() {
        let machine = Machine { is_root: true, ..Machine::default() };
        assert_eq!(warnings(&machine, 0, true), [ROOT_WARNING]);
    }

    #[test]
    fn data_that_exceeds_the_memory_is_warned_of() {
        let machine = Machine { memory_bytes: 8 * GIB, ..Machine::default() };
        let swapping = Machine { swap_bytes: GIB, ..machine.clone() };
        let limited = Machine { control_group_bytes: Some(2 * GIB), ..machine.clone() };
        let only = |machine: &Machine, maxmemory_bytes| {
            let mut warnings = warnings(machine, maxmemory_bytes, true);
            assert_eq!(warnings.len(), 1, "{warnings:?}");
            warnings.remove(0)
        };
        let text = only(&swapping, 0);
        assert!(
            text.contains("more than the 8.00G of the machine, parts of the data are swapped out"),
            "{text}"
        );
        let text = only(&machine, 9 * GIB);
        assert!(text.contains("maxmemory is 9.00G, the machine has 8.00G"), "{text}");
        assert!(text.contains("the system kills it"), "{text}");
        let text = only(&limited, 3 * GIB);
        assert!(text.contains("its control group has 2.00G"), "{text}");
        assert_eq!(warnings(&swapping, GIB, true), [""; 0]);
        assert_eq!(warnings(&limited, 0, true), [""; 0]);
    }

    #[test]
    fn only_the_second_version_of_control_groups_is_read() {
        assert_eq!(control_group_limit("4:memory:/x\n"), None);
        assert_eq!(control_group_limit("0::/no/such/group\n"), None);
    }
}
