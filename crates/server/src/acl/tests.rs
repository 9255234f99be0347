use super::*;
use crate::command::args::OwnedArgs;

fn registry() -> Registry {
    Registry::new(crate::commands::GROUPS)
}

struct World {
    registry: Registry,
    users: Users,
}

impl World {
    fn new() -> Self {
        let registry = registry();
        let users = Users::new(&registry, None, [0; 32]);
        World { registry, users }
    }

    fn set(&mut self, name: &str, rules: &str) -> Result<Changed, String> {
        let arguments: Vec<&[u8]> = rules.split(' ').map(str::as_bytes).collect();
        let how = Rules { registry: &self.registry, all_channels: false };
        self.users.set(name.as_bytes(), &arguments, how).map_err(|error| match error {
            ArgumentError::Rule { error, .. } => error.to_string(),
            other => format!("{other:?}"),
        })
    }

    fn described(&self, name: &str) -> String {
        let user = self.users.named(name.as_bytes()).and_then(|user| self.users.get(user)).unwrap();
        String::from_utf8(user.describe()).unwrap()
    }

    /// The reason with the index of the refused argument, or `ok`.
    fn verdict(&self, name: &str, db_index: usize, command: &str) -> String {
        let user = self.users.named(name.as_bytes()).unwrap();
        self.verdict_of(user, db_index, command)
    }

    fn verdict_of(&self, user: UserHandle, db_index: usize, command: &str) -> String {
        let args = OwnedArgs::new(command.split(' ').map(str::as_bytes));
        let id = self.registry.find(args.view()).unwrap();
        let row = self.registry.row(id);
        let call = Call { id, row, args: args.view(), db_index, database_count: 16 };
        match self.users.check(user, &call) {
            Ok(()) => "ok".to_owned(),
            Err(denied) => format!("{} {}", denied.reason.name(), denied.at),
        }
    }
}

#[test]
fn rules_are_printed_as_the_reference_prints_them() {
    let mut world = World::new();
    for (rules, printed) in [
        ("on nopass", "on nopass resetchannels -@all"),
        ("off", "off resetchannels -@all"),
        ("+@all -get +@read", "off resetchannels +@all -get +@read"),
        ("+config|get +config", "off resetchannels -@all +config"),
        ("+config -CONFIG|SET", "off resetchannels -@all +config -config|set"),
        ("+select|0 +SELECT|1", "off resetchannels -@all +select|0 +select|1"),
        ("+@read -@READ", "off resetchannels -@all -@read"),
        ("%R~a %w~a ~b %RW~c %W~d", "off ~a ~b ~c %W~d resetchannels -@all"),
        ("%R", "off %R~ resetchannels -@all"),
        ("allkeys &a &b &a", "off ~* resetchannels &a &b -@all"),
        ("&* db=3,1,3", "off &* db=1,3 -@all"),
        ("resetdbs", "off resetchannels resetdbs -@all"),
        (
            "(~a +get) (%R~b +set )",
            "off resetchannels -@all (~a resetchannels -@all +get) (%R~b resetchannels -@all +set)",
        ),
        (">a", "off #ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb resetchannels -@all"),
    ] {
        world.set("u", &format!("reset {rules}")).unwrap();
        assert_eq!(world.described("u"), printed, "{rules}");
        let again = world.described("u");
        world.set("v", &format!("reset {again}")).unwrap();
        assert_eq!(world.described("v"), printed, "{rules}, read back");
    }
}

#[test]
fn a_refused_rule_leaves_the_user_alone() {
    let mut world = World::new();
    world.set("u", "on ~a").unwrap();
    let before = world.described("u");
    for rules in ["~b +nosuch", "~b ~c +@nosuch", "off %X~a", "~* ~a", "(+get", "+get|", "+config|get|x"] {
        assert!(world.set("u", rules).is_err(), "{rules}");
        assert_eq!(world.described("u"), before, "{rules}");
    }
    assert!(world.set("new", "+nosuch").is_err());
    assert_eq!(world.users.named(b"new"), None, "refused rules create no user");
}

#[test]
fn the_reason_is_that_of_the_selector_that_got_furthest() {
    let mut world = World::new();
    world.set("u", "+get ~a (+set %W~b) (db=1 +publish &c)").unwrap();
    for (db_index, command, verdict) in [
        (0, "get a", "ok"),
        (0, "get b", "key 1"),
        (0, "set b x", "ok"),
        (0, "set b x get", "key 1"),
        (0, "set a x", "key 1"),
        (0, "del a", "command 0"),
        (1, "publish c x", "ok"),
        (0, "publish c x", "ok"),
        (1, "publish d x", "channel 1"),
        (0, "auth x", "ok"),
    ] {
        assert_eq!(world.verdict("u", db_index, command), verdict, "{command}");
    }
}

#[test]
fn databases_are_those_of_the_arguments_and_the_clients_own() {
    let mut world = World::new();
    world.set("u", "+@all ~* db=0,1").unwrap();
    for (db_index, command, verdict) in [
        (0, "get a", "ok"),
        (2, "get a", "database 0"),
        (2, "ping", "ok"),
        (2, "select 1", "ok"),
        (0, "select 2", "database 1"),
        (0, "select x", "ok"),
        (0, "move a 2", "database 2"),
        (2, "move a 1", "database 0"),
        (0, "swapdb 0 1", "ok"),
        (0, "swapdb 0 2", "database 2"),
        (0, "copy a b db 1 db 2", "database 6"),
        (0, "copy a b replace db 1", "ok"),
        (0, "flushall", "database 0"),
        (0, "flushdb", "ok"),
    ] {
        assert_eq!(world.verdict("u", db_index, command), verdict, "{command} in {db_index}");
    }
}

#[test]
fn a_user_who_is_gone_may_do_nothing_even_when_another_has_the_place() {
    let mut world = World::new();
    let first = world.set("u", "+@all ~* &*").unwrap().user;
    assert!(world.users.permits_all(first));
    assert_eq!(world.users.remove(b"u"), Some(first));
    let second = world.set("v", "+@all ~* &*").unwrap().user;
    assert_eq!(first.index, second.index, "the index is reused");
    assert!(!world.users.permits_all(first));
    assert_eq!(world.verdict_of(first, 0, "get a"), "command 0");
    assert_eq!(world.users.name(first), b"");
    assert_eq!(world.users.remove(b"default"), None);
}

/// Random rules, most of them valid.
fn random_rules(random: &mut structures::random::Random, registry: &Registry) -> Vec<String> {
    const PATTERNS: [&str; 9] = ["a", "a*", "*", "\"", "'x", "[a-", "\\", "", "a)"];
    const WHOLE: [&str; 23] = [
        "on",
        "off",
        "nopass",
        ">a",
        ">b",
        "<a",
        "resetpass",
        "clearselectors",
        "reset",
        "allkeys",
        "resetkeys",
        "allchannels",
        "resetchannels",
        "alldbs",
        "resetdbs",
        "db=3,1",
        "+@all",
        "-@all",
        "+@nosuch",
        "(+get ~a)",
        "(+get '~a)' +set)",
        "(allkeys -@all '%R~x' +@read)",
        "(~'\"' db=0 &\"'\" +select|1)",
    ];
    let rows: Vec<_> = registry.iter().map(|(_, row)| row).collect();
    let mut rules = Vec::new();
    for _ in 0..random.below(20) {
        let pattern = PATTERNS[random.below(PATTERNS.len() as u64) as usize];
        let name = rows[random.below(rows.len() as u64) as usize].name;
        let sign = if random.below(2) == 0 { '+' } else { '-' };
        rules.push(match random.below(8) {
            0 => format!("~{pattern}"),
            1 => format!("%{}~{pattern}", ["R", "W", "rw"][random.below(3) as usize]),
            2 => format!("&{pattern}"),
            3 => {
                let categories = crate::command::category::NAMES;
                format!("{sign}@{}", categories[random.below(categories.len() as u64) as usize])
            }
            4 => format!("+{name}|{pattern}"),
            5 | 6 => format!("{sign}{name}"),
            _ => WHOLE[random.below(WHOLE.len() as u64) as usize].to_owned(),
        });
    }
    rules
}

#[test]
fn what_is_printed_of_a_user_makes_the_same_user() {
    let seed = 20_260;
    let mut random = structures::random::Random::new(seed);
    let mut world = World::new();
    let (mut made, tries) = (0, 3000);
    for _ in 0..tries {
        let rules = random_rules(&mut random, &world.registry);
        let how = Rules { registry: &world.registry, all_channels: false };
        let mut set = |name: &[u8], rules: &[&[u8]]| world.users.set(name, rules, how).map(|done| done.user);
        let arguments: Vec<&[u8]> = rules.iter().map(|rule| rule.as_bytes()).collect();
        let Ok(user) = set(b"u", &[&[&b"reset"[..]], &arguments[..]].concat()) else { continue };
        made += 1;
        let user = world.users.get(user).unwrap();
        let (printed, line) = (user.describe(), user.config_line());
        let commands: Vec<_> = user.selectors().map(|selector| selector.commands).collect();
        let words: Vec<&[u8]> = printed.split(|&byte| byte == b' ').collect();
        let line = wire::request::split_args(&line).unwrap();
        let line: Vec<&[u8]> = line[1..].iter().map(Vec::as_slice).collect();
        for again in [words, line] {
            let mut set =
                |name: &[u8], rules: &[&[u8]]| world.users.set(name, rules, how).map(|done| done.user);
            let same = set(b"v", &[&[&b"reset"[..]], &again[..]].concat()).unwrap();
            let same = world.users.get(same).unwrap();
            assert_eq!(same.describe(), printed, "seed {seed}: {rules:?}");
            assert!(same.selectors().map(|selector| selector.commands).eq(commands.iter().copied()));
        }
        let file = world.users.to_file();
        let read = file::read(&file, "users.acl", how).unwrap();
        world.users.replace(read);
        assert_eq!(world.users.to_file(), file, "seed {seed}: {rules:?}");
    }
    assert!(made > tries / 10, "only {made} of {tries} users are made");
}

#[test]
fn refusals_that_are_alike_are_counted_together_for_a_minute() {
    let mut log = DenialLog::default();
    let refusal = |object: &'static str, now_unix_ms| Refusal {
        reason: Reason::Key,
        context: DenialContext::TopLevel,
        object: object.as_bytes(),
        user_name: b"u",
        client_info: b"its line",
        now_unix_ms,
    };
    let seen = |log: &DenialLog| -> Vec<(u64, u64, i64, i64)> {
        log.iter()
            .map(|entry| (entry.id, entry.count, entry.created_unix_ms, entry.updated_unix_ms))
            .collect()
    };
    log.record(&refusal("a", 1000), 3);
    log.record(&refusal("b", 1500), 3);
    log.record(&refusal("a", 61_000), 3);
    assert_eq!(seen(&log), [(0, 2, 1000, 61_000), (1, 1, 1500, 1500)], "the latest entry is first");
    assert_eq!(log.iter().next().unwrap().client_info, b"its line");
    log.record(&refusal("b", 61_501), 3);
    assert_eq!(seen(&log)[0], (2, 1, 61_501, 61_501), "a minute after the last refusal a new entry begins");
    log.record(&refusal("c", 61_502), 3);
    assert_eq!(seen(&log).iter().map(|entry| entry.0).collect::<Vec<_>>(), [3, 2, 0]);
    log.record(&refusal("d", 61_503), 0);
    assert_eq!(log.iter().len(), 0);
}
