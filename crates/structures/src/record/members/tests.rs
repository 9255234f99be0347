use super::*;
use crate::model::{random_text, scaled, with_seeds};
use crate::random::Random;

fn texts(set: MembersView<'_>) -> Vec<Vec<u8>> {
    set.iter().map(|member| member.text(&mut TextBuffer::default()).to_vec()).collect()
}

/// Members that meet again, of all forms.
pub(in crate::record) fn random_member(random: &mut Random) -> Vec<u8> {
    match random.below(8) {
        0 => random_text(random).into_iter().take(90).collect(),
        1 => format!("{:08x}-0000-4000-8000-{:012x}", random.below(3), random.below(3)).into(),
        2 => format!("10.0.0.{}", random.below(20)).into(),
        3 => format!("user:{}", random.below(30)).into(),
        4 => format!("{:x}", 1_000_000 + random.below(9)).into(),
        5 => format!("{}.5", random.below(9)).into(),
        _ => random.below(40).to_string().into(),
    }
}

#[test]
fn a_set_is_a_list_of_distinct_texts() {
    with_seeds(0..scaled(8).max(2), |random| {
        let (mut set, mut model) = (Members::default(), Vec::<Vec<u8>>::new());
        for _ in 0..scaled(20_000) {
            let member = random_member(random);
            let at = model.iter().position(|other| *other == member);
            assert_eq!(set.view().contains(&member), at.is_some());
            match random.below(6) {
                0..=2 => {
                    let may_add = set.fits(member.len()) && random.below(30) > 0;
                    let expected = match at {
                        Some(_) => Addition::Present,
                        None if may_add => Addition::Added,
                        None => Addition::Refused,
                    };
                    assert_eq!(set.add(&member, may_add), expected);
                    if expected == Addition::Added {
                        model.push(member);
                    }
                }
                3 if random.below(40) == 0 => {
                    let mut lots = random.clone();
                    set.retain(|_| lots.below(4) == 0);
                    model.retain(|_| random.below(4) == 0);
                }
                3 if at.is_none() && set.fits(member.len()) => {
                    match crate::decimal::parse(&member) {
                        Some(value) => set.push_integer(value),
                        None => set.push(&member),
                    }
                    model.push(member);
                }
                _ => {
                    assert_eq!(set.remove(&member), at.is_some());
                    at.map(|at| model.remove(at));
                }
            }
            set.check();
            assert_eq!(texts(set.view()), model);
            if !model.is_empty() {
                let index = random.index(model.len());
                assert_eq!(set.view().at(index).text(&mut TextBuffer::default()), model[index]);
            }
            if let Some(bytes) = set.embedded() {
                assert_eq!(texts(MembersView::of_embedded(bytes)), model);
                let mut copy = Members::default();
                copy.assign_embedded(bytes);
                assert_eq!(copy.embedded(), Members::of_embedded(bytes).embedded());
            }
        }
    });
}

#[test]
fn the_most_and_the_longest_members_fit() {
    let mut set = Members::default();
    for number in 0..MEMBERS_MAX {
        assert!(set.fits(10));
        set.push(format!("m{number}").as_bytes());
    }
    assert!(!set.fits(0) && set.view().len() == MEMBERS_MAX);
    set.check();
    let longest = [b'x'; ROOM_BYTES - 1 - HEAD_BYTES_MAX];
    let mut set = Members::default();
    assert!(set.fits(longest.len()) && !set.fits(longest.len() + 1) && !set.fits(usize::MAX));
    set.push(&longest);
    assert!(set.view().contains(&longest) && !set.view().contains(&[b'x'; 2 * ROOM_BYTES]));
    assert_eq!(set.embedded(), None);
    assert!(set.remove(&longest) && !set.remove(&[b'x'; 2 * ROOM_BYTES]));
    set.check();
}

/// Every cut of a set's bytes is another set or panics: none is read beyond its end.
#[test]
fn cut_sets_are_not_read_beyond_their_end() {
    let mut set = Members::default();
    for member in
        ["tag", "1234567", "1.25", "10.1.2.3", "deadbeef", "0123", "00000000-0000-4000-8000-000000000000"]
    {
        set.push(member.as_bytes());
    }
    let bytes = set.embedded().unwrap().to_vec();
    for len in 1..bytes.len() {
        let cut = bytes[..len].to_vec().into_boxed_slice();
        let read = std::panic::catch_unwind(|| texts(MembersView::of_embedded(&cut)));
        assert!(read.is_err() || texts(set.view()).starts_with(&read.unwrap_or_default()), "{len}");
        _ = std::panic::catch_unwind(|| MembersView::of_embedded(&cut).contains(b"00000000"));
    }
}
