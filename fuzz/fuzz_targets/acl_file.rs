//! Files of users: none makes the reader panic, and what is written of users makes the same users.
#![no_main]

use libfuzzer_sys::fuzz_target;
use server::acl::{Rules, Users, file};
use server::command::registry::Registry;
use std::cell::RefCell;

thread_local! {
    static WORLD: (Registry, RefCell<Users>) = {
        let registry = Registry::new(server::commands::GROUPS);
        let users = Users::new(&registry, None, [0; 32]);
        (registry, RefCell::new(users))
    };
}

fuzz_target!(|text: &[u8]| {
    WORLD.with(|(registry, users)| {
        let rules = Rules { registry, all_channels: false };
        let Ok(read) = file::read(text, "users.acl", rules) else { return };
        let mut users = users.borrow_mut();
        users.replace(read);
        let written = users.to_file();
        let read = file::read(&written, "users.acl", rules).expect("what was written is right");
        let replaced = users.replace(read);
        assert!(replaced.removed.is_empty() && replaced.changed.is_empty());
        assert_eq!(String::from_utf8_lossy(&users.to_file()), String::from_utf8_lossy(&written));
    });
});
