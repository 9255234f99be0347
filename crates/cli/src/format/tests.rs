use super::*;

fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

fn text(value: &Value, style: &Style) -> String {
    String::from_utf8(reply(value, style, false, false)).unwrap()
}

fn nested() -> Value {
    Value::Array(vec![
        Value::Integer(1),
        Value::Array(vec![bulk("a\n"), Value::Null]),
        Value::Map(vec![
            (bulk("x"), Value::Double(b"1.5".to_vec())),
            (bulk("y"), Value::Array(vec![Value::Boolean(true), Value::Simple(b"OK".to_vec())])),
        ]),
        Value::Set(vec![]),
    ])
}

#[test]
fn a_server_tells_the_terminal_nothing() {
    for (value, shown) in [
        (Value::Simple(b"O\x1bcK".to_vec()), "O\\x1bcK\n"),
        (Value::Error(b"ERR \x1b]0;x\x07".to_vec()), "(error) ERR \\x1b]0;x\\x07\n"),
        (Value::Double(b"\x1b[2J".to_vec()), "(double) \\x1b[2J\n"),
        (Value::Bulk(b"\x1b[2J".to_vec()), "\"\\x1b[2J\"\n"),
    ] {
        assert_eq!(String::from_utf8(reply(&value, &Style::Terminal, false, false)).unwrap(), shown);
    }
}

#[test]
fn for_people() {
    let expected = "1) (integer) 1\n2) 1) \"a\\n\"\n   2) (nil)\n3) 1# \"x\" => (double) 1.5\n   2# \"y\" => \n      1) (true)\n      \
                    2) OK\n4) (empty set)\n";
    assert_eq!(text(&nested(), &Style::Terminal), expected);
    let ten = Value::Array((0..10).map(Value::Integer).collect());
    assert!(text(&ten, &Style::Terminal).starts_with(" 1) (integer) 0\n 2) (integer) 1\n"));
    assert_eq!(text(&Value::Error(b"ERR no".to_vec()), &Style::Terminal), "(error) ERR no\n");
}

#[test]
fn for_scripts() {
    assert_eq!(text(&nested(), &Style::raw()), "1\na\n\n\nx 1.5\ny (true)\nOK\n\n");
    assert_eq!(text(&Value::Error(b"ERR no".to_vec()), &Style::raw()), "ERR no\n\n");
    assert_eq!(text(&nested(), &Style::Csv), "1,\"a\\n\",NULL,\"x\",1.5,\"y\",true,\"OK\",\n");
}

#[test]
fn as_json() {
    assert_eq!(text(&nested(), &Style::Json), "[1,[\"a\\n\",null],{\"x\":1.5,\"y\":[true,\"OK\"]},[]]\n");
    let odd = Value::Map(vec![(Value::Integer(1), bulk("\u{1}é\""))]);
    assert_eq!(text(&odd, &Style::Json), "{\"1\":\"\\u0001é\\\"\"}\n");
    assert_eq!(text(&odd, &Style::QuotedJson), "{\"1\":\"\\\\x01\\\\xc3\\\\xa9\\\\\"\"}\n");
}

#[test]
fn in_colors() {
    let colored = |value: &Value| String::from_utf8(reply(value, &Style::Terminal, false, true)).unwrap();
    assert_eq!(colored(&Value::Error(b"ERR no".to_vec())), "\x1b[31m(error) ERR no\x1b[0m\n");
    assert_eq!(colored(&Value::Integer(1)), "\x1b[90m(integer) \x1b[0m\x1b[36m1\x1b[0m\n");
    assert_eq!(colored(&Value::Simple(b"OK".to_vec())), "OK\n");
}
