//! Links of pages, of the shipped alerts and of source comments lead to files that exist and to headings in them.

use super::root;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// What links are searched in, below the root; directories with all their files.
const SEARCHED: &[&str] = &[
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "contrib/prometheus/alerts.yml",
    "crates",
    "docs",
];

fn collect(path: &Path, out: &mut Vec<PathBuf>) {
    if path.is_dir() {
        let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        entries.for_each(|entry| collect(&entry, out));
    } else if path
        .extension()
        .is_some_and(|extension| ["md", "rs", "yml"].iter().any(|own| extension == *own))
    {
        out.push(path.to_owned());
    }
}

/// The text outside of fenced blocks.
fn prose(text: &str) -> String {
    text.split("\n```").step_by(2).collect::<Vec<_>>().join("\n")
}

/// The names to which a page can be linked: those of its headings, as GitHub derives them, and its `id` attributes.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text);
    let headings = headings
        .lines()
        .filter_map(|line| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')));
    let named = headings.map(|heading| {
        let kept = heading.trim().to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    });
    let ids = text.split("id=\"").skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned()));
    named.chain(ids).collect()
}

/// The targets of a file's links.
fn targets(path: &Path, text: &str) -> Vec<String> {
    let is_source = path.extension().is_some_and(|extension| extension == "rs");
    let mut found = Vec::new();
    for line in text.lines() {
        if let Some(runbook) = line.trim().strip_prefix("runbook: ") {
            found.push(format!("../../{runbook}"));
        }
        // Only comments of source files: its strings are parts of other pages.
        if is_source && !line.trim_start().starts_with("//") {
            continue;
        }
        let links = line.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
        found.extend(links.filter(|link| !is_source || link.contains(".md")).map(str::to_owned));
    }
    found
}

/// The path without `.` and `..`.
fn resolved(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(out.pop()),
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

#[test]
fn links_lead_to_headings() {
    let root = resolved(&root().canonicalize().unwrap());
    let mut files = Vec::new();
    SEARCHED.iter().for_each(|name| collect(&root.join(name), &mut files));
    let (mut faults, mut links_seen) = (Vec::new(), 0);
    let mut anchors_of: BTreeMap<PathBuf, BTreeSet<String>> = BTreeMap::new();
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        for link in
            targets(file, &text).iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:"))
        {
            links_seen += 1;
            let (name, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match name {
                "" => file.clone(),
                name => resolved(&file.parent().unwrap().join(name)),
            };
            let is_page = target.extension().is_some_and(|extension| extension == "md");
            let known = is_page && target.exists();
            let anchors = anchors_of.entry(target.clone()).or_insert_with(|| match known {
                true => anchors(&std::fs::read_to_string(&target).unwrap()),
                false => BTreeSet::new(),
            });
            if !target.exists() || (is_page && !anchor.is_empty() && !anchors.contains(anchor)) {
                faults.push(format!("{}: {link}", file.strip_prefix(&root).unwrap().display()));
            }
        }
    }
    assert!(faults.is_empty(), "{} links lead nowhere:\n{}", faults.len(), faults.join("\n"));
    assert!(links_seen > 150, "{links_seen}");
}
