//! The files of the console, a page that uses the API. They are compiled into the program.

/// URL path of the page's files.
pub const FOLDER: &str = "/console/";

/// Content security policy of the console: files and requests of the same origin only. Received data can never run as
/// a script.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// A file of the console.
pub struct File {
    /// The value of `Content-Type`.
    pub content_type: &'static str,
    /// The contents.
    pub text: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const IMAGE: &str = "image/svg+xml";

macro_rules! files {
    ($($name:literal $content_type:ident),* $(,)?) => {
        const FILES: &[(&str, File)] = &[$((
            $name,
            File { content_type: $content_type, text: include_str!(concat!("../console/", $name)) },
        )),*];
    };
}

files!(
    "index.html" HTML,
    "console.css" CSS,
    "icon.svg" IMAGE,
    "api.js" SCRIPT,
    "charts.js" SCRIPT,
    "clients.js" SCRIPT,
    "cluster.js" SCRIPT,
    "configuration.js" SCRIPT,
    "hot.js" SCRIPT,
    "keys.js" SCRIPT,
    "main.js" SCRIPT,
    "memory.js" SCRIPT,
    "overview.js" SCRIPT,
    "page.js" SCRIPT,
    "replication.js" SCRIPT,
    "replies.js" SCRIPT,
    "slow.js" SCRIPT,
    "terminal.js" SCRIPT,
    "values.js" SCRIPT,
);

/// Returns the page, or one of its files.
pub fn file(path: &str) -> Option<&'static File> {
    let name = match path {
        "/" => "index.html",
        _ => path.strip_prefix(FOLDER)?,
    };
    FILES.iter().find(|(known, _)| *known == name).map(|(_, file)| file)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every file that a file refers to exists, none is loaded from another host, and no function that runs text as
    /// code is used.
    #[test]
    fn files_name_only_each_other() {
        for (name, file) in FILES {
            let folder = if *name == "index.html" { "/" } else { FOLDER };
            for quoted in file.text.split(['"', '\'']).filter(|text| text.starts_with("./")) {
                assert!(super::file(&(folder.to_owned() + &quoted[2..])).is_some(), "{name}: {quoted}");
            }
            for refused in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "srcdoc",
                " onclick=",
            ] {
                assert!(!file.text.contains(refused), "{name} has {refused}");
            }
            let elsewhere = file.text.replace("http://www.w3.org/2000/svg", "");
            assert!(!elsewhere.contains("http://") && !elsewhere.contains("https://"), "{name}");
        }
    }
}
