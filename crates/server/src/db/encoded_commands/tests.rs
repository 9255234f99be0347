use super::*;
use structures::random::Random;

fn push(commands: &mut EncodedCommands, db_index: usize, of_its_own: bool, words: &[&[u8]]) {
    let (head, rest) = words.split_at(words.len() / 2);
    commands.push(db_index, of_its_own, head, rest.iter().copied());
}

fn all(commands: &EncodedCommands, first: usize) -> Vec<(usize, Vec<u8>)> {
    commands.from(first).map(|(db_index, bytes)| (db_index, bytes.to_vec())).collect()
}

#[test]
fn a_command_is_as_clients_send_it() {
    let mut commands = EncodedCommands::default();
    let long = [b'x'; 123];
    push(&mut commands, 3, false, &[b"SET", b"", &long]);
    push(&mut commands, 0, true, &[b"DEL"]);
    let set = [&b"*3\r\n$3\r\nSET\r\n$0\r\n\r\n$123\r\n"[..], &long, b"\r\n"].concat();
    assert_eq!(all(&commands, 0), [(3, set), (0, b"*1\r\n$3\r\nDEL\r\n".to_vec())]);
}

#[test]
fn commands_come_and_go_as_in_a_list_of_them() {
    let mut random = Random::new(7);
    for _ in 0..2000 {
        let mut commands = EncodedCommands::default();
        let mut model: Vec<(usize, bool, Vec<u8>)> = Vec::new();
        for _ in 0..random.below(20) {
            let first = random.below(model.len() as u64 + 1) as usize;
            match random.below(8) {
                0 => {
                    commands.truncate(first);
                    model.truncate(first);
                }
                1 => {
                    commands.keep_of_its_own(first);
                    let kept = model.split_off(first).into_iter().filter(|(_, of_its_own, _)| *of_its_own);
                    model.extend(kept);
                }
                kind => {
                    let (db_index, of_its_own) = (random.below(3) as usize, kind < 5);
                    let word = vec![b'a'; random.below(12) as usize];
                    push(&mut commands, db_index, of_its_own, &[&word]);
                    let encoded = [format!("*1\r\n${}\r\n", word.len()).as_bytes(), &word, b"\r\n"].concat();
                    model.push((db_index, of_its_own, encoded));
                }
            }
            assert_eq!(commands.len(), model.len());
            assert_eq!(commands.is_empty(), model.is_empty());
            let first = random.below(model.len() as u64 + 1) as usize;
            let expected: Vec<_> =
                model[first..].iter().map(|(db_index, _, bytes)| (*db_index, bytes.clone())).collect();
            assert_eq!(all(&commands, first), expected);
        }
    }
}

#[test]
fn much_room_is_not_kept() {
    let mut commands = EncodedCommands::default();
    push(&mut commands, 0, false, &[&vec![b'x'; 4 * BYTES_KEPT]]);
    (0..4 * COMMANDS_KEPT).for_each(|_| push(&mut commands, 0, false, &[b"PING"]));
    commands.truncate(0);
    assert!(commands.bytes.capacity() <= BYTES_KEPT && commands.commands.capacity() <= COMMANDS_KEPT);
}

#[test]
fn a_command_goes_to_those_it_is_for() {
    let mut commands = EncodedCommands::default();
    push(&mut commands, 0, false, &[b"BOTH"]);
    push(&mut commands, 1, true, &[b"EXPIRED"]);
    push(&mut commands, 1, false, &[b"FILE"]);
    commands.restrict(1, Receivers::FILE);
    push(&mut commands, 2, false, &[b"REPLICAS"]);
    commands.restrict(3, Receivers::REPLICAS);
    let indexes = |receiver| commands.all_for(receiver).map(|(db_index, _)| db_index).collect::<Vec<_>>();
    assert_eq!(indexes(Receivers::FILE), [0, 1, 1]);
    assert_eq!(indexes(Receivers::REPLICAS), [0, 1, 2]);
    assert_eq!(commands.count_for(Receivers::FILE), 3);
    commands.restrict(3, Receivers::FILE);
    assert_eq!(commands.count_for(Receivers::REPLICAS), 2, "the last has no receiver left");
}
