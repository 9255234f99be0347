//! The files of the console: a page that asks the API. They are part of the program, so that it works without anything else.

/// Where the page's files are found.
pub const FOLDER: &str = "/console/";

/// What the console's pages may do: load files from here and ask here. Nothing that arrives can become a script.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

pub struct File {
    pub content_type: &'static str,
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

/// The page itself, or one of its files.
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

    /// Whatever a file names is there, and nothing comes from elsewhere or could run what the server says.
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
