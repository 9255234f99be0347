//! Options: a row of the table, a kind that parses and prints the value, and the macro that generates the typed fields
//! of `Config` from the table.

use std::borrow::Cow;

/// Why a value was refused, as text for a client or an operator.
pub type Refusal = Cow<'static, str>;

/// Properties of an option, as a set of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(u16);

impl Flags {
    /// The empty set.
    pub const NONE: Self = Self(0);
    /// Can only be set at start.
    pub const IMMUTABLE: Self = Self(1);
    /// Its value must not reach logs, MONITOR or the slow log.
    pub const SENSITIVE: Self = Self(1 << 1);
    /// CONFIG GET shows it only for its exact name.
    pub const HIDDEN: Self = Self(1 << 2);
    /// Takes several words.
    pub const MULTI: Self = Self(1 << 3);
    /// Immutable unless `enable-protected-configs` permits changes.
    pub const PROTECTED: Self = Self(1 << 4);
    /// CONFIG SET answers LOADING while a dataset is being loaded.
    pub const DENIED_WHILE_LOADING: Self = Self(1 << 5);
    /// Refers to content that can change under the same name, so that setting it always counts as a change.
    pub const VOLATILE: Self = Self(1 << 6);
    /// Accepted, stored and rewritten, but without effect in this server.
    pub const NO_EFFECT: Self = Self(1 << 7);
    /// A rule of `key-policy` may set it for some keys.
    pub const BY_KEY: Self = Self(1 << 8);
    /// CONFIG SET parses its words as a file does, with quotes.
    pub const QUOTED: Self = Self(1 << 9);

    /// The union.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` is in this set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Whether a directive is the first of its name since startup began, or a later one that can add to it.
/// CONFIG SET always replaces, so it passes `First`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occurrence {
    /// The first directive of its name.
    First,
    /// A later directive of its name.
    Again,
}

/// One line of CONFIG REWRITE for an option, without the option's name.
#[derive(Debug, PartialEq, Eq)]
pub struct RewrittenLine {
    /// The values.
    pub text: Vec<u8>,
    /// Written even if the old file does not contain the option: its value is not the default.
    pub forced: bool,
}

/// How the value of an option is parsed, checked and printed. `T` is the type of the option's field.
pub trait Kind<T: Clone + PartialEq> {
    /// Parses the words after the option's name: exactly one word, unless the row is `MULTI`.
    fn parse(&self, words: &[&[u8]], before: &T, occurrence: Occurrence) -> Result<T, Refusal>;

    /// Formats the value as CONFIG GET shows it.
    fn format(&self, value: &T) -> Vec<u8>;

    /// A description of the permitted values.
    fn accepts(&self) -> String;

    /// The minimum and the maximum, if the kind is one number.
    fn range(&self) -> Option<(i128, i128)> {
        None
    }

    /// The lines of CONFIG REWRITE; an empty list removes the option from the file.
    fn rewritten(&self, value: &T, default: &T) -> Vec<RewrittenLine> {
        vec![RewrittenLine { text: self.format(value), forced: value != default }]
    }
}

type Setter<C> = fn(&mut C, &[&[u8]], Occurrence) -> Result<bool, Refusal>;

/// One row of the table, with accessors for the option's field. `C` is the configuration.
pub struct Row<C: 'static, Id: 'static> {
    /// Identifies the option.
    pub id: Id,
    /// Name of the option.
    pub name: &'static str,
    /// An older name of the same option.
    pub alias: Option<&'static str>,
    /// Properties of the option.
    pub flags: Flags,
    /// The option's section in the documentation.
    pub section: &'static str,
    /// The option's description.
    pub doc: &'static str,
    /// A description of the permitted values.
    pub accepts: fn() -> String,
    /// The minimum and the maximum, if it is one number.
    pub range: fn() -> Option<(i128, i128)>,
    pub(super) get: fn(&C) -> Vec<u8>,
    /// Sets the field and returns whether its value changed.
    pub(super) set: Setter<C>,
    /// Arguments: the configuration, and the default configuration.
    pub(super) rewritten: fn(&C, &C) -> Vec<RewrittenLine>,
}

impl<C, Id> Row<C, Id> {
    /// The name and, if there is one, the alias.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<C, Id> {
        std::iter::once(self.name).chain(self.alias)
    }

    /// The name or the alias in the table's spelling, if `typed` is one of them.
    pub fn name_matching(&self, typed: &[u8]) -> Option<&'static str> {
        self.names().find(|name| typed.eq_ignore_ascii_case(name.as_bytes()))
    }
}

/// The table: `@ "section"`, followed by its rows: `/// Description.` and
/// `field: type = default, "name" | "alias", kind, FLAG, FLAG;` Each row declares a public field of `Config` and a variant
/// of `OptionId` with the same name.
macro_rules! options {
    ($( @ $section:literal $( $(#[doc = $doc:literal])* $field:ident : $type:ty = $default:expr,
        $name:literal $(| $alias:literal)?, $kind:expr $(, $flag:ident)* ; )* )*) => {
        /// Every option with its current value: plain fields, so that hot paths read them without a lookup.
        #[derive(Clone, PartialEq)]
        pub struct Config {
            $( $( $(#[doc = $doc])* pub $field: $type, )* )*
            /// The absolute path of the startup file, which CONFIG REWRITE writes.
            pub config_file: Option<std::path::PathBuf>,
            /// The working directory at startup; relative paths in its files start there.
            pub started_in: std::path::PathBuf,
        }

        impl Default for Config {
            fn default() -> Self {
                Self { $( $( $field: $default, )* )* config_file: None, started_in: current_directory() }
            }
        }

        /// Identifies an option; spelled like its field.
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum OptionId {
            $( $( #[doc = concat!("`", $name, "`")] $field, )* )*
        }

        /// All options, in the order in which CONFIG REWRITE appends new ones.
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
