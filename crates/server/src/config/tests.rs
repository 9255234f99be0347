mod key_policy;
mod load;
mod options;
mod reference;
mod rewrite;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Config, ConfigError, SetError, SetOrigin, Startup};

/// A directory that is removed after its test.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("warmline-config-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path.canonicalize().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        std::fs::write(self.path(name), text).unwrap();
        self.path(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn load(arguments: &[&str]) -> Result<Startup, ConfigError> {
    let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
    Config::load_with_input(&arguments, &mut std::io::empty())
}

/// Loads a file with this text.
fn load_text(text: impl AsRef<[u8]>) -> Result<Startup, ConfigError> {
    let arguments = [OsString::from("-")];
    Config::load_with_input(&arguments, &mut text.as_ref())
}

fn load_file(path: &Path) -> Result<Startup, ConfigError> {
    Config::load_with_input(&[path.as_os_str().to_owned()], &mut std::io::empty())
}

fn configured(text: impl AsRef<[u8]>) -> Config {
    load_text(text).unwrap().config
}

fn value(config: &Config, name: &str) -> String {
    match config.get(&[name.as_bytes()]).as_slice() {
        [(_, value)] => String::from_utf8(value.clone()).unwrap(),
        other => panic!("{name} is {} options", other.len()),
    }
}

fn set(config: &mut Config, pairs: &[(&str, &str)]) -> Result<Vec<&'static str>, SetError> {
    let pairs: Vec<(&[u8], &[u8])> = pairs.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes())).collect();
    let changes = config.set(&pairs, SetOrigin::default())?;
    Ok(changes.iter().map(|change| change.name).collect())
}

/// The error of setting one option, as the client sees it.
fn refusal(name: &str, value: &str) -> String {
    let mut config = Config { enable_protected_configs: super::ProtectedAction::Yes, ..Config::default() };
    let error = set(&mut config, &[(name, value)]).unwrap_err();
    String::from_utf8(error.text().unwrap()).unwrap()
}

fn bytes(text: OsString) -> Vec<u8> {
    text.into_vec()
}
