//! Lua 5.1.5 with the changes that running strangers' scripts asks for. The crate only links the C sources in
//! `lua-5.1.5/`; `mlua-sys` declares their interface, and what is added to it is declared where it is used.
//!
//! The sources are those of the `lua-src` crate (pristine 5.1.5), without the libraries that reach files, processes
//! and the debugger (`io`, `os`, `package`, `debug`), and changed as follows; each change is marked in place.
//!
//! | file | change | why |
//! |---|---|---|
//! | `lobject.h`, `ltable.c`, `lapi.c`, `lvm.c` | a table can be read-only, against `rawset` and `setmetatable` too | scripts share globals |
//! | `ldo.c`, `lundump.c` | chunks are source, never bytecode | nothing verifies bytecode |
//! | `lparser.c` | the chunk's name is anchored while it is parsed | CVE-2025-49844 |
//! | `llex.c` | long brackets of any level; a token before the first | CVE-2025-46819 |
//! | `lstring.c` | strings are hashed whole | collisions; the order of fields that scripts know |
//! | `lbaselib.c` | `unpack` counts without overflow | CVE-2025-46817 |
//! | `lstrlib.c` | patterns: a limit of depth, and a hook now and then; `rep` of nothing ends at once | scripts that cannot be stopped |
