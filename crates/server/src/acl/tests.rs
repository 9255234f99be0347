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

    /// The reason with the argument to blame, or `ok`.
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
    assert_eq!(world.users.named(b"new"), None, "nobody is made by rules that are refused");
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
    assert_eq!(first.index, second.index, "the place is used again");
    assert!(!world.users.permits_all(first));
    assert_eq!(world.verdict_of(first, 0, "get a"), "command 0");
    assert_eq!(world.users.name(first), b"");
    assert_eq!(world.users.remove(b"default"), None);
}
