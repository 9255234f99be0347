//! Scripts that mean no good, and scripts that take long, against a real server: none of them may end it or keep it
//! from answering others.

use crate::process::{Client, Process, eventually, shown};
use std::net::TcpStream;
use std::time::{Duration, Instant};

fn eval(client: &mut Client<TcpStream>, script: &str) -> String {
    client.send(&[b"EVAL", script.as_bytes(), b"0"]);
    shown(&client.receive().expect("the server answers"))
}

/// Runs a script that must fail with this, and sees that the next one works.
fn refuses(client: &mut Client<TcpStream>, script: &str, error: &str) {
    let answer = eval(client, script);
    assert!(answer.contains(error), "{script} answers {answer}");
    assert_eq!(eval(client, "return 1"), "1");
}

#[test]
fn what_nests_without_end_is_an_error() {
    let server = Process::start(&[]);
    let client = &mut server.connect();
    refuses(client, "local function f() return 1 + f() end return f()", "stack overflow");
    refuses(client, "local f f = function() return pcall(f) end return {f()}", "");
    refuses(client, "local s = 'x' return loadstring(string.rep('(', 10000) .. s)()", "attempt to call");
    refuses(client, "return loadstring('return ' .. string.rep('{', 100000))()", "attempt to call");
    refuses(
        client,
        "local t = setmetatable({}, {}) getmetatable(t).__index = t return t.x",
        "loop in gettable",
    );
    refuses(client, "local f f = function(s) return (string.gsub(s, '.', f)) end return f('x')", "overflow");
    refuses(client, "local f f = function() return coroutine.wrap(f)() end return f()", "overflow");
    refuses(client, "return cjson.decode(string.rep('[', 100000))", "too many nested");
    refuses(
        client,
        "cjson.decode_max_depth(2^31 - 1) return cjson.decode(string.rep('[', 100000))",
        "too many nested",
    );
    refuses(
        client,
        "cjson.encode_max_depth(2^31 - 1) local t = {} t[1] = t return cjson.encode(t)",
        "excessive nesting",
    );
    refuses(client, "return cmsgpack.unpack(string.rep('\\145', 100000))", "overflow");
    assert_eq!(eval(client, "local t = {} t[1] = t return #cmsgpack.pack(t)"), "17");
    client.send(&[b"EVAL", b"local t = {} t[1] = t return t", b"0"]);
    eventually("the end of a deep reply", || server.connect().ask("PING") == "PONG");
}

#[test]
fn what_is_too_large_is_an_error() {
    let server = Process::start(&[]);
    let client = &mut server.connect();
    refuses(client, "local s = string.rep('x', 2^20) while true do s = s .. s end", "not enough memory");
    refuses(client, "return #string.rep('x', 2^31 - 1)", "not enough memory");
    refuses(
        client,
        "local t = {} for i = 1, 1e9 do t[i] = string.rep('x', 2^20) .. i end",
        "not enough memory",
    );
    refuses(
        client,
        "redis.call('SADD', 's', string.rep('x', 2^20)) return redis.call('SRANDMEMBER', 's', '-6000000000000000000')",
        "value is out of range",
    );
    refuses(client, "return redis.call('SRANDMEMBER', 's', '-600')", "the reply is too large");
    refuses(
        client,
        "redis.call('SET', 'k', string.rep('x', 2^28)) return redis.call('MGET', 'k', 'k', 'k', 'k', 'k')",
        "reply is too large for a script",
    );
    refuses(client, "return {unpack({}, 1, 1000000)}", "too many results to unpack");
    refuses(client, "return {unpack({}, -2147483648, 2147483647)}", "too many results to unpack");
    refuses(client, "return {unpack({}, 0, 2147483647)}", "too many results to unpack");
    refuses(client, "return {string.byte(string.rep('x', 1000000), 1, -1)}", "string slice too long");
    refuses(client, "return cmsgpack.unpack('\\221\\255\\255\\255\\255')", "Missing bytes");
    refuses(client, "return cmsgpack.unpack('\\219\\255\\255\\255\\255x')", "Missing bytes");
    refuses(client, "return struct.unpack('c2147483647', 'x')", "too short");
    refuses(
        client,
        "return struct.unpack(string.rep('b', 10000), string.rep('x', 10000))",
        "too many results",
    );
    assert_eq!(eval(client, "return tostring(tonumber(string.rep('1', 2^20)))"), "inf");
    assert_eq!(eval(client, "return tostring(tonumber(string.rep('1', 2^20 + 1)))"), "nil");
    assert_eq!(eval(client, "return tostring(tonumber(string.rep('0', 2^20), 16))"), "0");
    assert_eq!(eval(client, "return tostring(tonumber(string.rep('0', 2^20 + 1), 16))"), "nil");
    refuses(client, "return cjson.decode(string.rep('1', 2^20 + 1))", "invalid number");
    refuses(client, "return loadstring('return ' .. string.rep('1', 2^20 + 1))()", "attempt to call");
    assert_eq!(eval(client, "return #string.rep('', 2^31 - 1)"), "0");
    assert_eq!(eval(client, "collectgarbage() return 1"), "1");
}

#[test]
fn bytecode_and_files_are_out_of_reach() {
    let server = Process::start(&[]);
    let client = &mut server.connect();
    assert_eq!(eval(client, "return tostring(loadstring(string.dump(function() return 1 end)))"), "nil");
    assert_eq!(eval(client, "return tostring(loadstring('\\27Lua'))"), "nil");
    assert_eq!(
        eval(
            client,
            "local s = string.dump(function() end) return tostring(load(function() local r = s s = nil return r end))"
        ),
        "nil"
    );
    client.send(&[b"EVAL", b"\x1bLua\x51\x00\x01\x04\x08\x04\x08\x00", b"0"]);
    assert!(shown(&client.receive().unwrap()).contains("Error compiling script"));
    for name in
        ["io", "package", "require", "dofile", "loadfile", "print", "newproxy", "getfenv", "setfenv", "debug"]
    {
        refuses(client, &format!("return {name}"), "nonexistent global variable");
    }
    for name in ["execute", "exit", "getenv", "remove", "rename", "tmpname"] {
        refuses(client, &format!("return os.{name}()"), "attempt to call field");
    }
    // Long brackets of every length, and names that a collection might take away while they are read.
    let level = "=".repeat(70_000);
    refuses(
        client,
        &format!("return loadstring('return [{level}[x]{level}]')()  == 'x' and error('fine')"),
        "fine",
    );
    refuses(client, "return [====", "invalid long string delimiter");
    let names = "local s = string.rep('x', 5000) for i = 1, 200 do loadstring('return ' .. i, s .. i) collectgarbage('step') end return error('fine')";
    refuses(client, names, "fine");
}

#[test]
fn globals_and_metatables_stay_as_they_are() {
    let server = Process::start(&[]);
    let client = &mut server.connect();
    let attempts = [
        "x = 1",
        "redis.call = 1",
        "rawset(_G, 'x', 1)",
        "rawset(redis, 'call', 1)",
        "setmetatable(_G, nil)",
        "setmetatable(string, {})",
        "getmetatable('').__index = {}",
        "getmetatable(_G).__index = nil",
        "table.insert(math, 1)",
        "string.gsub = nil",
        "cjson.encode = nil",
        "KEYS = 1",
        "__server__err__handler = nil",
    ];
    for attempt in attempts {
        refuses(client, attempt, "Attempt to modify a readonly table");
    }
    assert_eq!(eval(client, "return ('abc'):upper()"), "ABC");
}

#[test]
fn strings_are_compared_by_bytes() {
    let server = Process::start(&[]);
    let script = "local t = {'b', 'a\\0b', 'a', '\\200', 'a\\0a', '', 'ab', 'a\\0'} table.sort(t) \
        for i, s in ipairs(t) do t[i] = s:gsub('%z', '0'):gsub('\\200', 'high') end return table.concat(t, ' ')";
    assert_eq!(eval(&mut server.connect(), script), " a a0 a0a a0b ab b high");
    let long = "local s = string.rep('x', 600000) local t = {s .. 'b', s, s .. 'a'} table.sort(t) \
        return #t[1] .. t[2]:sub(-1) .. t[3]:sub(-1) .. tostring(s <= s) .. tostring(s < s)";
    assert_eq!(eval(&mut server.connect(), long), "600000abtruefalse");
}

/// Waits until other clients get `BUSY` because a script runs.
fn until_busy(client: &mut Client<TcpStream>) {
    eventually("BUSY", || client.ask("PING").starts_with("BUSY"));
}

#[test]
fn a_slow_script_is_ended_while_it_has_written_nothing() {
    let server = Process::start(&["--busy-reply-threshold", "50"]);
    let (mut slow, mut other) = (server.connect(), server.connect());
    let endless = [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do redis.pcall('get', 'x') end",
        "local co = coroutine.wrap(function() while true do end end) co()",
        "return string.find(string.rep('a', 30), string.rep('a?', 30) .. string.rep('a', 30) .. 'b')",
        "return string.find(string.rep('a', 500000), '.-.-.-.-b')",
        // Each coroutine runs for a moment, and the next is within it or behind it.
        "local function f() local co = coroutine.wrap(f) for i = 1, 50 do end return pcall(co) end while true do f() end",
        "while true do coroutine.wrap(function() for i = 1, 5000 do end end)() end",
        "local co = coroutine.wrap(function() while true do for i = 1, 50 do end coroutine.yield() end end) while true do co() end",
        "local function f(n) if n == 0 then return end while true do pcall(coroutine.wrap(f), n - 1) end end f(8)",
        // What is all in C.
        "local t = {} for i = 1, 2e6 do t[i] = (i * 7919) % 1000003 end while true do table.sort(t) end",
        "local t = {} for i = 1, 2e6 do t[i] = i end table.sort(t, function(a, b) for i = 1, 100 do end return a > b end) while true do end",
        "local t = {} for i = 1, 5e5 do t[i] = string.rep('x', 200) .. i end while true do table.sort(t, rawequal) end",
        "local t = {} for i = 1, 1e6 do t[i] = i end while true do table.insert(t, 1, 0) table.remove(t, 1) end",
        "local t = {} for i = 1, 1e6 do t[i] = 'x' end while true do table.concat(t, ',') end",
        "local t = {} for i = 1, 2e6 do t['k' .. i] = i end for i = 1, 2e6 - 1 do t['k' .. i] = nil end while true do next(t) end",
        "local t = {} for i = 1, 1e6 do t[i] = i end while true do table.maxn(t) table.foreach(t, type) table.foreachi(t, type) end",
        "local s = string.rep('x', 2^26) while true do local a = s .. 'y' end",
        "local s = string.rep('x', 2^26) while true do s:rep(2) s:upper() s:reverse() s:gsub('x', 'y') end",
        "local s = string.rep(' ', 2^26) while true do local n = tonumber(s .. '1') end",
        "local s = string.rep('a', 2^24) return s:find(string.rep('a', 2^23) .. 'b', 1, true)",
        "local s = string.rep('(', 2^20) return s:find('%b()')",
        "local s = string.rep('a', 2^20) while true do s:find('[' .. string.rep('b', 2^16) .. ']*c') end",
        "return string.rep('a', 2^20):gsub('a*b', '')",
        "for _ in string.rep('a', 2^20):gmatch('a*b') do end",
        "local s = 'return {' .. string.rep('1,', 2^22) .. '}' while true do loadstring(s) end",
        "local s = string.rep('-', 2^26) while true do loadstring('--' .. s) end",
        "local t = {} for i = 1, 1e6 do t[i] = {} end while true do collectgarbage() end",
        "while true do local t = {} for i = 1, 2e6 do t[i .. ''] = i end end",
        "local a, b = string.rep('\\0', 2^24) .. 'a', string.rep('\\0', 2^24) .. 'b' while true do local c = a < b end",
        "xpcall(function() error('x') end, function() while true do end end) while true do end",
        "local t = setmetatable({}, {__index = function() while true do end end}) while true do pcall(function() return t.x end) end",
        "while true do redis.sha1hex(string.rep('x', 2^22)) end",
        "local s = '[' .. string.rep('1,', 2^22) .. '1]' while true do cjson.decode(s) end",
        "local t = {} for i = 1, 1e6 do t[i] = i end while true do cmsgpack.unpack(cmsgpack.pack(t)) end",
    ];
    for script in endless {
        ends_when_killed(&mut slow, &mut other, script);
    }
}

fn ends_when_killed(slow: &mut Client<TcpStream>, other: &mut Client<TcpStream>, script: &str) {
    slow.send(&[b"EVAL", script.as_bytes(), b"0"]);
    until_busy(other);
    assert!(other.ask("SET k v").starts_with("BUSY"), "only a few commands run beside it");
    assert!(other.ask("FUNCTION KILL").starts_with("BUSY"));
    assert_eq!(other.ask("SCRIPT KILL"), "OK");
    let answer = shown(&slow.receive().unwrap());
    assert!(answer.contains("Script killed by user with SCRIPT KILL"), "{script} answers {answer}");
    assert!(other.ask("SCRIPT KILL").starts_with("NOTBUSY"));
}

/// A collection of garbage ends before the script does, for nothing is raised within it: others are answered meanwhile.
#[test]
fn a_killed_script_gives_way_while_it_collects_garbage() {
    let server = Process::start(&["--busy-reply-threshold", "50"]);
    let (mut slow, mut other) = (server.connect(), server.connect());
    let mut subscriber = server.connect();
    subscriber.ask("SUBSCRIBE filled");
    let script = "local t = {} for i = 1, 2e6 do t[i] = {i} end \
        redis.call('PUBLISH', 'filled', '') while true do collectgarbage() end";
    // Now and then it is killed just before the end of a collection.
    let mut answered_after_kill = (0..20).map(|_| {
        slow.send(&[b"EVAL", script.as_bytes(), b"0"]);
        subscriber.receive().unwrap();
        until_busy(&mut other);
        assert_eq!(other.ask("SCRIPT KILL"), "OK");
        let answered = (0..).take_while(|_| other.ask("PING").starts_with("BUSY")).count();
        assert!(shown(&slow.receive().unwrap()).contains("Script killed by user with SCRIPT KILL"));
        answered
    });
    assert!(answered_after_kill.any(|answered| answered >= 10), "a collection has hundreds of slices");
}

#[test]
fn finalizers_are_part_of_the_script_that_they_run_in() {
    let server = Process::start(&["--busy-reply-threshold", "50", "--lua-enable-insecure-api", "yes"]);
    let (mut slow, mut other) = (server.connect(), server.connect());
    let drop = |finalizer: &str, then: &str| {
        format!("local p = newproxy(true) getmetatable(p).__gc = function() {finalizer} end p = nil {then}")
    };
    let endless = [
        drop("while true do end", "collectgarbage()"),
        drop("while true do pcall(function() while true do end end) end", "collectgarbage() return 1"),
        drop("while true do redis.call('GET', 'x') end", "collectgarbage()"),
        drop("while true do end", "while true do cjson.decode('[' .. string.rep('[],', 1000) .. '1]') end"),
        drop("while true do end", "coroutine.wrap(function() while true do local t = {} end end)()"),
        drop("error('x')", "collectgarbage() while true do end"),
        drop("coroutine.yield()", "collectgarbage() while true do end"),
        "for i = 1, 1e5 do local p = newproxy(true) \
         getmetatable(p).__gc = function() for j = 1, 1e6 do end end end collectgarbage()"
            .to_owned(),
        // Each leaves another behind.
        "local function leave() local p = newproxy(true) getmetatable(p).__gc = leave end leave() \
         while true do collectgarbage() end"
            .to_owned(),
    ];
    for script in endless {
        ends_when_killed(&mut slow, &mut other, &script);
    }
    assert_eq!(eval(&mut other, &drop("error('x')", "collectgarbage() return 1")), "1");
}

#[test]
fn a_slow_script_in_a_transaction_ends_with_it() {
    let server = Process::start(&["--busy-reply-threshold", "50"]);
    let (mut slow, mut other) = (server.connect(), server.connect());
    slow.ask("MULTI");
    slow.ask("INCR n");
    slow.send(&[b"EVAL", b"while true do end", b"0"]);
    slow.receive().unwrap();
    slow.ask("INCR n");
    slow.send(&[b"EXEC"]);
    slow.send(&[b"GET", b"n"]);
    until_busy(&mut other);
    assert_eq!(other.ask("SCRIPT KILL"), "OK");
    let answer = shown(&slow.receive().unwrap());
    assert!(answer.starts_with("[1 ERR Script killed by user") && answer.ends_with(" 2]"), "{answer}");
    assert_eq!(shown(&slow.receive().unwrap()), "2", "what follows waits for its turn");
    assert_eq!(other.ask("PING"), "PONG");
}

#[test]
fn a_slow_script_outlives_its_client() {
    let server = Process::start(&["--busy-reply-threshold", "50"]);
    let (mut slow, mut other) = (server.connect(), server.connect());
    slow.send(&[b"EVAL", b"while true do end", b"0"]);
    until_busy(&mut other);
    drop(slow);
    assert!(other.ask("PING").starts_with("BUSY"));
    assert_eq!(other.ask("SCRIPT KILL"), "OK");
    eventually("an answer", || other.ask("PING") == "PONG");
    assert_eq!(eval(&mut server.connect(), "return 1"), "1");
}

#[test]
fn a_script_that_has_written_ends_only_with_the_server() {
    let mut server = Process::start(&["--busy-reply-threshold", "50"]);
    let (mut slow, mut other) = (server.connect(), server.connect());
    slow.send(&[b"EVAL", b"redis.call('set', 'k', 'v') while true do end", b"0"]);
    until_busy(&mut other);
    assert!(other.ask("SCRIPT KILL").starts_with("UNKILLABLE"));
    other.send(&[b"SHUTDOWN", b"NOSAVE"]);
    assert!(other.is_closed_by_server());
    assert!(TcpStream::connect(("127.0.0.1", server.port)).is_err(), "nobody listens any more");
    assert!(server.wait().success());
}

#[test]
fn nobody_sees_what_a_slow_script_has_done_so_far() {
    let server = Process::start(&["--busy-reply-threshold", "20"]);
    let (mut slow, mut waiting, mut other) = (server.connect(), server.connect(), server.connect());
    waiting.send(&[b"BLPOP", b"list", b"0"]);
    eventually("a waiting client", || other.ask("INFO clients").contains("blocked_clients:1"));
    let script = "redis.call('rpush', KEYS[1], 'first')
        local until_s = os.clock() + 0.3
        while os.clock() < until_s do end
        return redis.call('lpush', KEYS[1], 'last')";
    slow.send(&[b"EVAL", script.as_bytes(), b"1", b"list"]);
    until_busy(&mut other);
    assert!(!other.ask("HELLO 2").starts_with("BUSY"), "some commands run beside it");
    assert_eq!(shown(&slow.receive().unwrap()), "2", "the list is the script's until its end");
    assert_eq!(shown(&waiting.receive().unwrap()), "[list last]");
}

#[test]
fn scripts_of_eval_are_evicted_and_counted() {
    let server = Process::start(&[]);
    let client = &mut server.connect();
    for i in 0..502 {
        assert_eq!(eval(client, &format!("return {i}")), i.to_string());
    }
    assert!(client.ask("INFO stats").contains("\r\nevicted_scripts:2\r\n"));
    assert!(client.ask("INFO memory").contains("\r\nnumber_of_cached_scripts:500\r\n"));
    assert_eq!(client.ask("CONFIG RESETSTAT"), "OK");
    assert!(client.ask("INFO stats").contains("\r\nevicted_scripts:0\r\n"));
}

#[test]
fn what_shares_its_parts_has_an_end() {
    let server = Process::start(&["--busy-reply-threshold", "50"]);
    let client = &mut server.connect();
    let long = "local s = string.rep('x', 2^28) local t = {} for i = 1, 200 do t[i] = s end ";
    refuses(client, &format!("{long} return cmsgpack.pack(unpack(t))"), "not enough memory");
    refuses(client, &format!("{long} return cjson.encode(t)"), "not enough memory");
    let format = "string.rep('s', 200)";
    refuses(client, &format!("{long} return struct.pack({format}, unpack(t))"), "not enough memory");
    refuses(client, &format!("{long} return redis.call('DEL', unpack(t))"), "Command is too large");
    refuses(client, &format!("{long} return t"), "result is too large");
    // Small texts that stand for much.
    refuses(client, "return cjson.decode('[' .. string.rep('[],', 2^25) .. '1]')", "not enough memory");
    refuses(
        client,
        "return cmsgpack.unpack('\\221\\2\\0\\0\\0' .. string.rep('\\144', 2^25))",
        "not enough memory",
    );
}

#[test]
fn native_code_that_takes_long_is_ended_as_any_other() {
    let server = Process::start(&["--busy-reply-threshold", "50"]);
    let (mut slow, mut other) = (server.connect(), server.connect());
    let wide = "local t = {} for i = 1, 30 do local u = {} for j = 1, 30 do u[j] = t end t = u end ";
    for call in ["cmsgpack.pack(t)", "cjson.encode(t)"] {
        slow.send(&[b"EVAL", format!("{wide} return {call}").as_bytes(), b"0"]);
        until_busy(&mut other);
        assert_eq!(other.ask("SCRIPT KILL"), "OK");
        let answer = shown(&slow.receive().unwrap());
        assert!(answer.contains("Script killed by user with SCRIPT KILL"), "{call} answers {answer}");
        eventually("an answer", || other.ask("PING") == "PONG");
    }
}

/// A number that INFO tells of memory.
fn memory(client: &mut Client<TcpStream>, field: &str) -> u64 {
    let info = client.ask("INFO memory");
    let value = info.split("\r\n").find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value.unwrap_or_else(|| panic!("{field} in {info}")).parse().unwrap()
}

#[test]
fn what_scripts_hold_is_counted() {
    const FIELDS: [&str; 5] = [
        "used_memory",
        "used_memory_vm_eval",
        "used_memory_lua",
        "used_memory_vm_total",
        "used_memory_scripts_eval",
    ];
    let server = Process::start(&[]);
    let client = &mut server.connect();
    assert_eq!(eval(client, "return 1"), "1");
    let before = FIELDS.map(|field| memory(client, field));
    let text = "x".repeat(1 << 20);
    for i in 0..16 {
        client.send(&[b"SCRIPT", b"LOAD", format!("local text = '{i}{text}' return {i}").as_bytes()]);
        assert_eq!(shown(&client.receive().unwrap()).len(), 40);
    }
    for (field, before) in FIELDS.iter().zip(before) {
        let grown = memory(client, field) - before;
        assert!(grown >= 16 << 20, "{field} grew by {grown}");
    }
    assert_eq!(client.ask("SCRIPT FLUSH"), "OK");
    assert!(memory(client, "used_memory_vm_eval") < 1 << 20, "what is forgotten is given back");
    // What one script has filled is not missing for the next, and a function's interpreter is counted too.
    assert_eq!(
        eval(client, "local t = {} for i = 1, 40 do t[i] = string.rep('x', 2^23) .. i end return #t"),
        "40"
    );
    assert!(memory(client, "used_memory_vm_eval") < 1 << 24);
    let library =
        format!("#!lua name=l\nlocal t = '{text}' redis.register_function('f', function() return #t end)");
    let before = memory(client, "used_memory_vm_functions");
    client.send(&[b"FUNCTION", b"LOAD", library.as_bytes()]);
    assert_eq!(shown(&client.receive().unwrap()), "l");
    assert!(memory(client, "used_memory_vm_functions") - before >= 1 << 20);
    assert!(memory(client, "used_memory_functions") >= 1 << 20);
}

#[test]
fn the_insecure_functions_come_and_go_with_their_option() {
    let server = Process::start(&["--enable-protected-configs", "yes"]);
    let client = &mut server.connect();
    refuses(client, "return type(getfenv)", "nonexistent global variable");
    assert_eq!(client.ask("CONFIG SET lua-enable-insecure-api yes"), "OK");
    assert_eq!(eval(client, "return type(getfenv)"), "function");
    assert_eq!(client.ask("CONFIG SET lua-enable-insecure-api no"), "OK");
    refuses(client, "return type(getfenv)", "nonexistent global variable");
}

#[test]
fn a_slow_function_is_ended_too() {
    let server = Process::start(&["--busy-reply-threshold", "50"]);
    let (mut slow, mut other) = (server.connect(), server.connect());
    let library = b"#!lua name=l\nredis.register_function('endless', function() while true do end end)";
    slow.send(&[b"FUNCTION", b"LOAD", library]);
    slow.receive().unwrap();
    slow.send(&[b"FCALL", b"endless", b"0"]);
    until_busy(&mut other);
    // Others have their turn after each slice, not now and then.
    (0..100).for_each(|_| assert!(other.ask("PING").starts_with("BUSY")));
    assert!(other.ask("SCRIPT KILL").starts_with("BUSY"));
    assert!(other.ask("FUNCTION STATS").contains("endless"));
    assert_eq!(other.ask("FUNCTION KILL"), "OK");
    assert!(shown(&slow.receive().unwrap()).contains("Script killed by user with FUNCTION KILL"));
    slow.send(&[b"FUNCTION", b"LOAD", b"#!lua name=m\nwhile true do end"]);
    assert!(shown(&slow.receive().unwrap()).contains("FUNCTION LOAD timeout"));
    assert_eq!(other.ask("PING"), "PONG");
}

#[test]
fn beside_a_slow_script_others_are_answered_at_once() {
    let server = Process::start(&["--busy-reply-threshold", "20"]);
    let (mut slow, mut other) = (server.connect(), server.connect());
    let endless = [
        "while true do end",
        "while true do redis.call('get', 'x') end",
        "while true do redis.call('zunion', 1, 's') end",
        "while true do coroutine.wrap(function() for i = 1, 5000 do end end)() end",
        "local t = {} for i = 1, 1e6 do t[i] = (i * 7919) % 1000003 end while true do table.sort(t) end",
        "local s = string.rep('x', 2^26) while true do local a = s .. 'y' end",
        "local t = {} for i = 1, 1e6 do t[i] = {} end while true do collectgarbage() end",
        "while true do local t = {} for i = 1, 1e6 do t[i .. ''] = i end end",
        "local a = string.rep('x', 2^22) local b = a .. 'y' while true do local c = a < b end",
        "local s = string.rep('0', 2^20) while true do tonumber(s, 16) end",
        "local s = string.rep('x', 2^22) while true do s:find('y', 1, true) end",
        "local s = string.rep('x', 2^19) while true do redis.sha1hex(s) end",
        "local s = string.rep('x', 2^22) while true do redis.pcall('nosuch', s) end",
        "local s = string.rep('x', 2^22) while true do pcall(redis.acl_check_cmd, 'nosuch', s) end",
        "local s = string.rep('x', 2^22) while true do redis.status_reply(s) end",
        "local s = string.rep('x', 2^22) while true do redis.log(redis.LOG_DEBUG, s) end",
    ];
    for i in 0..1000 {
        other.ask(&format!("ZADD s {i} m{i}"));
    }
    for script in endless {
        let before = Turns::of(&server);
        slow.send(&[b"EVAL", format!("#!lua flags=no-writes\n{script}").as_bytes(), b"0"]);
        answers_beside(&mut slow, &mut other, script);
        before.were_short_since(&server, script, Duration::from_millis(4));
    }
}

/// Calls that take a long string each, and much of a second if nothing interrupts them.
#[test]
fn beside_a_single_long_call_others_are_answered_at_once() {
    let server = Process::start(&["--busy-reply-threshold", "20"]);
    let (mut slow, mut other) = (server.connect(), server.connect());
    let endless = [
        "while true do tonumber(s) end",
        "while true do tonumber(s, 16) end",
        "while true do pcall(function() return s + 0 end) end",
        "local a, b = s .. 'a', s .. 'b' while true do local c = a < b end",
        "local p = s .. 'x' while true do s:find(p) end",
        "while true do s:find('x', 1, true) end",
        "local p = '[' .. s .. ']' while true do ('x'):find(p) end",
        "local f = '%' .. s:gsub('1', '-') while true do pcall(string.format, f, 1) end",
        "while true do loadstring('return ' .. s) end",
        "local f = loadstring('error(1)', s) while true do pcall(f) end",
        "local f = loadstring('cjson.decode()', s) while true do pcall(f) end",
        "while true do redis.sha1hex(s) end",
        "while true do redis.error_reply(s) end",
        "while true do redis.status_reply(s) end",
        "while true do redis.log(redis.LOG_DEBUG, s) end",
        "while true do redis.pcall('nosuch', s) end",
        "while true do cjson.encode(s) end",
        "local j = '\"' .. s .. '\"' while true do cjson.decode(j) end",
        "local j = '[' .. s:gsub('1', ' ') .. ']' while true do cjson.decode(j) end",
        "while true do pcall(cjson.decode, s) end",
        "while true do cmsgpack.unpack(cmsgpack.pack(s)) end",
        "while true do struct.pack('s', s) end",
        "local f = s:gsub('1', ' ') while true do struct.size(f) struct.unpack(f, '') end",
    ];
    let mut subscriber = server.connect();
    subscriber.ask("SUBSCRIBE made");
    for script in endless {
        let script = script.replacen("while true do", "redis.call('PUBLISH', 'made', '') while true do", 1);
        let script = format!("local s = string.rep(string.rep('1', 2^16), 2^10) {script}");
        let before = Turns::of(&server);
        slow.send(&[b"EVAL", script.as_bytes(), b"0"]);
        subscriber.receive().unwrap();
        answers_beside(&mut slow, &mut other, &script);
        // Most of the turns make the string.
        before.were_short_since(&server, &script, Duration::from_micros(1500));
    }
}

fn answers_beside(slow: &mut Client<TcpStream>, other: &mut Client<TcpStream>, script: &str) {
    until_busy(other);
    (0..100).for_each(|_| assert!(other.ask("PING").starts_with("BUSY"), "{script}"));
    assert_eq!(other.ask("SCRIPT KILL"), "OK");
    slow.receive().unwrap();
}

/// What a server's main thread has done so far: others are answered once in a turn of its loop. The time of an answer
/// would tell what else the machine has to do.
struct Turns {
    count: u32,
    computed: Duration,
}

impl Turns {
    fn of(server: &Process) -> Turns {
        let figures = std::fs::read_to_string(format!("/proc/{}/schedstat", server.pid())).unwrap();
        let computed = Duration::from_nanos(figures.split(' ').next().unwrap().parse().unwrap());
        Turns { count: server.info("eventloop_cycles").unwrap().parse().unwrap(), computed }
    }

    fn were_short_since(&self, server: &Process, script: &str, mean_max: Duration) {
        let now = Turns::of(server);
        let mean = (now.computed - self.computed) / (now.count - self.count);
        assert!(mean < mean_max, "{mean:?} in a turn: {script}");
    }
}

#[test]
fn a_slow_script_is_one_instant() {
    let server = Process::start(&["--busy-reply-threshold", "20", "--appendonly", "yes"]);
    let (mut slow, mut other) = (server.connect(), server.connect());
    // In a transaction, so that what follows the script is part of the instant too.
    let script = "local function spin() local s = os.clock() + 0.15 while os.clock() < s do end end
        redis.call('SET', 'short', 'v', 'PX', 100)
        redis.call('HSET', 'h', 'f', 'v') redis.call('HPEXPIRE', 'h', 100, 'FIELDS', 1, 'f')
        spin()
        redis.call('SET', 'later', 'v', 'PX', 1000000)
        return {redis.call('PTTL', 'short'), redis.call('HPTTL', 'h', 'FIELDS', 1, 'f')[1],
            redis.call('PEXPIRETIME', 'later') - redis.call('PEXPIRETIME', 'short')}";
    let commands: [&[&[u8]]; 6] = [
        &[b"MULTI"],
        &[b"TIME"],
        &[b"EVAL", script.as_bytes(), b"0"],
        &[b"TIME"],
        &[b"PTTL", b"short"],
        &[b"EXEC"],
    ];
    let started = Instant::now();
    commands.iter().for_each(|words| slow.send(words));
    until_busy(&mut other);
    assert_eq!(other.ask("SELECT 3"), "OK", "it is allowed beside a slow script");
    assert_eq!(other.ask("SELECT 0"), "OK");
    (0..5).for_each(|_| assert!(!slow.receive().unwrap().is_error()));
    let reply = slow.receive().unwrap();
    let parts = reply.as_list().unwrap();
    assert_eq!(shown(&parts[0]), shown(&parts[2]), "time stands still until EXEC is done");
    assert_eq!(shown(&parts[1]), "[100 100 999900]");
    assert_eq!(shown(&parts[3]), "100");
    // Afterwards it has passed; the script's clock is the processor's, of all threads together.
    std::thread::sleep(Duration::from_millis(150).saturating_sub(started.elapsed()));
    assert_eq!(other.ask("GET short"), "Null");
    let now = other.ask("TIME");
    assert_ne!(now, shown(&parts[0]));
}

#[test]
fn who_waits_for_a_slow_script_is_not_idle() {
    let server = Process::start(&["--busy-reply-threshold", "20", "--timeout", "1"]);
    let mut slow = server.connect();
    let started = Instant::now();
    let answer = eval(&mut slow, "local s = os.clock() + 2.5 while os.clock() < s do end return 'done'");
    assert_eq!(answer, "done");
    assert!(started.elapsed() > Duration::from_secs(2), "it was long enough to be idle");
}

#[test]
fn another_client_does_not_end_a_slow_scripts_shortage_of_memory() {
    let server = Process::start(&["--busy-reply-threshold", "20"]);
    let (mut slow, mut other) = (server.connect(), server.connect());
    assert_eq!(other.ask("CONFIG SET maxmemory 1"), "OK");
    let script = "local until_s = os.clock() + 0.3 while os.clock() < until_s do end
        return redis.pcall('SET', 'k', 'v').err";
    slow.send(&[b"EVAL", script.as_bytes(), b"0"]);
    until_busy(&mut other);
    assert!(other.ask("PING").starts_with("BUSY"));
    let answer = shown(&slow.receive().unwrap());
    assert!(answer.contains("OOM"), "{answer}");
}

/// Time passes in a script that asks for it, and not for keys: what is there at its beginning is there at its end.
#[test]
fn a_script_may_wait_by_time() {
    let server = Process::start(&["--busy-reply-threshold", "100"]);
    let client = &mut server.connect();
    let waits = "redis.call('SET', 'k', 'v', 'PX', 20) \
                 local function now() local t = redis.call('TIME') return t[1] * 1000000 + t[2] end \
                 local began, last, steps = now(), 0, 0 \
                 while now() < began + tonumber(ARGV[1]) do \
                   local t = now() if t < last then return 'back' end last = t steps = steps + 1 end \
                 return {redis.call('EXISTS', 'k'), steps > 10 and 1 or 0}";
    // Within the time that scripts have, and beyond it.
    for us in ["50000", "400000"] {
        let began = Instant::now();
        client.send(&[b"EVAL", waits.as_bytes(), b"0", us.as_bytes()]);
        assert_eq!(shown(&client.receive().unwrap()), "[1 1]");
        let waited_us = us.parse().unwrap();
        assert!(began.elapsed() >= Duration::from_micros(waited_us));
        assert_eq!(client.ask("EXISTS k"), "0");
    }
}

/// The clock of a script counts the processor's cycles: it may be this much ahead of the system's.
const CLOCKS_DIFFER_US: u64 = 1000;

/// The scripts of one transaction, and what follows them in it, see one clock.
#[test]
fn time_does_not_go_back_within_a_transaction() {
    let server = Process::start(&["--busy-reply-threshold", "40"]);
    let client = &mut server.connect();
    let waits = "local function now() local t = redis.call('TIME') return t[1] * 1000000 + t[2] end
        local until_us = now() + tonumber(ARGV[1])
        while now() < until_us do end
        return redis.call('TIME')";
    // The first one of each round lasts, within the time that scripts have, or beyond it.
    for us in ["10000", "200000"] {
        let scripts = [us, "0", "1000", "0"].map(|us| [b"EVAL", waits.as_bytes(), b"0", us.as_bytes()]);
        client.send(&[b"MULTI"]);
        scripts.iter().for_each(|words| client.send(words));
        client.send(&[b"TIME"]);
        client.send(&[b"EXEC"]);
        (0..6).for_each(|_| assert!(!client.receive().unwrap().is_error()));
        let reply = client.receive().unwrap();
        let times: Vec<u64> = reply.as_list().unwrap().iter().map(microseconds).collect();
        assert!(times.is_sorted(), "{times:?}");
        assert!(times[1] >= times[0] && times[2] >= times[1] + 1000, "{times:?}");
        client.send(&[b"TIME"]);
        let later = microseconds(&client.receive().unwrap());
        assert!(later + CLOCKS_DIFFER_US >= times[4], "{later}, {times:?}");
    }
}

/// The time that TIME returned.
fn microseconds(time: &wire::response::Value) -> u64 {
    let parts = time.as_list().unwrap();
    let part = |index: usize| shown(&parts[index]).parse::<u64>().unwrap();
    part(0) * 1_000_000 + part(1)
}
