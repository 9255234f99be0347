use crate::script::environment::{self, Options};
use crate::script::{Interpreter, Mode};
use structures::random::Random;

/// Calls a library's function with strings; returns its only result, or the error, as text.
fn call(
    interpreter: &mut Interpreter,
    library: &str,
    function: &str,
    arguments: &[&[u8]],
) -> (bool, Vec<u8>) {
    let mut stack = interpreter.stack();
    stack.push_globals();
    stack.get_field(-1, library);
    stack.get_field(-1, function);
    stack.remove(1);
    stack.remove(1);
    arguments.iter().for_each(|argument| stack.push_bytes(argument));
    let succeeded = stack.call(arguments.len() as i32);
    let text = if stack.top() > 0 { stack.text(-1).unwrap_or_default() } else { Vec::new() };
    stack.set_top(0);
    (succeeded, text)
}

/// Copies of the seed with random changes, as input for decoders.
fn damaged(seed: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..random.below(4) + 1 {
        let at = random.below(bytes.len() as u64) as usize;
        match random.below(3) {
            0 => bytes[at] = random.below(256) as u8,
            1 => bytes.truncate(at.max(1)),
            _ => bytes.insert(at, seed[random.below(seed.len() as u64) as usize]),
        }
    }
    bytes
}

#[test]
fn no_bytes_upset_the_decoders() {
    let mut interpreter = environment::interpreter(Mode::Eval, Options::default());
    let mut random = Random::new(7);
    let json = br#"{"a":[1,-2.5e3,"\u00e9\ud83d\ude00\n",true,null,{"b":[[]]}],"c":0x1F,"d":nan}"#;
    let packed = b"\x95\x01\xa3abc\x81\xa1k\x92\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00\xce\xff\xff\xff\xff\xc3\xda\x00\x02xy";
    let format = b">!8 i3Bh<lLTfdc2s xc0 I16";
    for _ in 0..20_000 {
        let json = damaged(json, &mut random);
        let (_, error) = call(&mut interpreter, "cjson", "decode", &[&json]);
        assert!(!error.starts_with(b"stack"), "{:?}", json.escape_ascii().to_string());
        call(&mut interpreter, "cmsgpack", "unpack", &[&damaged(packed, &mut random)]);
        let format = damaged(format, &mut random);
        call(&mut interpreter, "struct", "unpack", &[&format, &damaged(packed, &mut random)]);
        call(&mut interpreter, "struct", "size", &[&format]);
        interpreter.collect(10);
    }
    assert!(interpreter.used_bytes() < 64 << 20);
}
