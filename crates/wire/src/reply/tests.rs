use super::*;

/// What a call writes in each version.
fn both(write: impl Fn(&mut ReplyBuffer)) -> (String, String) {
    let text = |protocol| {
        let mut reply = ReplyBuffer::new(protocol);
        write(&mut reply);
        String::from_utf8(reply.read_back().to_vec()).unwrap()
    };
    (text(Protocol::Resp2), text(Protocol::Resp3))
}

#[track_caller]
fn assert_both(write: impl Fn(&mut ReplyBuffer), resp2: &str, resp3: &str) {
    assert_eq!(both(write), (resp2.to_string(), resp3.to_string()));
}

#[test]
fn types_that_are_the_same_in_both_versions() {
    assert_both(|r| r.ok(), "+OK\r\n", "+OK\r\n");
    assert_both(|r| r.simple("PO\r\nNG"), "+PO  NG\r\n", "+PO  NG\r\n");
    assert_both(|r| r.error("ERR a\nb\r\n"), "-ERR a b\r\n", "-ERR a b\r\n");
    for value in [0, 1, 9, 10, 42, 99, 100, 12345, -1, -10, i64::MAX, i64::MIN] {
        let text = format!(":{value}\r\n");
        assert_both(|r| r.integer(value), &text, &text);
        let text = value.to_string();
        let text = format!("${}\r\n{text}\r\n", text.len());
        assert_both(|r| r.bulk_integer(value), &text, &text);
    }
    for len in [0, 1, 9, 10, 99, 100, 1000, 70_000] {
        let body = "x".repeat(len);
        let text = format!("${len}\r\n{body}\r\n");
        assert_both(|r| r.bulk(body.as_bytes()), &text, &text);
        let text = format!("*{len}\r\n");
        assert_both(|r| r.array(len), &text, &text);
    }
}

#[test]
fn types_that_differ() {
    assert_both(|r| r.null(), "$-1\r\n", "_\r\n");
    assert_both(|r| r.bulk_or_null(None), "$-1\r\n", "_\r\n");
    assert_both(|r| r.null_array(), "*-1\r\n", "_\r\n");
    assert_both(|r| r.map(3), "*6\r\n", "%3\r\n");
    assert_both(|r| r.map(50), "*100\r\n", "%50\r\n");
    assert_both(|r| r.set(12), "*12\r\n", "~12\r\n");
    assert_both(|r| r.push(3), "*3\r\n", ">3\r\n");
    assert_both(|r| r.boolean(true), ":1\r\n", "#t\r\n");
    assert_both(|r| r.boolean(false), ":0\r\n", "#f\r\n");
    assert_both(|r| r.double(1.5), "$3\r\n1.5\r\n", ",1.5\r\n");
    assert_both(|r| r.double(f64::NEG_INFINITY), "$4\r\n-inf\r\n", ",-inf\r\n");
    assert_both(|r| r.double(f64::NAN), "$3\r\nnan\r\n", ",nan\r\n");
    assert_both(|r| r.big_number("-12"), "$3\r\n-12\r\n", "(-12\r\n");
    assert_both(|r| r.verbatim("txt", b"a\r\nb"), "$4\r\na\r\nb\r\n", "=8\r\ntxt:a\r\nb\r\n");
    assert_both(|r| r.verbatim("x", b""), "$0\r\n\r\n", "=4\r\nx  :\r\n");
}

#[test]
fn lengths_found_later_leave_no_trace() {
    for len in [0usize, 1, 9, 10, 99, 100, 12345] {
        let later = both(|r| {
            r.ok();
            let array = r.begin_array();
            let map = r.begin();
            (0..len).for_each(|i| r.integer(i as i64));
            r.end_map(map, len);
            let set = r.begin();
            (0..len).for_each(|_| r.null());
            r.end_set(set, len);
            r.end_array(array, len);
            r.ok();
        });
        let before = both(|r| {
            r.ok();
            r.array(len);
            r.map(len);
            (0..len).for_each(|i| r.integer(i as i64));
            r.set(len);
            (0..len).for_each(|_| r.null());
            r.ok();
        });
        assert_eq!(later, before);
    }
}

#[test]
fn a_reply_beyond_its_limit_is_dropped_whole() {
    let mut reply = ReplyBuffer::new(Protocol::Resp3);
    reply.set_limit(std::num::NonZeroUsize::new(100));
    reply.bulk(&[b'x'; 50]);
    assert!(!reply.is_overflowed() && reply.len() == 57);
    let mark = reply.begin_array();
    for _ in 0..1000 {
        reply.bulk(b"an element");
        reply.integer(123_456);
        reply.simple("OK");
        reply.double(1.5);
    }
    reply.end_array(mark, 1000);
    reply.verbatim("txt", b"more");
    assert!(reply.is_overflowed() && reply.is_empty() && reply.capacity() == 0);
    reply.set_limit(None);
    reply.ok();
    assert_eq!(reply.read_back(), b"+OK\r\n");
}
