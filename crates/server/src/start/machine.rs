//! Machine settings that impair the server.

const OVERCOMMIT: &str = "/proc/sys/vm/overcommit_memory";

/// Warns about strict overcommit: the child that writes a snapshot cannot be forked once the data takes half of the
/// memory.
pub fn warning_about_overcommit() -> Option<String> {
    let setting = std::fs::read_to_string(OVERCOMMIT).ok()?;
    needs_overcommit(&setting).then(|| {
        "Memory overcommit must be enabled! Without it, a background save or replication may fail when memory is \
         short. Write `vm.overcommit_memory = 1` into /etc/sysctl.conf, and run `sysctl vm.overcommit_memory=1` for it \
         to take effect."
            .to_owned()
    })
}

/// 0, the default, guesses; 2 counts and refuses earlier; 1 always grants.
fn needs_overcommit(setting: &str) -> bool {
    setting.trim() != "1"
}

#[cfg(test)]
mod tests {
    use super::needs_overcommit;

    #[test]
    fn only_what_gives_all_that_is_asked_for_will_do() {
        assert_eq!(["0\n", "1\n", "2\n"].map(needs_overcommit), [true, false, true]);
    }
}
