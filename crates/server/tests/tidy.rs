//! The house's rules, as far as a program can check them. Each rule is a test, each table of what is allowed stands
//! at the top, and a broken rule is reported with file and line and what to do about it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, Ident, Span, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Lines in a function, signature and braces included. Tests may be longer.
const FUNCTION_LINES_LIMIT: usize = 70;
/// Lines in a file, tests included.
const FILE_LINES_LIMIT: usize = 1000;

/// Methods of one type of the server, in all its `impl` blocks and files together.
const METHODS_LIMIT: usize = 80;
/// Types beyond that limit, with a limit of their own: it only goes down, to the number that is reached.
const METHODS_BEYOND: &[(&str, usize)] = &[("Db", 182), ("Executor", 287)];
/// Fields of one struct of the server that other files may reach: public ones, and all of a module with submodules.
const FIELDS_LIMIT: usize = 32;
/// As [`METHODS_BEYOND`].
const FIELDS_BEYOND: &[(&str, usize)] = &[("Client", 49)];

/// Where `unsafe` may stand: prefixes of paths from the workspace's root.
const UNSAFE_ALLOWED: &[&str] = &["crates/structures/", "crates/server/src/sys.rs", "crates/server/src/sys/"];

/// Names that say nothing about what a file holds.
const FILE_NAMES_REFUSED: &[&str] = &["common", "helper", "helpers", "manager", "misc", "util", "utils"];

/// What the modules of the server may import from their own crate: only what ARCHITECTURE.md has in rows below theirs, and
/// of that what they need. The modules of one row here are one layer and may import each other. `lib` and `main` may import
/// all.
const MAY_IMPORT: &[(&[&str], &[&str])] = &[
    (
        &["start"],
        &[
            "net", "engine", "commands", "command", "session", "server", "persist", "observe", "config",
            "clock", "sys",
        ],
    ),
    (&["net"], &["engine", "command", "session", "server", "acl", "observe", "config", "clock", "sys"]),
    (
        &["engine"],
        &[
            "commands", "command", "session", "server", "script", "acl", "persist", "db", "observe",
            "config", "clock", "sys",
        ],
    ),
    (&["commands"], &["command", "session", "server", "script", "acl", "persist", "db", "observe", "config"]),
    // Commands reach a script through a trait, so that it knows nothing of them.
    (&["script"], &["clock", "sys"]),
    // What a command is, who sent it, and what it may touch.
    (&["command", "session", "server", "acl"], &["script", "db", "observe", "config", "clock"]),
    (&["persist"], &["db", "observe", "config", "clock", "sys"]),
    (&["db"], &["observe", "config"]),
    (&["observe"], &["config", "clock", "sys"]),
    (&["config"], &["clock", "sys"]),
    (&["clock"], &["sys"]),
    (&["sys"], &[]),
    (IMPORTED_EVERYWHERE, &[]),
];
/// What every module may import.
const IMPORTED_EVERYWHERE: &[&str] = &["error"];

/// How collections are encoded is known to `db` and, because files hold encodings, to `persist`.
const ENCODING_TYPES: &[&str] = &[
    "ExpiringList",
    "FbTree",
    "IntegerSet",
    "KeyTable",
    "Listpack",
    "PackedList",
    "PackedMap",
    "RadixTree",
    "SkipList",
    "SmallList",
];
const ENCODINGS_KNOWN_TO: &[&str] = &["db", "persist"];

/// What handlers may read of all clients.
const CLIENTS_READ: &[&str] = &["by_age", "iter", "len", "memory_bytes"];
/// What reaches other clients, and is for `server/clients.rs` and the engine.
const REACHES_CLIENTS: &[&str] =
    &["clients_to_close", "close_asap", "detach", "note_given_up", "resumed", "wake"];

/// Where keys live is known to one file.
/// The file and its folder.
const KEYSPACE: &str = "crates/server/src/db/keyspace";

/// Where types of values are distinguished.
const TYPES_TOLD_APART_IN: &str = "crates/server/src/db/object.rs";

/// Words of the code's own that the field's terms have taken the place of.
const RETIRED_WORDS: &[&str] = &[
    "intake",
    "intakes",
    "lodging",
    "lodgings",
    "guest",
    "guests",
    "stranger",
    "strangers",
    "surroundings",
    "teller",
    "journal",
    "condemn",
    "condemned",
    "lest",
    "frontier",
    "told_as",
    "seat",
    "seats",
];

struct Source {
    /// From the workspace's root, with `/` on every system.
    path: String,
    text: String,
}

impl Source {
    fn tokens(&self) -> TokenStream {
        self.text.parse().unwrap_or_else(|error| panic!("{}: {error}", self.path))
    }

    /// The identifiers among these names, wherever they stand in the code (macros included, comments and strings
    /// not).
    fn mentions(&self, names: &[&str]) -> Vec<Ident> {
        let mut found = Vec::new();
        if names.iter().any(|name| self.text.contains(name)) {
            identifiers(&self.tokens(), &mut found);
            found.retain(|identifier| names.iter().any(|name| identifier == name));
        }
        found
    }

    /// Tests, benches and fuzz targets: code that users do not run.
    fn is_test(&self) -> bool {
        let aside = |part: &str| matches!(part, "tests" | "tests.rs" | "benches" | "fuzz" | "reference.rs");
        self.path.split('/').any(aside)
    }

    /// The module directly below the server's root that this file belongs to.
    fn server_module(&self) -> Option<&str> {
        let module = self.path.strip_prefix("crates/server/src/")?.split('/').next()?;
        let module = module.strip_suffix(".rs").unwrap_or(module);
        (!matches!(module, "lib" | "main")).then_some(module)
    }

    /// How many modules deep this file is: `src/db.rs` and `src/db/mod.rs` are 1, `src/db/expire.rs` is 2.
    fn module_depth(&self) -> usize {
        let below_src = self.path.split("/src/").nth(1).unwrap_or("");
        below_src.split('/').filter(|part| *part != "mod.rs").count()
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn collect(directory: &Path, wanted: &dyn Fn(&Path) -> bool, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            collect(&path, wanted, out);
        } else if path.is_file() && wanted(&path) {
            out.push(path);
        }
    }
}

fn sources() -> Vec<Source> {
    let (root, mut paths) = (root(), Vec::new());
    for directory in ["crates", "fuzz"].map(|name| root.join(name)) {
        if directory.exists() {
            collect(
                &directory,
                &|path| path.extension().is_some_and(|extension| extension == "rs"),
                &mut paths,
            );
        }
    }
    paths.sort();
    assert!(paths.len() > 20, "the workspace is not where it is looked for");
    let read = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        let path = path.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/");
        Source { path, text }
    };
    paths.iter().map(read).collect()
}

/// What broke a rule, one line each.
#[derive(Default)]
struct Findings(String);

impl Findings {
    fn add(&mut self, source: &Source, line: usize, what: impl std::fmt::Display) {
        writeln!(self.0, "  {}:{line}: {what}", source.path).unwrap();
    }

    #[track_caller]
    fn expect_none(self, advice: &str) {
        assert!(self.0.is_empty(), "\n{}{advice}\n", self.0);
    }
}

fn line(span: Span) -> usize {
    span.start().line
}

/// Every identifier of a token stream, those in macros included.
fn identifiers(tokens: &TokenStream, out: &mut Vec<Ident>) {
    for token in tokens.clone() {
        match token {
            TokenTree::Ident(identifier) => out.push(identifier),
            TokenTree::Group(group) => identifiers(&group.stream(), out),
            _ => {}
        }
    }
}

fn is_test_item(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_cfg_test = || {
            attribute.path().is_ident("cfg")
                && attribute.parse_args::<syn::Ident>().is_ok_and(|condition| condition == "test")
        };
        attribute.path().is_ident("test") || is_cfg_test()
    })
}

/// Walks the code that is not a test's, noting long functions and calls of `unwrap`.
#[derive(Default)]
struct Walk {
    long_functions: Vec<(usize, String, usize)>,
    unwraps: Vec<usize>,
}

impl Walk {
    fn note_function(&mut self, name: &Ident, whole: Span) {
        let lines = whole.end().line - name.span().start().line + 1;
        if lines >= FUNCTION_LINES_LIMIT {
            self.long_functions.push((line(name.span()), name.to_string(), lines));
        }
    }
}

impl<'ast> Visit<'ast> for Walk {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test_item(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test_item(&item.attrs) {
            self.note_function(&item.sig.ident, item.span());
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test_item(&item.attrs) {
            self.note_function(&item.sig.ident, item.span());
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.note_function(&item.sig.ident, item.span());
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if call.method == "unwrap" {
            self.unwraps.push(line(call.method.span()));
        }
        visit::visit_expr_method_call(self, call);
    }
}

fn walk(source: &Source) -> Walk {
    let mut walk = Walk::default();
    walk.visit_file(
        &syn::parse_file(&source.text).unwrap_or_else(|error| panic!("{}: {error}", source.path)),
    );
    walk
}

#[test]
fn files_are_short_and_named_for_what_they_hold() {
    let mut findings = Findings::default();
    for source in sources() {
        let lines = source.text.lines().count();
        if lines >= FILE_LINES_LIMIT {
            findings.add(&source, lines, format_args!("{lines} lines"));
        }
        if source.path.split(['/', '.']).any(|part| FILE_NAMES_REFUSED.contains(&part)) {
            findings.add(&source, 1, "a name that could hold anything");
        }
    }
    findings.expect_none("Split files before they reach the limit; name each for the one thing it is about.");
}

#[test]
fn functions_are_short() {
    let mut findings = Findings::default();
    for source in sources().iter().filter(|source| !source.is_test()) {
        for (line, name, lines) in walk(source).long_functions {
            findings.add(source, line, format_args!("{name} has {lines} lines"));
        }
    }
    findings.expect_none("Break long functions into named steps.");
}

/// The name of the type that a block implements; `None`: it is not a plain type.
fn implemented(block: &syn::ItemImpl) -> Option<String> {
    match &*block.self_ty {
        syn::Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
        _ => None,
    }
}

/// Adds what a file that is not a test's declares: the methods of each type, and the fields of each struct that other
/// files may reach.
#[derive(Default)]
struct Sizes {
    methods: BTreeMap<String, usize>,
    fields: BTreeMap<String, usize>,
    has_submodules: bool,
}

impl<'ast> Visit<'ast> for Sizes {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test_item(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, block: &'ast syn::ItemImpl) {
        let Some(name) = implemented(block) else { return };
        let methods = block.items.iter().filter(|item| matches!(item, syn::ImplItem::Fn(_))).count();
        *self.methods.entry(name).or_default() += methods;
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        let is_private = |field: &syn::Field| matches!(field.vis, syn::Visibility::Inherited);
        let reached = item.fields.iter().filter(|field| self.has_submodules || !is_private(field)).count();
        let fields = self.fields.entry(item.ident.to_string()).or_default();
        // Different structs may have one name.
        *fields = reached.max(*fields);
    }
}

/// Checks each count against the limit, or the type's own.
fn exceeding(what: &str, counts: &BTreeMap<String, usize>, limit: usize, beyond: &[(&str, usize)]) -> String {
    let mut found = String::new();
    for (name, &count) in counts {
        let own = beyond.iter().find(|(of, _)| of == name).map(|&(_, own)| own);
        let limit = own.unwrap_or(limit);
        if count > limit {
            writeln!(found, "  {name} has {count} {what}; its limit is {limit}").unwrap();
        }
    }
    found
}

#[test]
fn types_are_made_of_parts() {
    let mut sizes = Sizes::default();
    let sources = sources();
    let server = sources.iter().filter(|source| source.server_module().is_some() && !source.is_test());
    for source in server {
        let directory = root().join(source.path.trim_end_matches(".rs"));
        sizes.has_submodules = directory.is_dir();
        sizes.visit_file(
            &syn::parse_file(&source.text).unwrap_or_else(|error| panic!("{}: {error}", source.path)),
        );
    }
    let found = exceeding("methods", &sizes.methods, METHODS_LIMIT, METHODS_BEYOND)
        + &exceeding("fields that other files may reach", &sizes.fields, FIELDS_LIMIT, FIELDS_BEYOND);
    assert!(
        found.is_empty(),
        "\n{found}Give what belongs together a struct of its own, with private fields.\n"
    );
}

#[test]
fn nothing_is_unwrapped_outside_tests() {
    let mut findings = Findings::default();
    for source in sources().iter().filter(|source| !source.is_test()) {
        for line in walk(source).unwraps {
            findings.add(source, line, "unwrap()");
        }
    }
    findings.expect_none(
        "Use expect(\"why it cannot fail\") for our own invariants, an error for everything else.",
    );
}

#[test]
fn unsafe_stays_at_home() {
    let mut findings = Findings::default();
    for source in sources() {
        if UNSAFE_ALLOWED.iter().any(|home| source.path.starts_with(home)) {
            continue;
        }
        for name in source.mentions(&["unsafe"]) {
            findings.add(&source, line(name.span()), "unsafe");
        }
    }
    findings.expect_none("unsafe belongs into crates/structures or the server's sys module.");

    let wire = fs::read_to_string(root().join("crates/wire/src/lib.rs")).unwrap();
    assert!(wire.contains("#![forbid(unsafe_code)]"), "wire reads foreign bytes and forbids unsafe");
}

/// The modules at the crate's root that a token stream names: behind `crate::`, or behind as many `super::` as lead
/// there from a module of this depth.
fn root_modules(tokens: &TokenStream, depth: usize, out: &mut Vec<Ident>) {
    let tokens: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let is_colon =
        |at: usize| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
    let is_path_separator = |at: usize| is_colon(at) && is_colon(at + 1);
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => root_modules(&group.stream(), depth, out),
            TokenTree::Ident(name) if name == "crate" && is_path_separator(at + 1) => {
                first_names(&tokens[at + 3..], out);
            }
            TokenTree::Ident(name) if name == "super" && !(at >= 2 && is_path_separator(at - 2)) => {
                let is_super =
                    |at: usize| matches!(tokens.get(at), Some(TokenTree::Ident(name)) if name == "super");
                let steps = (0..).take_while(|step| is_super(at + step * 3)).count();
                if steps >= depth && is_path_separator(at + steps * 3 - 2) {
                    first_names(&tokens[at + steps * 3..], out);
                }
            }
            _ => {}
        }
    }
}

/// The first name of a path, or of each path of a group in braces.
fn first_names(tokens: &[TokenTree], out: &mut Vec<Ident>) {
    match tokens.first() {
        Some(TokenTree::Ident(name)) => out.push(name.clone()),
        Some(TokenTree::Group(group)) => {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            let is_comma =
                |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ',');
            inner.split(is_comma).for_each(|path| first_names(path, out));
        }
        _ => {}
    }
}

#[test]
fn arrows_between_the_servers_modules_point_one_way() {
    let mut findings = Findings::default();
    for source in sources().iter().filter(|source| !source.is_test()) {
        let Some(module) = source.server_module() else { continue };
        let Some((layer, below)) = MAY_IMPORT.iter().find(|(layer, _)| layer.contains(&module)) else {
            findings.add(source, 1, format_args!("module {module} has no place in the table MAY_IMPORT"));
            continue;
        };
        let mut names = Vec::new();
        root_modules(&source.tokens(), source.module_depth(), &mut names);
        for name in names {
            let text = name.to_string();
            let is_module = MAY_IMPORT.iter().any(|(layer, _)| layer.contains(&text.as_str()));
            if is_module
                && !IMPORTED_EVERYWHERE.contains(&text.as_str())
                && !layer.contains(&text.as_str())
                && !below.contains(&text.as_str())
            {
                findings.add(source, line(name.span()), format_args!("{module} imports {text}"));
            }
        }
    }
    findings.expect_none(
        "Move the code to where its imports are allowed; see ARCHITECTURE.md for what lives where.",
    );
}

/// Tools that run by themselves, and a child's pipe.
const FILES_OF_THEIR_OWN: &[&str] = &["persist/check_aof", "persist/check_rdb", "persist/child.rs"];

#[test]
fn files_of_the_executor_are_those_of_its_world() {
    let mut findings = Findings::default();
    for source in sources().iter().filter(|source| !source.is_test()) {
        let of_executor = matches!(source.server_module(), Some("engine" | "persist"));
        let excused = |path: &str| FILES_OF_THEIR_OWN.iter().any(|own| path.contains(own));
        if !of_executor || excused(&source.path) {
            continue;
        }
        for name in source.mentions(&["fs"]) {
            findings.add(source, line(name.span()), "std::fs");
        }
    }
    findings.expect_none("files are opened through sys::world, so that a simulation can take its place");
}

/// What has one home: names, the prefixes of paths where they may stand, and what to use elsewhere.
const AT_HOME_ONLY: &[(&[&str], &[&str], &str)] = &[
    (
        &["arch"],
        &[
            "crates/structures/src/byte_compare",
            "crates/structures/src/hyperloglog/dense.rs",
            "crates/structures/src/prefetch.rs",
        ],
        "Instruction sets are told apart in byte_compare; call it.",
    ),
    (
        &["SendFlags", "RecvFlags"],
        &["crates/server/src/net/transport.rs", "crates/server/src/net/transport/"],
        "A connection's bytes pass through net::transport, which may encrypt them.",
    ),
    (
        &["handler"],
        &[
            "crates/server/src/command.rs",
            "crates/server/src/commands/",
            "crates/server/src/engine/execute.rs",
            "crates/server/src/sys/lua/",
        ],
        "Executor::call is the one way to run a command.",
    ),
];

#[test]
fn what_has_one_home_is_nowhere_else() {
    for (names, homes, instead) in AT_HOME_ONLY {
        let mut findings = Findings::default();
        for source in sources().iter().filter(|source| !source.is_test()) {
            if homes.iter().any(|home| source.path.starts_with(home)) {
                continue;
            }
            for name in source.mentions(names) {
                findings.add(source, line(name.span()), &name);
            }
        }
        findings.expect_none(instead);
    }
}

#[test]
fn the_table_of_imports_has_no_cycle() {
    let mut placed: BTreeSet<&str> = BTreeSet::new();
    let mut layers = MAY_IMPORT.to_vec();
    while !layers.is_empty() {
        let next = layers.iter().position(|(_, below)| below.iter().all(|module| placed.contains(*module)));
        let Some(next) = next else { panic!("no order of the layers fits MAY_IMPORT beyond {placed:?}") };
        placed.extend(layers.remove(next).0);
    }
}

/// The modules of each row of ARCHITECTURE.md's table of the server, from the top down.
fn rows_of_architecture() -> Vec<Vec<String>> {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let table = text.split_once("| module | knows |").expect("the table of the server's modules").1;
    let rows = table.lines().skip(2).map_while(|line| line.strip_prefix("| "));
    let names =
        |row: &str| row.split('|').next().unwrap().split('`').skip(1).step_by(2).map(str::to_owned).collect();
    rows.map(names).collect()
}

#[test]
fn imports_point_down_the_table_of_architecture() {
    let rows = rows_of_architecture();
    let row_of = |module: &str| rows.iter().position(|row| row.iter().any(|name| name == module));
    for (layer, below) in MAY_IMPORT.iter().filter(|(layer, _)| *layer != IMPORTED_EVERYWHERE) {
        for module in *layer {
            let own = row_of(module).unwrap_or_else(|| panic!("ARCHITECTURE.md has no row for {module}"));
            for imported in *below {
                let row = row_of(imported);
                assert!(
                    row >= Some(own),
                    "{module} may import {imported}, which ARCHITECTURE.md has above it"
                );
            }
        }
    }
}

#[test]
fn only_the_keyspace_knows_encodings() {
    let mut findings = Findings::default();
    for source in sources().iter().filter(|source| !source.is_test()) {
        if source.server_module().is_none_or(|module| ENCODINGS_KNOWN_TO.contains(&module)) {
            continue;
        }
        for name in source.mentions(ENCODING_TYPES) {
            findings.add(source, line(name.span()), name);
        }
    }
    findings.expect_none("Say what is wanted of the value and let db decide how it is stored.");
}

/// The identifiers `name` that are indexed, as in `name[0]`.
fn indexed(tokens: &TokenStream, name: &str, out: &mut Vec<Ident>) {
    let tokens: Vec<TokenTree> = tokens.clone().into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        let next = tokens.get(at + 1);
        let is_index =
            matches!(next, Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Bracket);
        match token {
            TokenTree::Ident(identifier) if is_index && identifier == name => out.push(identifier.clone()),
            TokenTree::Group(group) => indexed(&group.stream(), name, out),
            _ => {}
        }
    }
}

#[test]
fn only_the_keyspace_knows_where_keys_live() {
    let mut findings = Findings::default();
    let of_server = |source: &&Source| source.server_module().is_some() && !source.path.starts_with(KEYSPACE);
    for source in sources().iter().filter(of_server) {
        let mut names = source.mentions(&["KeyTable"]);
        if source.server_module() == Some("db") && source.text.contains("databases") {
            indexed(&source.tokens(), "databases", &mut names);
        }
        for name in names {
            findings.add(source, line(name.span()), name);
        }
    }
    findings.expect_none("Ask a Database of db::keyspace; which table a key is in is for it alone to know.");
}

/// Where a variant of an enum is named, or all are imported: the enum's name, `::` and what is no function's name.
fn variants_of(name: &str, tokens: &TokenStream, out: &mut Vec<Span>) {
    let tokens: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let is_colon =
        |at: usize| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
    let is_function = |at: usize| matches!(tokens.get(at), Some(TokenTree::Ident(name)) if name.to_string().starts_with(char::is_lowercase));
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => variants_of(name, &group.stream(), out),
            TokenTree::Ident(found) if found == name && is_colon(at + 1) && is_colon(at + 2) => {
                out.extend((!is_function(at + 3)).then(|| found.span()));
            }
            _ => {}
        }
    }
}

#[test]
fn types_of_data_are_told_apart_in_one_place() {
    let mut findings = Findings::default();
    let mut is_table_there = false;
    for source in sources().iter().filter(|source| !source.is_test() && source.server_module().is_some()) {
        let mut variants = Vec::new();
        variants_of("Object", &source.tokens(), &mut variants);
        if source.path == TYPES_TOLD_APART_IN {
            is_table_there = !variants.is_empty();
            continue;
        }
        for variant in variants {
            findings.add(source, line(variant), "a variant of Object");
        }
    }
    assert!(is_table_there, "{TYPES_TOLD_APART_IN} tells no types apart any more");
    findings.expect_none(
        "What all types are asked is a function of ValueType (db/value_type.rs); a command asks for its own type.",
    );
}

/// Modules that run commands. What they must know of a command is a field or flag of its row.
const KNOW_NO_COMMAND_BY_NAME: &[&str] = &["engine", "net"];
/// A command that the server itself stands for: it is looked up once, by the name of its row.
const LOOKED_UP_BY_NAME: &[&str] = &["replicaof"];

/// The string literals that `row.name` or `command.name` is compared with: by `==`, `!=`, or in `matches!`.
fn names_compared(tokens: &TokenStream, out: &mut Vec<(Span, String)>) {
    let tokens: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let ident = |at: usize, names: &[&str]| match tokens.get(at) {
        Some(TokenTree::Ident(found)) => names.iter().any(|name| found == name),
        _ => false,
    };
    let punct = |at: usize, of: &str| match tokens.get(at) {
        Some(TokenTree::Punct(found)) => of.contains(found.as_char()),
        _ => false,
    };
    for at in 0..tokens.len() {
        if let TokenTree::Group(group) = &tokens[at] {
            names_compared(&group.stream(), out);
        }
        let is_name = ident(at, &["row", "command"]) && punct(at + 1, ".") && ident(at + 2, &["name"]);
        let is_compared = punct(at + 3, "=!") && punct(at + 4, "=") || punct(at + 3, ",");
        if let (true, true, Some(TokenTree::Literal(text))) =
            (is_name, is_compared, tokens.get(at + if punct(at + 3, ",") { 4 } else { 5 }))
        {
            out.push((text.span(), text.to_string().trim_matches('"').to_owned()));
        }
    }
}

#[test]
fn hubs_know_no_command_by_its_name() {
    let mut findings = Findings::default();
    for source in sources().iter().filter(|source| !source.is_test()) {
        if !source.server_module().is_some_and(|module| KNOW_NO_COMMAND_BY_NAME.contains(&module)) {
            continue;
        }
        let mut names = Vec::new();
        names_compared(&source.tokens(), &mut names);
        for (at, name) in
            names.iter().filter(|(_, name)| !name.is_empty() && !LOOKED_UP_BY_NAME.contains(&name.as_str()))
        {
            findings.add(source, line(*at), format_args!("the command {name} by its name"));
        }
    }
    findings
        .expect_none("Give the row a flag (command/flag.rs) that says what is special about the command.");
}

/// Uses of `server.clients` other than by the client's own handle, `ctx.client`, or to read; and of what else reaches
/// other clients.
fn reached_clients(tokens: &TokenStream, out: &mut Vec<Ident>) {
    let tokens: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let is = |at: usize, text: &str| tokens.get(at).is_some_and(|token| token.to_string() == text);
    let named = |at: usize, names: &[&str]| names.iter().any(|name| is(at, name));
    let is_own = |at: usize| match tokens.get(at) {
        Some(TokenTree::Group(group)) => {
            let text = group.stream().to_string().replace(' ', "");
            text == "ctx.client" || text.starts_with("ctx.client,")
        }
        _ => false,
    };
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => reached_clients(&group.stream(), out),
            TokenTree::Ident(name) if at >= 2 && is(at - 2, "server") && is(at - 1, ".") => {
                let reads = is(at + 1, ".") && named(at + 2, CLIENTS_READ);
                let is_allowed = is_own(at + 1) || is(at + 1, ".") && is_own(at + 3) || reads;
                if named(at, REACHES_CLIENTS) || name == "clients" && !is_allowed {
                    out.push(name.clone());
                }
            }
            _ => {}
        }
    }
}

#[test]
fn handlers_reach_other_clients_by_named_operations_only() {
    let mut findings = Findings::default();
    for source in sources().iter().filter(|source| source.server_module() == Some("commands")) {
        let mut names = Vec::new();
        reached_clients(&source.tokens(), &mut names);
        for name in names {
            findings.add(source, line(name.span()), format_args!("server.{name}"));
        }
    }
    findings.expect_none("Give what is done to other clients a name in server/clients.rs.");
}

/// Comments, strings and documents too: who reads them should need no vocabulary but the field's.
#[test]
fn retired_words_stay_away() {
    let mut texts = sources();
    let mut documents = Vec::new();
    for directory in [root(), root().join("docs")] {
        let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        documents.extend(entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    }
    texts.extend(documents.iter().map(|path| Source {
        path: path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/"),
        text: fs::read_to_string(path).unwrap(),
    }));
    let mut findings = Findings::default();
    for source in texts.iter().filter(|source| !source.path.ends_with("tests/tidy.rs")) {
        for (number, line) in source.text.lines().enumerate() {
            let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            for word in words.filter(|word| RETIRED_WORDS.iter().any(|old| old.eq_ignore_ascii_case(word))) {
                findings.add(source, number + 1, word);
            }
        }
    }
    findings.expect_none("Use the field's term; ARCHITECTURE.md's glossary and the neighbours have it.");
}

/// Words in comments that name persons for things, or stand in place of a number or a noun.
const WORDS_REFUSED: &[&str] =
    &["whoever", "whomever", "nobody", "lest", "at hand", "told", "so many", "so much"];

#[test]
fn comments_are_plain() {
    let mut findings = Findings::default();
    for source in &sources() {
        for (number, line) in source.text.lines().enumerate() {
            let Some((_, comment)) = line.split_once("//") else { continue };
            let words =
                comment.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
            let comment = format!(" {} ", words.collect::<Vec<_>>().join(" "));
            for word in WORDS_REFUSED.iter().filter(|word| comment.contains(&format!(" {word} "))) {
                findings.add(source, number + 1, word);
            }
        }
    }
    findings.expect_none("Use a subject, a verb and the field's noun; see CONTRIBUTING.md.");
}

/// The names under `[dependencies]` and its variants for targets.
fn dependencies(manifest: &str) -> Vec<String> {
    let (mut inside, mut names) = (false, Vec::new());
    for line in manifest.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            inside = section == "dependencies" || section.ends_with(".dependencies");
            names.extend(section.rsplit_once("dependencies.").map(|(_, name)| name.to_string()));
        } else if inside && !line.starts_with('#') {
            let name = line.split(['=', '.', ' ']).next().unwrap_or("").trim_matches('"');
            names.extend((!name.is_empty()).then(|| name.to_string()));
        }
    }
    names
}

#[test]
fn manifests_share_the_lints_and_account_for_their_dependencies() {
    let root = root();
    let reasons = fs::read_to_string(root.join("docs/dependencies.md")).unwrap();
    let own =
        ["structures", "cluster", "client", "manual", "tls", "web", "wire", "server", "warmline-server"];
    let mut manifests = Vec::new();
    collect(&root.join("crates"), &|path| path.ends_with("Cargo.toml"), &mut manifests);
    assert!(manifests.len() >= 5);
    for path in manifests {
        let manifest = fs::read_to_string(&path).unwrap();
        let lints = manifest
            .split("[lints]")
            .nth(1)
            .is_some_and(|rest| rest.trim_start().starts_with("workspace = true"));
        assert!(lints, "{}: [lints] must say workspace = true", path.display());
        for name in dependencies(&manifest).iter().filter(|name| !own.contains(&name.as_str())) {
            let reason = format!("`{name}`");
            assert!(
                reasons.contains(&reason),
                "{}: docs/dependencies.md must say why {reason}",
                path.display()
            );
        }
    }
}
