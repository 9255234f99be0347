//! Options whose value is one of a few words: the enums and their words.

use super::option::{Kind, Occurrence, Refusal};

/// An enum whose variants have names in the configuration, in the order in which errors list them. Several names
/// may mean one variant; it prints as the first.
pub trait Named: Copy + PartialEq + 'static {
    /// Names in the configuration, with their variants.
    const NAMES: &'static [(&'static str, Self)];

    /// Returns the variant's first name.
    fn name(self) -> &'static str {
        let found = Self::NAMES.iter().find(|(_, variant)| *variant == self);
        found.expect("every variant is declared with its name").0
    }
}

macro_rules! choices {
    ($( $(#[$meta:meta])* $name:ident { $( $variant:ident = $first:literal $(| $other:literal)* ),+ $(,)? } )+) => { $(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $( #[doc = concat!("`", $first, "`")] $variant, )+
        }

        impl Named for $name {
            const NAMES: &'static [(&'static str, Self)] =
                &[ $( ($first, Self::$variant), $( ($other, Self::$variant), )* )+ ];
        }
    )+ };
}

choices! {
    /// Which keys are evicted when `maxmemory` is reached.
    MaxmemoryPolicy {
        VolatileLru = "volatile-lru",
        VolatileLfu = "volatile-lfu",
        VolatileRandom = "volatile-random",
        VolatileTtl = "volatile-ttl",
        VolatileLrm = "volatile-lrm",
        VolatileS3fifo = "volatile-s3fifo",
        AllkeysLru = "allkeys-lru",
        AllkeysLfu = "allkeys-lfu",
        AllkeysRandom = "allkeys-random",
        AllkeysLrm = "allkeys-lrm",
        AllkeysS3fifo = "allkeys-s3fifo",
        NoEviction = "noeviction",
    }
    /// The facility of messages in syslog.
    SyslogFacility {
        User = "user",
        Local0 = "local0",
        Local1 = "local1",
        Local2 = "local2",
        Local3 = "local3",
        Local4 = "local4",
        Local5 = "local5",
        Local6 = "local6",
        Local7 = "local7",
    }
    /// The lowest level of messages that are logged.
    LogLevel {
        Debug = "debug",
        Verbose = "verbose",
        Notice = "notice",
        Warning = "warning",
        Nothing = "nothing",
    }
    /// The service manager of the process.
    Supervised { Upstart = "upstart", Systemd = "systemd", Auto = "auto", No = "no" }
    /// When the append-only file is synced to disk.
    AppendFsync { EverySecond = "everysec", Always = "always", No = "no" }
    /// How a replica loads a snapshot.
    ReplDisklessLoad {
        Disabled = "disabled",
        OnEmptyDb = "on-empty-db",
        SwapDb = "swapdb",
        FlushBeforeLoad = "flush-before-load",
    }
    /// Whether TLS clients must present a certificate.
    TlsAuthClients { No = "no", Yes = "yes", Optional = "optional" }
    /// Which field of a client's certificate names its user.
    TlsAuthClientsUser { CommonName = "CN", Uri = "URI", Off = "off" }
    /// Whether the kernel's preference for killing this process is adjusted.
    OomScoreAdj { No = "no", Relative = "yes" | "relative", Absolute = "absolute" }
    /// The channels that new users have access to.
    AclPubsubDefault { AllChannels = "allchannels", ResetChannels = "resetchannels" }
    /// Which clients have the permission that an option controls.
    ProtectedAction { No = "no", Yes = "yes", Local = "local" }
    /// The address of a node that clients are redirected to.
    ClusterEndpointType { Ip = "ip", Hostname = "hostname", UnknownEndpoint = "unknown-endpoint" }
    /// How the cluster configuration is saved.
    ClusterConfigSave { Sync = "sync", BestEffort = "best-effort" }
    /// The effect of a failed command from the primary.
    PropagationError { Ignore = "ignore", Panic = "panic", PanicOnReplicas = "panic-on-replicas" }
    /// The format of log lines.
    LogFormat { Legacy = "legacy", Logfmt = "logfmt", Json = "json" }
    /// The format of timestamps in the log.
    LogTimestampFormat { Legacy = "legacy", Iso8601 = "iso8601", Milliseconds = "milliseconds" }
    /// Whether RDB files of unknown versions are refused or tried.
    RdbVersionCheck { Strict = "strict", Relaxed = "relaxed" }
    /// The data structure of sorted sets above the compact limits.
    ZsetIndex { Skiplist = "skiplist", Fbtree = "fbtree" }
}

impl ProtectedAction {
    /// Whether a client has the permission. `local` clients are connected over loopback or a Unix socket.
    pub fn allows(self, local: bool) -> bool {
        match self {
            Self::Yes => true,
            Self::Local => local,
            Self::No => false,
        }
    }
}

impl MaxmemoryPolicy {
    /// Whether the policy evicts only keys with a TTL.
    pub fn is_volatile(self) -> bool {
        use MaxmemoryPolicy::*;
        matches!(
            self,
            VolatileLru | VolatileLfu | VolatileRandom | VolatileTtl | VolatileLrm | VolatileS3fifo
        )
    }

    /// Whether the policy uses the access frequency of a key instead of its idle time.
    pub fn is_lfu(self) -> bool {
        matches!(self, Self::VolatileLfu | Self::AllkeysLfu)
    }

    /// Whether the policy evicts by S3-FIFO.
    pub fn is_s3fifo(self) -> bool {
        matches!(self, Self::VolatileS3fifo | Self::AllkeysS3fifo)
    }

    /// Whether the policy counts the uses of a key, instead of measuring its idle time.
    pub fn counts_uses(self) -> bool {
        self.is_lfu() || self.is_s3fifo()
    }

    /// Whether the policy measures idle time from the last write, ignoring reads.
    pub fn is_lrm(self) -> bool {
        matches!(self, Self::VolatileLrm | Self::AllkeysLrm)
    }

    /// Whether the policy evicts the key that has been idle for longest.
    pub fn is_by_age(self) -> bool {
        self.is_lrm() || matches!(self, Self::VolatileLru | Self::AllkeysLru)
    }
}

/// One word of an enum, ignoring case.
pub(super) struct Choice;

impl<T: Named> Kind<T> for Choice {
    fn parse(&self, words: &[&[u8]], _before: &T, _occurrence: Occurrence) -> Result<T, Refusal> {
        lookup(T::NAMES, words[0]).ok_or_else(|| one_of(T::NAMES))
    }

    fn format(&self, value: &T) -> Vec<u8> {
        value.name().into()
    }

    fn accepts(&self) -> String {
        names(T::NAMES)
    }
}

fn lookup<T: Copy>(names: &[(&str, T)], word: &[u8]) -> Option<T> {
    names.iter().find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| *value)
}

fn names<T>(names: &[(&str, T)]) -> String {
    names.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

fn one_of<T>(all: &[(&str, T)]) -> Refusal {
    format!("argument(s) must be one of the following: {}", names(all)).into()
}

/// The options of a shutdown by signal, as a set of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShutdownFlags(u8);

impl ShutdownFlags {
    /// No options.
    pub const DEFAULT: Self = Self(0);
    /// Save even if there are no save points.
    pub const SAVE: Self = Self(1);
    /// Do not save, even if there are save points.
    pub const NOSAVE: Self = Self(1 << 1);
    /// Do not wait for replicas.
    pub const NOW: Self = Self(1 << 2);
    /// Stop despite errors.
    pub const FORCE: Self = Self(1 << 3);
    /// Do not shut down while it is not safe.
    pub const SAFE: Self = Self(1 << 4);
    /// Hand over to a replica of the cluster first.
    pub const FAILOVER: Self = Self(1 << 5);

    const NAMES: &'static [(&'static str, Self)] = &[
        ("default", Self::DEFAULT),
        ("save", Self::SAVE),
        ("nosave", Self::NOSAVE),
        ("now", Self::NOW),
        ("force", Self::FORCE),
        ("safe", Self::SAFE),
        ("failover", Self::FAILOVER),
    ];

    /// Whether all of `other` is in this set.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The union.
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The options of a shutdown, in any order.
pub(super) struct ShutdownWords;

impl Kind<ShutdownFlags> for ShutdownWords {
    fn parse(
        &self,
        words: &[&[u8]],
        _before: &ShutdownFlags,
        _occurrence: Occurrence,
    ) -> Result<ShutdownFlags, Refusal> {
        let names = ShutdownFlags::NAMES;
        if words.is_empty() {
            return Err(one_of(names));
        }
        let mut flags = ShutdownFlags::DEFAULT;
        for word in words {
            flags = flags.with(lookup(names, word).ok_or_else(|| one_of(names))?);
        }
        if flags.has(ShutdownFlags::SAVE.with(ShutdownFlags::NOSAVE)) {
            return Err("shutdown options SAVE and NOSAVE can't be used simultaneously".into());
        }
        Ok(flags)
    }

    fn format(&self, value: &ShutdownFlags) -> Vec<u8> {
        let (default, named) = ShutdownFlags::NAMES.split_first().expect("the names are a constant list");
        let set: Vec<&str> =
            named.iter().filter(|(_, flag)| value.has(*flag)).map(|(name, _)| *name).collect();
        if set.is_empty() { default.0.into() } else { set.join(" ").into() }
    }

    fn accepts(&self) -> String {
        format!("any of {}", names(ShutdownFlags::NAMES))
    }
}
