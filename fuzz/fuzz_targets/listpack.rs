//! Listpacks: what is accepted can be walked and changed at any place, and stays one.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use structures::listpack::Listpack;

#[derive(Arbitrary, Debug)]
enum Change<'a> {
    PushBack(&'a [u8]),
    PushFront(&'a [u8]),
    PushInteger(i64),
    Replace(u8, &'a [u8]),
    Insert(u8, &'a [u8]),
    Remove(u8),
    RemoveRange(i8, u8),
    Find(&'a [u8]),
}

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    changes: Vec<Change<'a>>,
    bytes: &'a [u8],
}

fuzz_target!(|input: Input<'_>| {
    let Ok(mut list) = Listpack::validate(input.bytes) else { return };
    list.check();
    assert_eq!(list.iter().count(), list.len());
    assert_eq!(list.iter().rev().count(), list.len());
    for change in input.changes {
        match change {
            Change::PushBack(bytes) => list.push_back(bytes),
            Change::PushFront(bytes) => list.push_front(bytes),
            Change::PushInteger(value) => list.push_back_integer(value),
            Change::Replace(index, bytes) => {
                if let Some(at) = list.at(index.into()) {
                    list.replace(at, bytes);
                    assert_eq!(list.get(at).to_vec(), bytes);
                }
            }
            Change::Insert(index, bytes) => {
                if let Some(at) = list.at(index.into()) {
                    list.insert_before(at, bytes);
                }
            }
            Change::Remove(index) => {
                if let Some(at) = list.at(index.into()) {
                    list.remove(at);
                }
            }
            Change::RemoveRange(index, count) => {
                list.remove_range(index.into(), count.into());
            }
            Change::Find(bytes) => {
                let found = list.first().and_then(|first| list.find(first, bytes, 0));
                assert_eq!(found.is_some(), list.iter().any(|element| element.to_vec() == bytes));
            }
        }
        list.check();
    }
    let again = Listpack::validate(list.as_bytes()).expect("it was one just now");
    assert_eq!(again.len(), list.len());
});
