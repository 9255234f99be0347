//! Up to where collections are kept small: what runs of random commands are made with.

pub const DEFAULT: &[(&str, &str)] = &[
    ("hash-max-listpack-entries", "512"),
    ("hash-max-listpack-value", "64"),
    ("set-max-intset-entries", "512"),
    ("set-max-listpack-entries", "128"),
    ("set-max-listpack-value", "64"),
    ("zset-max-listpack-entries", "128"),
    ("zset-max-listpack-value", "64"),
    ("list-max-listpack-size", "-2"),
    ("list-compress-depth", "0"),
    ("hll-sparse-max-bytes", "3000"),
    ("stream-node-max-entries", "100"),
    ("stream-node-max-bytes", "4096"),
];
const SMALL: &[(&str, &str)] = &[
    ("hash-max-listpack-entries", "4"),
    ("hash-max-listpack-value", "8"),
    ("set-max-intset-entries", "5"),
    ("set-max-listpack-entries", "6"),
    ("set-max-listpack-value", "20"),
    ("zset-max-listpack-entries", "4"),
    ("zset-max-listpack-value", "10"),
    ("list-max-listpack-size", "3"),
    ("list-compress-depth", "1"),
    ("hll-sparse-max-bytes", "200"),
    ("stream-node-max-entries", "3"),
    ("stream-node-max-bytes", "200"),
];
const NONE_SMALL: &[(&str, &str)] = &[
    ("hash-max-listpack-entries", "0"),
    ("set-max-intset-entries", "0"),
    ("set-max-listpack-entries", "0"),
    ("zset-max-listpack-entries", "0"),
    ("list-max-listpack-size", "-1"),
    ("list-compress-depth", "2"),
    ("hll-sparse-max-bytes", "0"),
    ("stream-node-max-entries", "1"),
];
const ALL_SMALL: &[(&str, &str)] = &[
    ("hash-max-listpack-entries", "20000"),
    ("hash-max-listpack-value", "30000"),
    ("set-max-listpack-entries", "20000"),
    ("zset-max-listpack-entries", "20000"),
    ("zset-max-listpack-value", "30000"),
    ("list-max-listpack-size", "-5"),
    ("stream-node-max-entries", "0"),
];
pub const LIMITS: &[(&[(&str, &str)], &str)] = &[
    (DEFAULT, "default limits"),
    (SMALL, "low limits"),
    (NONE_SMALL, "no small encodings"),
    (ALL_SMALL, "small encodings only"),
];
