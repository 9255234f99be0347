//! Script flags: those in a script's first line, and those that a function was registered with.

use crate::error::quoted;

/// A set of the constants below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptFlags(u8);

impl ScriptFlags {
    /// Does not write.
    pub const NO_WRITES: ScriptFlags = ScriptFlags(1);
    /// Can run when memory is short.
    pub const ALLOW_OOM: ScriptFlags = ScriptFlags(2);
    /// Can run on a replica with stale data.
    pub const ALLOW_STALE: ScriptFlags = ScriptFlags(4);
    /// Cannot run in a cluster.
    pub const NO_CLUSTER: ScriptFlags = ScriptFlags(8);
    /// Can access keys of several slots.
    pub const ALLOW_CROSS_SLOT: ScriptFlags = ScriptFlags(16);

    /// Names in the order of FUNCTION LIST.
    pub const NAMES: [(ScriptFlags, &'static str); 5] = [
        (Self::NO_WRITES, "no-writes"),
        (Self::ALLOW_OOM, "allow-oom"),
        (Self::ALLOW_STALE, "allow-stale"),
        (Self::NO_CLUSTER, "no-cluster"),
        (Self::ALLOW_CROSS_SLOT, "allow-cross-slot-keys"),
    ];

    /// Whether any of these flags is set.
    pub fn has(self, flag: ScriptFlags) -> bool {
        self.0 & flag.0 != 0
    }

    /// This set and these flags.
    #[must_use]
    pub fn with(self, flag: ScriptFlags) -> Self {
        ScriptFlags(self.0 | flag.0)
    }

    /// The names of the set flags.
    pub fn names(self) -> impl Iterator<Item = &'static str> + Clone {
        Self::NAMES.into_iter().filter(move |&(flag, _)| self.has(flag)).map(|(_, name)| name)
    }
}

/// The first line of a script for EVAL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvalHead {
    /// Bytes before the code.
    pub len: usize,
    /// `None` without a `#!` line: the permissions of the script are those of its commands.
    pub flags: Option<ScriptFlags>,
}

/// Reads `#!lua flags=...`.
pub fn eval_head(body: &[u8]) -> Result<EvalHead, String> {
    if !body.starts_with(b"#!") {
        return Ok(EvalHead { len: 0, flags: None });
    }
    let Some(len) = body.iter().position(|&byte| byte == b'\n') else {
        return Err("Invalid script shebang".into());
    };
    let words = words(&body[..len]).filter(|words| words.first().is_some_and(|word| word.len() >= 2));
    let Some(words) = words else { return Err("Invalid engine in script shebang".into()) };
    let mut flags = ScriptFlags::default();
    for word in &words[1..] {
        let Some(list) = word.strip_prefix(b"flags=") else {
            return Err(format!("Unknown lua shebang option: {}", quoted(word)));
        };
        for name in list.split(|&byte| byte == b',').filter(|_| !list.is_empty()) {
            let known = ScriptFlags::NAMES.iter().find(|(_, known)| known.as_bytes() == name);
            let Some(&(flag, _)) = known else {
                let name = quoted(name);
                return Err(format!("Unexpected flag in script shebang: {name}"));
            };
            flags = flags.with(flag);
        }
    }
    if !words[0][2..].eq_ignore_ascii_case(b"lua") {
        let engine = quoted(&words[0][2..]);
        return Err(format!("Could not find scripting engine '{engine}'"));
    }
    Ok(EvalHead { len, flags: Some(flags) })
}

/// The first line of a library: its name, and the length of the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryHead {
    /// Length of the line.
    pub len: usize,
    /// Name of the library.
    pub name: Vec<u8>,
}

/// Reads `#!lua name=...`.
pub fn library_head(code: &[u8]) -> Result<LibraryHead, String> {
    if !code.starts_with(b"#!") {
        return Err("Missing library metadata".into());
    }
    let len = code.iter().position(|&byte| byte == b'\n').ok_or("Invalid library metadata")?;
    let words = words(&code[..len]).filter(|words| !words.is_empty()).ok_or("Invalid library metadata")?;
    let mut name = None;
    for word in &words[1..] {
        let value =
            word.get(..5).filter(|key| key.eq_ignore_ascii_case(b"name=")).map(|_| word[5..].to_vec());
        match value {
            Some(_) if name.is_some() => {
                return Err("Invalid metadata value, name argument was given multiple times".into());
            }
            Some(value) => name = Some(value),
            None => return Err(format!("Invalid metadata value given: {}", quoted(word))),
        }
    }
    let name = name.ok_or("Library name was not given")?;
    if !is_name(&name) {
        return Err(
            "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long"
                .into(),
        );
    }
    if !words[0][2..].eq_ignore_ascii_case(b"lua") {
        return Err(format!("Engine '{}' not found", quoted(&words[0][2..])));
    }
    Ok(LibraryHead { len, name })
}

/// Whether `name` is a valid name for libraries and functions.
pub fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|&byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Splits a line into words as the inline protocol does; `None` if its quotes do not match.
fn words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    wire::request::split_args(line).ok()
}
