//! What clients ask: units of random commands, and what an administrator does meanwhile.

use crate::history::Words;
use structures::random::Random;

/// How a unit is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Alone,
    Transaction,
    Script,
}

pub fn words(text: &str) -> Words {
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

fn filler(random: &mut Random) -> String {
    let len = if random.below(20) == 0 { random.below(6000) } else { random.below(60) };
    char::from(b'a' + random.below(26) as u8).to_string().repeat(len as usize + 1)
}

/// A command whose effect depends on nothing but the data and the date.
pub fn data_command(random: &mut Random) -> Words {
    let key = random.below(6);
    let element = random.below(300);
    let value = filler(random);
    words(&match random.below(33) {
        0 | 1 => format!("SET s:{key} {value}"),
        2 => format!("APPEND s:{key} {value}"),
        3 => format!("SETRANGE s:{key} {element} {value}"),
        4 => format!("INCRBY n:{key} {element}"),
        5 | 6 => format!("RPUSH l:{key} {value} {element}"),
        7 => format!("LPUSH l:{key} {value}"),
        8 => format!("LPOP l:{key} 3"),
        9 => format!("LTRIM l:{key} 1 60"),
        10 | 11 => format!("SADD m:{key} {element} {value}"),
        12 => format!("SREM m:{key} {element}"),
        13 | 14 => format!("ZADD z:{key} {element} {value} 1.5 {element}"),
        15 => format!("ZINCRBY z:{key} 2 {element}"),
        16 => format!("ZREMRANGEBYRANK z:{key} 100 -1"),
        17 | 18 => format!("HSET h:{key} {element} {value}"),
        19 => format!("HDEL h:{key} {element}"),
        20 => format!("HINCRBY h:{key} n{element} 7"),
        21 => format!("HPEXPIREAT h:{key} 4102444800000 FIELDS 1 {element}"),
        22 | 23 => format!("XADD x:{key} MAXLEN 50 * f {value}"),
        24 => format!("XGROUP CREATE x:{key} g{element} 0 MKSTREAM"),
        25 => format!("PEXPIREAT s:{key} {}", 4_102_444_800_000u64 + element),
        26 => format!("PERSIST s:{key}"),
        27 => format!("RENAME s:{key} s:{}", element % 6),
        28 => format!("COPY z:{key} z:{} REPLACE", element % 6),
        29 => format!("DEL l:{key} m:{key} s:{}", element % 6),
        30 => format!("SINTERSTORE m:{key} m:{} m:{}", element % 6, element % 5),
        31 => format!("SWAPDB {} {}", element % 4, key % 4),
        _ if element < 6 => "FLUSHALL".to_owned(),
        _ => format!("SETBIT b:{key} {} 1", element * 11),
    })
}

/// A unit's commands as the data sees them.
pub fn unit(random: &mut Random, number: u64, shape: Shape) -> Vec<Words> {
    let last = words(&format!("SET unit {number}"));
    let mut commands = Vec::new();
    if shape != Shape::Alone {
        let in_other = shape == Shape::Transaction && random.below(6) == 0;
        if in_other {
            commands.push(words(&format!("SELECT {}", random.below(3) + 1)));
        }
        for _ in 0..random.below(5) {
            commands.push(data_command(random));
        }
        if in_other {
            commands.push(words("SELECT 0"));
        }
    }
    commands.push(last);
    commands
}

/// As they are sent; the last request is the one that does them.
pub fn requests_of(commands: &[Words], shape: Shape) -> Vec<Words> {
    match shape {
        Shape::Alone => commands.to_vec(),
        Shape::Transaction => [&[words("MULTI")][..], commands, &[words("EXEC")]].concat(),
        Shape::Script => {
            let mut request = words("EVAL");
            let mut body = String::from("local at, r = 1 ");
            let mut arguments: Words = Vec::new();
            for command in commands {
                let last = command.len() - 1;
                // A script that may not write fails at its first command; other errors are part of what it does.
                body.push_str(&format!(
                    "r = redis.pcall(unpack(ARGV, at, at + {last})) at = at + {last} + 1 \
                     if type(r) == 'table' and r.err and r.err:find('MISCONF') then return r end "
                ));
                arguments.extend(command.iter().cloned());
            }
            request.push(body.into_bytes());
            request.push(b"0".to_vec());
            request.extend(arguments);
            vec![request]
        }
    }
}

/// What somebody else does, and asks, at the same time; `switches`: changes how the data is kept, too.
pub fn administration(random: &mut Random, switches: bool) -> Words {
    words(match random.below(if switches { 24 } else { 15 }) {
        0 | 1 => "BGREWRITEAOF",
        2 => "BGSAVE",
        3 => "BGSAVE SCHEDULE",
        4 => "BGSAVE CANCEL",
        5 => "SAVE",
        6 => "INFO persistence",
        7 => "LASTSAVE",
        8 => "BLPOP never 1",
        9 => "BLPOP never 0",
        10 => "MULTI",
        11 => "DBSIZE",
        12 => "EXEC",
        13 => "SCRIPT KILL",
        15 | 16 => "CONFIG SET appendonly no",
        17..=19 => "CONFIG SET appendonly yes",
        20 => "CONFIG SET appendfsync always",
        21 => "CONFIG SET appendfsync everysec",
        22 => "CONFIG SET appendfsync no",
        23 => "CONFIG SET appendonly yes appendfsync everysec",
        _ => "PING",
    })
}
