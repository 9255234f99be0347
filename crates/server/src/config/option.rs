//! What an option is: a row of the table, a kind that reads and prints its value, and the macro that turns the table
//! into the typed fields of `Config`.

use std::borrow::Cow;

/// Why a value was refused, in the words that a client or an operator reads.
pub type Refusal = Cow<'static, str>;

/// Properties of an option, as a set of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(u16);

impl Flags {
    pub const NONE: Self = Self(0);
    /// Can only be set at start.
    pub const IMMUTABLE: Self = Self(1);
    /// Its value must not reach logs, MONITOR or the slow log.
    pub const SENSITIVE: Self = Self(1 << 1);
    /// CONFIG GET shows it only when it is named exactly.
    pub const HIDDEN: Self = Self(1 << 2);
    /// Takes several words.
    pub const MULTI: Self = Self(1 << 3);
    /// Immutable unless `enable-protected-configs` says otherwise.
    pub const PROTECTED: Self = Self(1 << 4);
    /// CONFIG SET answers LOADING while a dataset is being loaded.
    pub const DENIED_WHILE_LOADING: Self = Self(1 << 5);
    /// Names something whose content may change behind the same name, so that setting it always counts as a change.
    pub const VOLATILE: Self = Self(1 << 6);
    /// Accepted, kept and rewritten, but this server has nothing that it could steer.
    pub const NO_EFFECT: Self = Self(1 << 7);
    /// A rule of `key-policy` may set it for some keys.
    pub const BY_KEY: Self = Self(1 << 8);
    /// CONFIG SET reads its words as a file does, with quotes.
    pub const QUOTED: Self = Self(1 << 9);

    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Whether a directive is the first of its name since the start began, or a later one that may add to it.
/// CONFIG SET always replaces, so there it is `First`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occurrence {
    First,
    Again,
}

/// One line that CONFIG REWRITE would write for an option, without the option's name.
#[derive(Debug, PartialEq, Eq)]
pub struct RewrittenLine {
    pub text: Vec<u8>,
    /// Written even where the old file does not mention the option: its value is not the default.
    pub forced: bool,
}

/// How the value of an option is read, checked and printed. `T` is the type of the option's field.
pub trait Kind<T: Clone + PartialEq> {
    /// Reads the words behind the option's name. Exactly one word comes unless the row is `MULTI`.
    fn parse(&self, words: &[&[u8]], before: &T, occurrence: Occurrence) -> Result<T, Refusal>;

    /// The value as CONFIG GET shows it.
    fn format(&self, value: &T) -> Vec<u8>;

    /// Which values there are, for a person.
    fn accepts(&self) -> String;

    /// The least and the greatest value, of a kind that is one number.
    fn range(&self) -> Option<(i128, i128)> {
        None
    }

    /// The lines that CONFIG REWRITE keeps; none drops the option from the file.
    fn rewritten(&self, value: &T, default: &T) -> Vec<RewrittenLine> {
        vec![RewrittenLine { text: self.format(value), forced: value != default }]
    }
}

type Setter<C> = fn(&mut C, &[&[u8]], Occurrence) -> Result<bool, Refusal>;

/// One row of the table, with its accessors resolved to the option's field. `C` is the configuration.
pub struct Row<C: 'static, Id: 'static> {
    pub id: Id,
    pub name: &'static str,
    /// An older name that means the same.
    pub alias: Option<&'static str>,
    pub flags: Flags,
    /// The heading that documentation has it under.
    pub section: &'static str,
    /// What it does, for a person.
    pub doc: &'static str,
    /// Which values it takes, for a person.
    pub accepts: fn() -> String,
    /// The least and the greatest value, if it is one number.
    pub range: fn() -> Option<(i128, i128)>,
    pub(super) get: fn(&C) -> Vec<u8>,
    /// Sets the field and says whether its value changed.
    pub(super) set: Setter<C>,
    /// Arguments: the configuration, and the default one.
    pub(super) rewritten: fn(&C, &C) -> Vec<RewrittenLine>,
}

impl<C, Id> Row<C, Id> {
    /// The name and, if there is one, the alias.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<C, Id> {
        std::iter::once(self.name).chain(self.alias)
    }

    /// The name or the alias, as the table spells it, when `typed` is one of them.
    pub fn name_matching(&self, typed: &[u8]) -> Option<&'static str> {
        self.names().find(|name| typed.eq_ignore_ascii_case(name.as_bytes()))
    }
}

/// The table: `@ "section"`, and behind it rows: `/// What it does.` and
/// `field: type = default, "name" | "alias", kind, FLAG, FLAG;` Each row declares a public field of `Config` and a variant
/// of `OptionId` called the same.
macro_rules! options {
    ($( @ $section:literal $( $(#[doc = $doc:literal])* $field:ident : $type:ty = $default:expr,
        $name:literal $(| $alias:literal)?, $kind:expr $(, $flag:ident)* ; )* )*) => {
        /// Every option with its current value: plain fields, so that hot paths read them without a lookup.
        #[derive(Clone, PartialEq)]
        pub struct Config {
            $( $( $(#[doc = $doc])* pub $field: $type, )* )*
            /// The file that the server was started with, absolute; what CONFIG REWRITE writes.
            pub config_file: Option<std::path::PathBuf>,
            /// Where the server was started, which relative paths in its files count from.
            pub started_in: std::path::PathBuf,
        }

        impl Default for Config {
            fn default() -> Self {
                Self { $( $( $field: $default, )* )* config_file: None, started_in: current_directory() }
            }
        }

        /// Names an option; spelled like its field.
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum OptionId { $( $( $field, )* )* }

        /// Every option, in the order in which CONFIG REWRITE appends new ones.
        pub static ROWS: &[Row<Config, OptionId>] = &[ $( $( Row {
            id: OptionId::$field,
            name: $name,
            alias: options!(@alias $($alias)?),
            flags: Flags::NONE$(.with(Flags::$flag))*,
            section: $section,
            doc: concat!($($doc),*).trim_ascii_start(),
            accepts: || Kind::<$type>::accepts(&$kind),
            range: || Kind::<$type>::range(&$kind),
            get: |config| Kind::<$type>::format(&$kind, &config.$field),
            set: |config, words, occurrence| {
                let value = Kind::<$type>::parse(&$kind, words, &config.$field, occurrence)?;
                let changed = value != config.$field;
                config.$field = value;
                Ok(changed)
            },
            rewritten: |config, default| Kind::<$type>::rewritten(&$kind, &config.$field, &default.$field),
        }, )* )* ];
    };
    (@alias) => { None };
    (@alias $alias:literal) => { Some($alias) };
}

pub(super) use options;
