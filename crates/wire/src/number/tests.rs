use super::*;

#[test]
fn integers_have_one_spelling() {
    for value in [0, 1, -1, 9, 10, -10, 99, i64::MAX, i64::MIN, i64::MAX - 1, i64::MIN + 1] {
        assert_eq!(parse_i64(value.to_string().as_bytes()), Some(value));
    }
    let refused = [
        "",
        "-",
        "+1",
        "01",
        "-0",
        "-01",
        "00",
        " 1",
        "1 ",
        "1a",
        "a",
        "--1",
        "1-",
        "0x1",
        "1.0",
        "1e3",
        "9223372036854775808",
        "-9223372036854775809",
        "99999999999999999999",
        "18446744073709551616",
        "-99999999999999999999",
    ];
    for text in refused {
        assert_eq!(parse_i64(text.as_bytes()), None, "{text:?}");
    }
}
