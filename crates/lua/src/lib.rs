//! Lua 5.1.5, hardened for untrusted scripts. The crate only links the C sources in `lua-5.1.5/`; `mlua-sys` declares
//! their interface, and the functions added to it are declared where they are used.
//!
//! The sources are those of the `lua-src` crate (unmodified 5.1.5), without the libraries that access files, processes
//! and the debugger (`io`, `os`, `package`, `debug`), and changed as follows; each change is marked in place.
//!
//! | file | change | why |
//! |---|---|---|
//! | `lobject.h`, `ltable.c`, `lapi.c`, `lvm.c` | a table can be read-only, against `rawset` and `setmetatable` too | scripts share globals |
//! | `ldo.c`, `lundump.c` | chunks are source, never bytecode | bytecode is not verified |
//! | `lparser.c` | the chunk's name is anchored while it is parsed | CVE-2025-49844 |
//! | `llex.c` | long brackets of any level; a token before the first | CVE-2025-46819 |
//! | `lstring.c` | strings are hashed whole | collisions; the order of fields that scripts rely on |
//! | `lbaselib.c` | `unpack` counts without overflow | CVE-2025-46817 |
//! | `lstrlib.c` | patterns: a limit of depth; `rep` of the empty string ends at once; a format's flags are counted as they are skipped | scripts that cannot be stopped |
//! | `luaconf.h`, `lvm.c`, `lbaselib.c`, `llex.c` | a text of more than 1 MiB is not a number | the C library cannot be interrupted |
//! | `lvm.c`, `lobject.c` | strings are compared by bytes, a piece at a time; a chunk's name is read only as far as it is shown | the same |
//! | `lapi.c`, `lauxlib.c`, `lbaselib.c`, `llex.c`, `lstrlib.c`, `ltablib.c` | `lua_spend`: loops in C count as instructions | the same |
//! | `lstate.c`, `lbaselib.c` | a coroutine continues the instruction count and the hook of the thread that resumes it | coroutines within coroutines |
//! | `lstate.h`, `lstate.c`, `lgc.c`, `llex.c`, `lstring.c`, `ltable.c`, `lvm.c` | `luaE_work`: copying, hashing, collecting and growing tables let the host suspend the script in between | one such step takes seconds at a gigabyte |
//! | `lapi.c` | `lua_raise`: an error that bypasses scripts' error handlers | a handler that never returns within a hook |
//! | `lgc.c` | finalizers run protected, with hooks, and only while a script runs | their errors would pass through native code |
