//! The values of a Lua state by their position on its stack.

use super::{CStr, PhantomData, c_char, c_int, ffi};
use super::{Native, Reference, ask, lua_isreadonly, lua_setreadonly, pause, shared_of, trampoline};
use wire::convert::{int_len, whole_i64};

/// Values that a native function may push without reserving room.
const ROOM_AT_FIRST: u32 = ffi::LUA_MINSTACK as u32;
/// Bytes of a long string that native code reads per step, and the maximum number of steps counted.
const BYTES_PER_STEP: usize = 128;
const STEPS_MAX: u32 = 1 << 24;
/// Steps of native code between two checks of the script.
const STEPS_PER_CHECKPOINT: u32 = 1024;
/// Bytes of a long string that native code reads before it may yield.
pub const PIECE_BYTES: usize = 1 << 17;
/// Maximum length read of a chunk's name: scripts choose it freely.
const SOURCE_BYTES_MAX: usize = 4096;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No value at this position.
    None,
    /// `nil`.
    Nil,
    /// `true` or `false`.
    Boolean,
    /// An address; this server uses only the null one, which is `cjson.null`.
    Pointer,
    /// A number.
    Number,
    /// A string.
    String,
    /// A table.
    Table,
    /// A function.
    Function,
    /// A full userdata.
    Userdata,
    /// A coroutine.
    Thread,
}

impl Kind {
    fn of(kind: c_int) -> Self {
        match kind {
            ffi::LUA_TNIL => Kind::Nil,
            ffi::LUA_TBOOLEAN => Kind::Boolean,
            ffi::LUA_TLIGHTUSERDATA => Kind::Pointer,
            ffi::LUA_TNUMBER => Kind::Number,
            ffi::LUA_TSTRING => Kind::String,
            ffi::LUA_TTABLE => Kind::Table,
            ffi::LUA_TFUNCTION => Kind::Function,
            ffi::LUA_TUSERDATA => Kind::Userdata,
            ffi::LUA_TTHREAD => Kind::Thread,
            _ => Kind::None,
        }
    }

    /// The name that Lua's `type` returns.
    pub fn name(self) -> &'static str {
        match self {
            Kind::None => "no value",
            Kind::Nil => "nil",
            Kind::Boolean => "boolean",
            Kind::Pointer | Kind::Userdata => "userdata",
            Kind::Number => "number",
            Kind::String => "string",
            Kind::Table => "table",
            Kind::Function => "function",
            Kind::Thread => "thread",
        }
    }
}

/// An error of a native function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an error is raised by returning it"]
pub enum Raise {
    /// The value on top of the stack.
    Value,
    /// The text on top of the stack is about this argument.
    Argument(i32),
}

/// Where a function was called from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Name of the source.
    pub source: String,
    /// Line in the source, from 1.
    pub line: i32,
    /// Whether the caller is a native function.
    pub is_native: bool,
}

/// A view of the stack: values from 1 on, or from -1 down from the top.
pub struct Stack<'a, H: ?Sized + 'static> {
    state: *mut ffi::lua_State,
    room: u32,
    /// Steps of long-running native code.
    steps: u32,
    _borrowed: PhantomData<(&'a mut (), fn(&mut H))>,
}

impl<H: ?Sized + 'static> Stack<'_, H> {
    pub(super) fn new(state: *mut ffi::lua_State) -> Self {
        Stack { state, room: ROOM_AT_FIRST, steps: 0, _borrowed: PhantomData }
    }

    /// Number of values on the stack.
    pub fn top(&self) -> i32 {
        // SAFETY: invariant 5 of `lua`: reads a number of a state that is alive.
        unsafe { ffi::lua_gettop(self.state) }
    }

    /// Checks an index; see invariant 1.
    #[inline]
    fn at(&self, index: i32) -> c_int {
        assert!(index > 0 || index < 0 && -index <= self.top(), "no value at {index}");
        index
    }

    #[inline]
    fn table_at(&self, index: i32) -> c_int {
        assert!(self.kind(index) == Kind::Table, "no table at {index}");
        index
    }

    /// Reserves room to push `values` values; `false` if the stack may not become that large.
    pub fn reserve(&mut self, values: u32) -> bool {
        // SAFETY: invariant 1 of `lua`: either makes the room or answers 0.
        let granted = unsafe { ffi::lua_checkstack(self.state, (values + 1).cast_signed()) } != 0;
        if granted {
            self.room = self.room.max(values + 1);
        }
        granted
    }

    #[inline]
    fn about_to_push(&mut self) {
        if self.room <= 1 {
            assert!(self.reserve(ROOM_AT_FIRST) || self.reserve(1), "large pushes reserve room first");
        }
        self.room -= 1;
    }

    /// Drops values above `top`, or fills up with nils.
    pub fn set_top(&mut self, top: i32) {
        let missing = top - self.top();
        assert!(top >= 0 && (missing <= 0 || self.reserve(missing as u32)), "the stack has room");
        // SAFETY: invariant 1 of `lua`: the new top is within the stack.
        unsafe { ffi::lua_settop(self.state, top) };
    }

    /// Drops values from the top.
    #[inline]
    pub fn pop(&mut self, values: i32) {
        let top = self.top() - values;
        assert!(values >= 0 && top >= 0, "no more values to pop");
        // SAFETY: invariant 1 of `lua`, as in `set_top`.
        unsafe { ffi::lua_settop(self.state, top) };
    }

    /// The type of a value.
    #[inline]
    pub fn kind(&self, index: i32) -> Kind {
        // SAFETY: invariant 1 of `lua`: the index is checked; one beyond the top is answered for.
        Kind::of(unsafe { ffi::lua_type(self.state, self.at(index)) })
    }

    /// Pushes nil.
    pub fn push_nil(&mut self) {
        self.about_to_push();
        // SAFETY: invariant 1 of `lua`: there is room.
        unsafe { ffi::lua_pushnil(self.state) };
    }

    /// Pushes a boolean.
    pub fn push_boolean(&mut self, value: bool) {
        self.about_to_push();
        // SAFETY: invariant 1 of `lua`: there is room.
        unsafe { ffi::lua_pushboolean(self.state, c_int::from(value)) };
    }

    /// Pushes a number.
    #[inline]
    pub fn push_number(&mut self, value: f64) {
        self.about_to_push();
        // SAFETY: invariant 1 of `lua`: there is room.
        unsafe { ffi::lua_pushnumber(self.state, value) };
    }

    /// Pushes a string.
    #[inline]
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        self.about_to_push();
        // SAFETY: invariant 1 of `lua`: there is room; Lua copies the bytes.
        unsafe { ffi::lua_pushlstring_(self.state, bytes.as_ptr().cast(), bytes.len()) };
    }

    /// Pushes the null pointer, `cjson.null`.
    pub fn push_null_pointer(&mut self) {
        self.about_to_push();
        // SAFETY: invariant 1 of `lua`: there is room; the address is never looked at.
        unsafe { ffi::lua_pushlightuserdata(self.state, std::ptr::null_mut()) };
    }

    /// Pushes a native function.
    pub fn push_native(&mut self, native: Native<H>) {
        self.about_to_push();
        self.about_to_push();
        // SAFETY: invariant 1 of `lua`: there is room; the trampoline of this type of host expects exactly
        // this value.
        unsafe {
            ffi::lua_pushlightuserdata(self.state, native as *mut _);
            ffi::lua_pushcclosure(self.state, trampoline::<H>, 1);
        }
    }

    /// As [`Self::push_native`], for a function bound to the value on top.
    pub fn push_native_with(&mut self, native: Native<H>) {
        self.at(-1);
        self.about_to_push();
        self.about_to_push();
        // SAFETY: invariant 1 of `lua`: there is room; the trampoline finds the function first, and
        // `push_companion` the value second.
        unsafe {
            ffi::lua_pushlightuserdata(self.state, native as *mut _);
            ffi::lua_insert(self.state, -2);
            ffi::lua_pushcclosure(self.state, trampoline::<H>, 2);
        }
    }

    /// Pushes the value that the native function is bound to; nil if there is none.
    pub fn push_companion(&mut self) {
        self.about_to_push();
        // SAFETY: invariant 1 of `lua`: there is room; Lua answers nil for a value that the function has
        // not.
        unsafe { ffi::lua_pushvalue(self.state, ffi::lua_upvalueindex(2)) };
    }

    /// Pushes a copy of a value.
    pub fn push_value(&mut self, index: i32) {
        let index = self.at(index);
        self.about_to_push();
        // SAFETY: invariant 1 of `lua`: the index is checked and there is room.
        unsafe { ffi::lua_pushvalue(self.state, index) };
    }

    /// Pushes the table of globals.
    pub fn push_globals(&mut self) {
        self.about_to_push();
        // SAFETY: invariant 1 of `lua`: there is room.
        unsafe { ffi::lua_pushvalue(self.state, ffi::LUA_GLOBALSINDEX) };
    }

    /// Pushes Lua's registry, a table that scripts cannot reach.
    pub fn push_registry(&mut self) {
        self.about_to_push();
        // SAFETY: invariant 1 of `lua`: there is room.
        unsafe { ffi::lua_pushvalue(self.state, ffi::LUA_REGISTRYINDEX) };
    }

    /// Makes the table on top the globals of chunks loaded from now on.
    pub fn replace_globals(&mut self) {
        self.table_at(-1);
        // SAFETY: invariant 3 of `lua`: the value is a table.
        unsafe { ffi::lua_replace(self.state, ffi::LUA_GLOBALSINDEX) };
    }

    /// Moves the value on top to `index`.
    pub fn insert(&mut self, index: i32) {
        assert!(self.kind(index) != Kind::None, "no value at {index}");
        // SAFETY: invariant 1 of `lua`: the index is of a value.
        unsafe { ffi::lua_insert(self.state, index) };
    }

    /// Removes the value at `index`.
    pub fn remove(&mut self, index: i32) {
        assert!(self.kind(index) != Kind::None, "no value at {index}");
        // SAFETY: invariant 1 of `lua`: the index is of a value.
        unsafe { ffi::lua_remove(self.state, index) };
    }

    /// The bytes of a string; numbers are not strings here.
    #[inline]
    pub fn bytes(&self, index: i32) -> Option<&[u8]> {
        if self.kind(index) != Kind::String {
            return None;
        }
        let mut len = 0;
        // SAFETY: invariant 3 of `lua`: the value is a string, so it is not converted. Its bytes stay while
        // it is on the stack, and the borrow keeps everything on it.
        unsafe {
            let bytes = ffi::lua_tolstring(self.state, index, &mut len);
            Some(std::slice::from_raw_parts(bytes.cast(), len))
        }
    }

    /// A number as `tostring` converts it, or a string's bytes.
    pub fn text(&mut self, index: i32) -> Option<Vec<u8>> {
        match self.kind(index) {
            Kind::String => {
                let mut text = Vec::new();
                self.append_bytes(index, &mut text);
                Some(text)
            }
            Kind::Number => {
                self.push_value(index);
                // SAFETY: invariant 3 of `lua`: converts the copy on top of the stack, which no
                // table iteration uses.
                unsafe { ffi::lua_tolstring(self.state, -1, std::ptr::null_mut()) };
                let text = self.bytes(-1).map(<[u8]>::to_vec);
                self.pop(1);
                text
            }
            _ => None,
        }
    }

    /// As [`Self::text`], but only the first bytes of a string.
    pub fn text_up_to(&mut self, index: i32, bytes_max: usize) -> Option<Vec<u8>> {
        match self.bytes(index) {
            Some(bytes) => Some(bytes[..bytes.len().min(bytes_max)].to_vec()),
            None => self.text(index),
        }
    }

    /// Appends the bytes of a string, a piece at a time.
    pub fn append_bytes(&mut self, index: i32, out: &mut Vec<u8>) {
        let len = self.bytes(index).map_or(0, <[u8]>::len);
        out.reserve(len);
        for start in (0..len).step_by(PIECE_BYTES) {
            let end = len.min(start + PIECE_BYTES);
            out.extend_from_slice(self.bytes(index).map_or(&[], |bytes| &bytes[start..end]));
            self.count_bytes(end - start);
        }
    }

    /// A number, or a string's value as a number.
    #[inline]
    pub fn number(&self, index: i32) -> Option<f64> {
        let index = self.at(index);
        // SAFETY: invariant 1 of `lua`: the index is checked, and reading converts nothing in place.
        unsafe {
            let number = ffi::lua_tonumber(self.state, index);
            (number != 0.0 || ffi::lua_isnumber(self.state, index) != 0).then_some(number)
        }
    }

    /// Whether the value counts as true.
    pub fn truth(&self, index: i32) -> bool {
        // SAFETY: invariant 1 of `lua`: the index is checked.
        unsafe { ffi::lua_toboolean(self.state, self.at(index)) != 0 }
    }

    /// Whether the value is the null pointer.
    pub fn is_null_pointer(&self, index: i32) -> bool {
        // SAFETY: invariant 1 of `lua`: the index is checked.
        self.kind(index) == Kind::Pointer && unsafe { ffi::lua_touserdata(self.state, index) }.is_null()
    }

    /// Pushes a table with room for `elements` in sequence and `others`.
    pub fn push_table(&mut self, elements: usize, others: usize) {
        self.about_to_push();
        let (elements, others) = (elements.min(1 << 26), others.min(1 << 26));
        // SAFETY: invariant 1 of `lua`: there is room on the stack; the sizes are within what Lua can count.
        unsafe { ffi::lua_createtable(self.state, int_len(elements), int_len(others)) };
    }

    /// Replaces the key on top by its value in the table, raw.
    pub fn get(&mut self, table: i32) {
        self.table_at(table);
        // SAFETY: invariant 3 of `lua`: the value is a table, and a key is on top of it.
        unsafe { ffi::lua_rawget_(self.state, table) };
    }

    /// Pushes the table's element of this number, raw.
    pub fn get_element(&mut self, table: i32, number: i32) {
        self.table_at(table);
        self.about_to_push();
        // SAFETY: invariant 1 of `lua`: the value is a table and there is room.
        unsafe { ffi::lua_rawgeti_(self.state, table, number) };
    }

    /// Pushes the table's field of this name, raw.
    pub fn get_field(&mut self, table: i32, name: &str) {
        self.push_bytes(name.as_bytes());
        self.get(if table < 0 { table - 1 } else { table });
    }

    fn may_change(&mut self, table: i32) {
        // SAFETY: invariant 3 of `lua`: `table_at` has seen that the value is a table.
        let readonly = unsafe { lua_isreadonly(self.state, self.table_at(table)) } != 0;
        assert!(!readonly, "the server changes no table that it has locked");
    }

    /// Pops the key and the value on top of it, and stores them in the table, raw. A key that no table can have is an
    /// error.
    pub fn set(&mut self, table: i32) -> Result<(), Raise> {
        self.may_change(table);
        match self.kind(-2) {
            Kind::Nil => {
                self.push_bytes(b"table index is nil");
                return Err(Raise::Value);
            }
            Kind::Number if self.number(-2).is_some_and(f64::is_nan) => {
                self.push_bytes(b"table index is NaN");
                return Err(Raise::Value);
            }
            _ => {}
        }
        // SAFETY: invariant 3 of `lua`: the value is a table that may be changed, and the key is one that it
        // can have.
        unsafe { ffi::lua_rawset(self.state, table) };
        Ok(())
    }

    /// Pops the value on top into the table's element of this number.
    pub fn set_element(&mut self, table: i32, number: i32) {
        self.may_change(table);
        // SAFETY: invariant 3 of `lua`: the value is a table that may be changed.
        unsafe { ffi::lua_rawseti(self.state, table, number.into()) };
    }

    /// Pops the value on top into the table's field of this name.
    pub fn set_field(&mut self, table: i32, name: &str) {
        self.may_change(table);
        self.push_bytes(name.as_bytes());
        self.insert(-2);
        // SAFETY: invariant 3 of `lua`: the value is a table that may be changed, and a string is a key.
        unsafe { ffi::lua_rawset(self.state, if table < 0 { table - 1 } else { table }) };
    }

    /// The border of the table's sequence.
    pub fn len(&self, table: i32) -> usize {
        // SAFETY: invariant 3 of `lua`: the value is a table.
        unsafe { ffi::lua_objlen(self.state, self.table_at(table)) }
    }

    /// Replaces the key on top by the next key and its value; at the end removes the key and returns `false`. No new keys
    /// may be added to the table meanwhile.
    pub fn next(&mut self, table: i32) -> bool {
        self.table_at(table);
        self.about_to_push();
        // SAFETY: invariant 3 of `lua`: the value is a table, and the key on top came from it (or is nil,
        // for the first).
        unsafe { ffi::lua_next(self.state, table) != 0 }
    }

    /// Pushes the metatable of a value, if it has one.
    pub fn push_metatable(&mut self, index: i32) -> bool {
        let index = self.at(index);
        self.about_to_push();
        // SAFETY: invariant 1 of `lua`: the index is checked and there is room.
        unsafe { ffi::lua_getmetatable(self.state, index) != 0 }
    }

    /// Pops the table on top and makes it the metatable of a table.
    pub fn set_metatable(&mut self, table: i32) {
        self.may_change(table);
        self.table_at(-1);
        // SAFETY: invariant 3 of `lua`: both are tables, and the one may be changed.
        unsafe { ffi::lua_setmetatable(self.state, table) };
    }

    /// Whether scripts may change the table.
    pub fn is_readonly(&self, table: i32) -> bool {
        // SAFETY: invariant 3 of `lua`: the value is a table.
        unsafe { lua_isreadonly(self.state, self.table_at(table)) != 0 }
    }

    /// Sets whether scripts may change the table.
    pub fn set_readonly(&mut self, table: i32, readonly: bool) {
        // SAFETY: invariant 3 of `lua`: the value is a table.
        unsafe { lua_setreadonly(self.state, self.table_at(table), c_int::from(readonly)) };
    }

    /// Compiles source and pushes the function, or the compiler's error message.
    pub fn load(&mut self, source: &[u8], chunk_name: &CStr) -> bool {
        self.about_to_push();
        // SAFETY: invariant 3 of `lua`: Lua reads the bytes while it compiles, and does so protected;
        // bytecode is refused as bad source.
        unsafe {
            let bytes: *const c_char = source.as_ptr().cast();
            ffi::luaL_loadbuffer(self.state, bytes, source.len(), chunk_name.as_ptr()) == ffi::LUA_OK
        }
    }

    /// Calls the function below its `arguments`; they are replaced by all its results, or by one error value. `false` if
    /// it failed.
    pub fn call(&mut self, arguments: i32) -> bool {
        assert!(self.kind(-1 - arguments) != Kind::None, "a function and its arguments are on the stack");
        // SAFETY: invariant 3 of `lua`: the function is entered protected. It is a script, so the memory
        // limit holds for it.
        unsafe {
            let shared = shared_of::<H>(self.state);
            (*shared).memory.limited = true;
            let status = ffi::lua_pcall(self.state, arguments, ffi::LUA_MULTRET, 0);
            (*shared).memory.limited = false;
            self.room = 0;
            status == ffi::LUA_OK
        }
    }

    /// Pops the value on top and holds it.
    pub fn keep(&mut self) -> Reference {
        assert!(self.top() > 0, "a value is on the stack");
        // SAFETY: invariant 3 of `lua`: the registry is a table that only this module changes.
        Reference(unsafe { ffi::luaL_ref(self.state, ffi::LUA_REGISTRYINDEX) })
    }

    /// Pushes a value held by [`Stack::keep`].
    pub fn push_kept(&mut self, reference: Reference) {
        self.about_to_push();
        // SAFETY: invariant 1 of `lua`: there is room; an unknown number finds nil.
        unsafe { ffi::lua_rawgeti_(self.state, ffi::LUA_REGISTRYINDEX, reference.0) };
    }

    /// Releases a value held by [`Stack::keep`].
    pub fn forget(&mut self, reference: Reference) {
        // SAFETY: invariant 3 of `lua`: frees a slot of the registry.
        unsafe { ffi::luaL_unref(self.state, ffi::LUA_REGISTRYINDEX, reference.0) };
    }

    /// The host of the running script.
    ///
    /// # Panics
    /// Outside of a run.
    pub fn host(&mut self) -> &mut H {
        // SAFETY: invariant 4 of `lua`: the script's caller has lent the host mutably for that long, and the
        // result borrows the stack, so that there is one such reference at a time.
        unsafe {
            let shared = shared_of::<H>(self.state);
            (*shared).host.expect("native functions that need a host are called by scripts").as_mut()
        }
    }

    /// Number of calls of [`Self::step`] since the last check of the script.
    pub(super) fn steps(&self) -> u32 {
        self.steps
    }

    /// Counts bytes that a native function has read at once as steps of the script. After many the thread may be yielded,
    /// if the script is a slow one.
    #[inline]
    pub fn count_bytes(&mut self, bytes: usize) {
        self.steps = self
            .steps
            .saturating_add(u32::try_from(bytes / BYTES_PER_STEP).unwrap_or(u32::MAX))
            .min(STEPS_MAX);
        if bytes >= PIECE_BYTES {
            // SAFETY: invariant 5 of `lua`: the state is alive, and the stack is borrowed, so no
            // reference to its host exists.
            unsafe { pause::<H>(self.state) };
        }
    }

    /// Called for each value by native functions that may run long: now and then the script is interrupted here as it is
    /// within Lua, and ended if it has exceeded its memory, on which native code has no limit.
    #[inline]
    pub fn step(&mut self) -> Result<(), Raise> {
        self.steps += 1;
        if self.steps < STEPS_PER_CHECKPOINT {
            return Ok(());
        }
        self.steps = 0;
        self.checkpoint()
    }

    /// Checks the script at once, for native functions that measure their own time.
    #[cold]
    pub fn checkpoint(&mut self) -> Result<(), Raise> {
        // SAFETY: invariant 5 of `lua`: the state is alive, and the stack is borrowed, so no reference to
        // its host exists.
        let (overdrawn, end) = unsafe {
            let overdrawn = (*shared_of::<H>(self.state)).memory.is_overdrawn();
            (overdrawn, ask::<H>(self.state).0)
        };
        if let Some(text) = end {
            self.push_table(0, 1);
            self.push_bytes(text.as_bytes());
            self.set_field(-2, "err");
            return Err(Raise::Value);
        }
        if overdrawn { Err(self.out_of_memory()) } else { Ok(()) }
    }

    /// Lua's own error when a script exceeds its memory.
    pub fn out_of_memory(&mut self) -> Raise {
        self.push_bytes(b"not enough memory");
        Raise::Value
    }

    /// The function at this level of the call stack: 0 is the running one, 1 its caller.
    pub fn caller(&self, level: i32) -> Option<Caller> {
        // SAFETY: invariant 5 of `lua`: lua_Debug is numbers, pointers and bytes, for which zero is a value;
        // Lua fills the fields asked for, with strings that live as long as the function does.
        unsafe {
            let mut debug: ffi::lua_Debug = std::mem::zeroed();
            if ffi::lua_getstack(self.state, level, &mut debug) == 0 {
                return None;
            }
            ffi::lua_getinfo(self.state, c"Sl".as_ptr(), &mut debug);
            let source = CStr::from_ptr(debug.source).to_bytes();
            Some(Caller {
                source: String::from_utf8_lossy(&source[..source.len().min(SOURCE_BYTES_MAX)]).into_owned(),
                line: debug.currentline,
                is_native: CStr::from_ptr(debug.what) == c"C",
            })
        }
    }

    /// An error with a text and the place in the script.
    pub fn error(&mut self, text: &str) -> Raise {
        let place = match self.caller(1) {
            Some(caller) if caller.line > 0 => {
                let source = caller.source.strip_prefix(['@', '=']).unwrap_or(&caller.source);
                format!("{source}:{}: ", caller.line)
            }
            _ => String::new(),
        };
        self.push_bytes([place.as_bytes(), text.as_bytes()].concat().as_slice());
        Raise::Value
    }

    /// An error about one of the function's arguments.
    pub fn argument_error(&mut self, argument: i32, text: &str) -> Raise {
        self.push_bytes(text.as_bytes());
        Raise::Argument(argument)
    }

    /// An error about the type of one of the function's arguments.
    pub fn type_error(&mut self, argument: i32, expected: &str) -> Raise {
        let got = self.kind(argument).name();
        self.argument_error(argument, &format!("{expected} expected, got {got}"))
    }

    /// An argument that must be a number, or the text of one.
    pub fn number_argument(&mut self, argument: i32) -> Result<f64, Raise> {
        self.number(argument).ok_or_else(|| self.type_error(argument, "number"))
    }

    /// As [`Self::number_argument`], converted to an integer as in C.
    pub fn integer_argument(&mut self, argument: i32) -> Result<i64, Raise> {
        self.number_argument(argument).map(truncated)
    }

    /// An integer argument that may be missing or nil.
    pub fn integer_argument_or(&mut self, argument: i32, default: i64) -> Result<i64, Raise> {
        match self.kind(argument) {
            Kind::None | Kind::Nil => Ok(default),
            _ => self.integer_argument(argument),
        }
    }

    /// Concatenates the values on top, all strings, to one.
    pub fn concatenate(&mut self, values: i32) {
        assert!((1..=values).all(|back| self.kind(-back) == Kind::String), "strings are joined");
        // SAFETY: invariant 3 of `lua`: the values are on the stack, and strings need no metamethod to be
        // joined.
        unsafe { ffi::lua_concat(self.state, values) };
    }

    /// An argument that must be a string, or a number's text.
    pub fn text_argument(&mut self, argument: i32) -> Result<Vec<u8>, Raise> {
        self.text(argument).ok_or_else(|| self.type_error(argument, "string"))
    }
}

/// Converts a float to an integer as the processor does: values out of range become the minimum.
pub fn truncated(value: f64) -> i64 {
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value) {
        whole_i64(value)
    } else {
        i64::MIN
    }
}
