//! Rules of a user, one a line: none makes them panic, and what is printed of a user makes the same user.
#![no_main]

use libfuzzer_sys::fuzz_target;
use server::acl::{Call, Rules, User, UserHandle, Users};
use server::command::args::OwnedArgs;
use server::command::registry::Registry;
use std::cell::RefCell;

thread_local! {
    static WORLD: (Registry, RefCell<Users>) = {
        let registry = Registry::new(server::commands::GROUPS);
        let users = Users::new(&registry, None, [0; 32]);
        (registry, RefCell::new(users))
    };
}

fn set(users: &mut Users, registry: &Registry, name: &[u8], rules: &[&[u8]]) -> Option<UserHandle> {
    users.set(name, rules, Rules { registry, all_channels: false }).ok().map(|changed| changed.user)
}

fn same(a: &User, b: &User) {
    let sets = |user: &User| user.selectors().map(|selector| selector.commands).collect::<Vec<_>>();
    assert_eq!(String::from_utf8_lossy(&a.describe()), String::from_utf8_lossy(&b.describe()));
    assert_eq!(sets(a), sets(b));
}

fuzz_target!(|input: (&[u8], Vec<&[u8]>)| {
    let (text, words) = input;
    WORLD.with(|(registry, users)| {
        let mut users = users.borrow_mut();
        let rules: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
        let Some(first) = set(&mut users, registry, b"first", &rules) else { return };
        let described = users.get(first).expect("it was just set").describe();
        let again: Vec<&[u8]> = described.split(|&byte| byte == b' ').collect();
        let second = set(&mut users, registry, b"second", &again).expect("its own rules make a user");
        same(users.get(first).expect("set"), users.get(second).expect("set"));
        let line = users.get(first).expect("set").config_line();
        let line = wire::request::split_args(&line).expect("the quotes of a line are closed");
        let line: Vec<&[u8]> = line[1..].iter().map(Vec::as_slice).collect();
        let third = set(&mut users, registry, b"third", &line).expect("its own line makes a user");
        same(users.get(first).expect("set"), users.get(third).expect("set"));
        let args = OwnedArgs::new(words);
        if let Some(id) = (!args.view().is_empty()).then(|| registry.find(args.view()).ok()).flatten() {
            let row = registry.row(id);
            if row.accepts(args.view().len()) {
                let call = Call { id, row, args: args.view(), db_index: 1, database_count: 16 };
                assert_eq!(users.check(first, &call), users.check(second, &call));
            }
        }
        for name in [&b"first"[..], b"second", b"third"] {
            users.remove(name);
        }
    });
});
