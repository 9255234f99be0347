//! Loading the startup configuration.

use super::*;
use crate::config::*;

const DIRECTIVES: &str = include_str!("directives.conf");

#[test]
fn every_directive_of_the_reference_is_accepted() {
    let mut arguments = Vec::new();
    for line in DIRECTIVES.lines().filter(|line| !line.starts_with('#')) {
        if let Err(error) = load_text(line) {
            panic!("{line}: {error}");
        }
        arguments.push(line);
    }
    assert!(arguments.len() > 225);
    let startup = load_text(arguments.join("\n")).unwrap();
    assert_eq!(startup.modules.len(), 3);
    assert_eq!(startup.rename_commands.len(), 2);
    assert_eq!(startup.users.len(), 1);
}

#[test]
fn the_reference_file_itself() {
    let Some(path) = std::env::var_os("VALKEY_CONF") else { return };
    load_file(Path::new(&path)).unwrap();
    let text = std::fs::read_to_string(path).unwrap();
    let known: Vec<&str> = DIRECTIVES.lines().collect();
    for line in text.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase())) {
        assert!(known.contains(&line), "directives.conf lacks {line}");
    }
}

#[test]
fn obsolete_directives_are_ignored() {
    let config = configured("list-max-ziplist-entries 3\nIO-threads-do-reads yes\ndynamic-hz no\n");
    assert!(config == Config::default());
    assert!(load_text("dynamic-hz").is_err());
}

#[test]
fn quotes_escapes_blanks_and_comments() {
    let config = configured(
        b"\r\n  # a comment\r\n\tREQUIREPASS \"a \\x41\\n\\\"b\\\"\"\r\nmasterauth 'it\\'s'\nlogfile \"\"\n\
          dbfilename  x.rdb  \nprimaryuser abc\"d e\"f",
    );
    assert_eq!(config.requirepass.unwrap(), b"a A\n\"b\"");
    assert_eq!(config.primaryauth.unwrap(), b"it's");
    assert_eq!(config.dbfilename, b"x.rdb");
    assert_eq!(config.primaryuser.unwrap(), b"abcd ef");
}

#[test]
fn save_points_add_up() {
    let points = |text: &str| value(&configured(text), "save");
    assert_eq!(points(""), "3600 1 300 100 60 10000");
    assert_eq!(points("save 100 100"), "100 100");
    assert_eq!(points("save 900 1\nsave 100 100"), "900 1 100 100");
    assert_eq!(points("save 900 1\nsave \"\""), "");
    assert_eq!(points("save \"\"\nsave 1 2"), "1 2");
    assert_eq!(points("save \"900 1 300 10\""), "900 1 300 10");
}

#[test]
fn command_line_options() {
    let config = |arguments: &[&str]| load(arguments).unwrap().config;
    assert_eq!(config(&["--port", "6380"]).port, 6380);
    assert_eq!(config(&["--port 6380"]).port, 6380);
    assert_eq!(config(&["--port 6380", "--hz", "20"]).hz, 20);
    assert_eq!(value(&config(&["--bind", "127.0.0.1", "::1", "--port", "1"]), "bind"), "127.0.0.1 ::1");
    assert_eq!(value(&config(&["--save", "900 1 300 10"]), "save"), "900 1 300 10");
    assert_eq!(value(&config(&["--save", "900", "1", "--save", "3", "10"]), "save"), "900 1 3 10");
    assert_eq!(value(&config(&["--save", ""]), "save"), "");
    assert_eq!(value(&config(&["--save"]), "save"), "");
    assert_eq!(value(&config(&["--save", "--port", "7"]), "save"), "");
    assert_eq!(config(&["--save", "--port", "7"]).port, 7);
    let flags = config(&["--shutdown-on-sigint", "nosave force", "--shutdown-on-sigterm", "now"]);
    assert_eq!(value(&flags, "shutdown-on-sigint"), "nosave force");
    assert_eq!(value(&flags, "shutdown-on-sigterm"), "now");
    // A value can look like an option.
    assert_eq!(config(&["--requirepass", "--port", "--hz", "3"]).requirepass.unwrap(), b"--port");
    assert_eq!(config(&["--slaveof", "no", "one"]).replicaof, None);
    assert!(load(&[]).unwrap().config == Config::default());
}

#[test]
fn command_line_errors() {
    let cases: &[(&[&str], &str, &str)] = &[
        (&["--invalid"], ">>> 'invalid'", "Bad directive or wrong number of arguments"),
        (&["--port"], ">>> 'port'", "wrong number of arguments"),
        (&["--port", "6380", "--loglevel"], ">>> 'loglevel'", "wrong number of arguments"),
        (&["--port", "6379", "6380"], ">>> 'port \"6379\" \"6380\"'", "wrong number of arguments"),
        (&["--port", "--loglevel", "verbose"], ">>> 'port \"--loglevel\" \"verbose\"'", "wrong number"),
        (
            &["--port", "--bla", "--loglevel", "x"],
            ">>> 'port \"--bla\"'",
            "couldn't be parsed into an integer",
        ),
        (&["--shutdown-on-sigint"], ">>> 'shutdown-on-sigint'", "argument(s) must be one of the following"),
        (
            &["--replicaof", "127.0.0.1", "abc"],
            ">>> 'replicaof \"127.0.0.1\" \"abc\"'",
            "Invalid primary port",
        ),
        (
            &["--replicaof", "--127.0.0.1", "--abc"],
            ">>> 'replicaof \"--127.0.0.1\"'",
            "wrong number of arguments",
        ),
        (
            &["--include", "/nonexistent"],
            "can't open config file '/nonexistent'",
            "No such file or directory",
        ),
        (&["--sentinel"], ">>> 'sentinel'", "sentinel directive while not in sentinel mode"),
        (&["--foo.bar"], ">>> 'foo.bar'", "Module config specified without value"),
        (
            &["--logfile", "/nonexistent/x"],
            "FATAL CONFIG FILE ERROR",
            "Can't open the log file /nonexistent/x: No such file",
        ),
    ];
    for (arguments, shown, reason) in cases {
        let text = load(arguments).unwrap_err().to_string();
        assert!(text.contains(shown) && text.contains(reason), "{arguments:?}: {text}");
    }
}

#[test]
fn an_error_names_file_line_and_word() {
    let scratch = Scratch::new();
    let bad = scratch.write("bad.conf", "port 6380\n\nBogus \"a b\"");
    let expected = format!(
        "\n*** FATAL CONFIG FILE ERROR (Version {}) ***\n\
         Reading the configuration file, at line 3\n\
         >>> 'Bogus \"a b\"'\n\
         Bad directive or wrong number of arguments\n\
         ({}, line 3, directive 'bogus')",
        env!("CARGO_PKG_VERSION"),
        bad.display()
    );
    assert_eq!(load_file(&bad).unwrap_err().to_string(), expected);
    // The same error from a file that includes it.
    let outer = scratch.write("outer.conf", format!("save \"\"\n\n\ninclude {}\n", bad.display()));
    assert_eq!(load_file(&outer).unwrap_err().to_string(), expected);
}

#[test]
fn file_then_standard_input_then_options() {
    let scratch = Scratch::new();
    let file = scratch.write("a.conf", "port 1\nhz 1\ntimeout 1\n");
    let arguments = |rest: &[&str]| {
        let all = std::iter::once(file.as_os_str().to_owned()).chain(rest.iter().map(OsString::from));
        all.collect::<Vec<_>>()
    };
    let mut input: &[u8] = b"hz 2\ntimeout 2";
    let startup = Config::load_with_input(&arguments(&["--timeout", "3", "-"]), &mut input).unwrap();
    let config = startup.config;
    assert_eq!((config.port, config.hz, config.timeout_seconds), (1, 2, 3));
    assert!(startup.read_standard_input);
    assert_eq!(config.config_file.as_deref(), Some(file.as_path()));
    // A dash in the middle is a value.
    let mut input: &[u8] = b"hz 2";
    let startup =
        Config::load_with_input(&arguments(&["--requirepass", "-", "--port", "4"]), &mut input).unwrap();
    assert_eq!((startup.config.hz, startup.config.requirepass.unwrap()), (1, b"-".to_vec()));
    let error = Config::load_with_input(&arguments(&["--foo", "1"]), &mut std::io::empty()).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("Reading the options of the command line\n>>> 'foo \"1\"'")
            && text.contains("(the command line, directive"),
        "{text}"
    );
}

#[test]
fn includes() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path("conf.d/directory.conf")).unwrap();
    scratch.write("conf.d/20-b.conf", "hz 20\ntimeout 20");
    scratch.write("conf.d/10-a.conf", "hz 10\nport 10");
    scratch.write("conf.d/.hidden.conf", "bogus");
    let main = scratch.write(
        "main.conf",
        format!(
            "dir {}\ninclude conf.d/*.conf\ninclude none/*.conf\ndir conf.d\ninclude 10-a.conf\n",
            scratch.0.display()
        ),
    );
    let config = load_file(&main).unwrap().config;
    assert_eq!((config.hz, config.port, config.timeout_seconds), (10, 10, 20));
    assert_eq!(config.dir, scratch.path("conf.d"));
}

#[test]
fn include_loops_and_towers_end_with_an_error() {
    let scratch = Scratch::new();
    let a = scratch.path("a.conf");
    scratch.write("b.conf", format!("hz 7\ninclude {}", a.display()));
    scratch.write("a.conf", format!("\ninclude {}", scratch.path("b.conf").display()));
    let text = load_file(&a).unwrap_err().to_string();
    let expected = format!(
        "Fatal error, can't open config file '{}': it includes itself\nIncluded from {}, line 2",
        a.display(),
        scratch.path("b.conf").display()
    );
    assert_eq!(text, expected);

    for level in 0..70 {
        let next = scratch.path(&format!("{}.tower", level + 1));
        scratch.write(&format!("{level}.tower"), format!("include {}", next.display()));
    }
    let text = load_file(&scratch.path("0.tower")).unwrap_err().to_string();
    assert!(text.contains("more than 64 files include each other"), "{text}");

    // Twenty files that each include the next one twice would cause a million reads.
    for level in 0..20 {
        let next = scratch.path(&format!("{}.bomb", level + 1));
        scratch.write(&format!("{level}.bomb"), format!("include {0}\ninclude {0}", next.display()));
    }
    scratch.write("20.bomb", "");
    let text = load_file(&scratch.path("0.bomb")).unwrap_err().to_string();
    assert!(text.contains("more than 10000 files are included"), "{text}");
}

#[test]
fn files_that_cannot_be_read() {
    let scratch = Scratch::new();
    let text = load_file(&scratch.path("missing.conf")).unwrap_err().to_string();
    assert!(text.ends_with("missing.conf': No such file or directory"), "{text}");
    let text = load_file(&scratch.0).unwrap_err().to_string();
    assert!(text.ends_with("Is a directory"), "{text}");
    let text = load_file(Path::new("/dev/zero")).unwrap_err().to_string();
    assert!(text.ends_with("the configuration exceeds 67108864 bytes"), "{text}");
}

#[test]
fn hostile_text() {
    let reason = |text: &[u8]| load_text(text).unwrap_err().to_string();
    assert!(reason(b"requirepass a\0b").contains("Zero byte in configuration line"));
    assert!(reason(b"requirepass \"a").contains("Unbalanced quotes in configuration line"));
    assert!(reason(b"save \"900 '1\"").contains("Unbalanced quotes in configuration line"));
    assert!(reason(b"\xff\xfe bogus").contains("Bad directive"));
    assert!(reason(b"\"\" 1").contains("Bad directive"));
    assert_eq!(configured(b"port 7").port, 7);
    assert_eq!(configured(b"\x0b\nport 7\r").port, 7);
    let long = "x".repeat(5 << 20);
    assert_eq!(configured(format!("requirepass {long}")).requirepass.unwrap().len(), 5 << 20);
    assert!(reason(format!("port {long}").as_bytes()).contains("couldn't be parsed into an integer"));
    // Every truncation of the examples is accepted or refused, without a crash.
    for end in (0..DIRECTIVES.len()).step_by(7) {
        let _ = load_text(&DIRECTIVES[..end]);
    }
}

#[test]
fn directives_for_others_keep_their_place() {
    let startup =
        load_text("\nUSER alice on\nRename-Command GET fetch\nmod.opt a 'b c'\nloadmodule x.so 1").unwrap();
    let [user] = &startup.users[..] else { panic!() };
    assert_eq!(user.words, [b"user".to_vec(), b"alice".to_vec(), b"on".to_vec()]);
    let text = ConfigError::at(&user.place, "Error in user declaration 'alice': why").to_string();
    assert!(
        text.contains("at line 2\n>>> 'USER alice on'\nError in user declaration 'alice': why"),
        "{text}"
    );
    assert!(text.ends_with("(standard input, line 2, directive 'user')"), "{text}");
    assert_eq!(startup.rename_commands[0].words[1..], [b"GET".to_vec(), b"fetch".to_vec()]);
    assert_eq!(startup.module_options[0].words[2], b"b c");
    assert_eq!(startup.modules[0].words.len(), 3);
}

#[test]
fn arguments_that_are_not_text() {
    let arguments = [OsString::from("--requirepass"), OsString::from_vec(b"\xff\"\\\n".to_vec())];
    let config = Config::load_with_input(&arguments, &mut std::io::empty()).unwrap().config;
    assert_eq!(config.requirepass, Some(bytes(arguments[1].clone())));
}
