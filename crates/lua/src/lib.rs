//! Lua 5.1.5 with the changes that running untrusted scripts asks for. The crate only links the C sources in
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
//! | `lstrlib.c` | patterns: a limit of depth; `rep` of nothing ends at once; a format's flags are counted as they are passed over | scripts that cannot be stopped |
//! | `luaconf.h`, `lvm.c`, `lbaselib.c`, `llex.c` | a text of more than 1 MiB is no number | nothing interrupts the C library |
//! | `lvm.c`, `lobject.c` | strings are compared by bytes, a piece at a time; of a chunk's name no more is read than is shown | the same |
//! | `lapi.c`, `lauxlib.c`, `lbaselib.c`, `llex.c`, `lstrlib.c`, `ltablib.c` | `lua_spend`: loops in C count as instructions | the same |
//! | `lstate.c`, `lbaselib.c` | a coroutine goes on with the instruction count and the hook of who resumes it | coroutines within coroutines |
//! | `lstate.h`, `lstate.c`, `lgc.c`, `llex.c`, `lstring.c`, `ltable.c`, `lvm.c` | `luaE_work`: copying, hashing, collecting, growing tables let the host pause in the midst | one such step takes seconds at a gigabyte |
//! | `lapi.c` | `lua_raise`: an error that no script's error handler sees | one that goes on for ever within a hook |
//! | `lgc.c` | finalizers run protected, with hooks, and only while a script runs | their errors would pass through native code |
