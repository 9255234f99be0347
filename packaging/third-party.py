#!/usr/bin/env python3
"""third-party.py [--check]: writes packaging/generated/third-party-notices.txt, the licences of all crates that Warmline's
programs are linked of, with the C sources in them; or tells whether it is current. Needs cargo, with the crates fetched.

The texts are the files that the crates carry. A crate that carries none is listed under the usual text of its licence."""

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "packaging/generated/third-party-notices.txt"
TARGETS = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"]
PROGRAMS = ["warmline-server", "warmline-cli", "warmline-bench"]
NAMES = re.compile(r"(licen[cs]e|copying|notice|copyright|unlicense)[-_.a-z0-9]*", re.IGNORECASE)
# Ends of names of sources about licences, which are none.
SOURCES = (".rs", ".c", ".h", ".go", ".py", ".sh", ".toml", ".json", ".lock")
# Directories whose files are not linked.
UNUSED = {"tests", "test", "examples", "benches", "fuzz", "doc", "docs", "contrib", "zlibWrapper", "programs", "util"}
# The parts of AWS-LC that its library is built without.
UNUSED_PATHS = ("aws-lc/third_party/googletest", "aws-lc/third_party/wycheproof_testvectors", "aws-lc/tests")
LINE = "=" * 80


def cargo(*arguments):
    return subprocess.run(["cargo", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def linked():
    """The names and versions of linked crates: without those that only macros and builds use."""
    found = set()
    for target in TARGETS:
        for program in PROGRAMS:
            tree = cargo(
                "tree", "--locked", "--package", program, "--target", target, "--edges", "normal,no-proc-macro",
                "--prefix", "none", "--format", "{p}",
            )  # fmt: skip
            for line in tree.splitlines():
                name, version = line.split()[:2]
                found.add((name, version.removeprefix("v")))
    return found


def texts_of(directory):
    """The files of licences in a crate."""
    for folder, folders, files in os.walk(directory):
        path = Path(folder).relative_to(directory).as_posix()
        folders[:] = sorted(
            name for name in folders if name not in UNUSED and not f"{path}/{name}".removeprefix("./").startswith(UNUSED_PATHS)
        )
        for name in sorted(files):
            if NAMES.fullmatch(name) and not name.endswith(SOURCES):
                text = (Path(folder) / name).read_text(errors="replace")
                yield "\n".join(line.rstrip() for line in text.strip().splitlines())


def standard(packages, licence):
    """The usual text of a licence, from a crate that has it in a file of the licence's name."""
    wanted = {"MIT": "LICENSE-MIT", "Apache-2.0": "LICENSE-APACHE"}[licence]
    for package in packages:
        path = Path(package["manifest_path"]).parent / wanted
        if path.is_file() and package["name"] in ("cfg-if", "libc"):
            text = path.read_text()
            return "\n".join(line.rstrip() for line in text.strip().splitlines() if not line.startswith("Copyright"))
    raise SystemExit(f"no text is known for {licence}")


def notices():
    wanted = linked()
    packages = json.loads(cargo("metadata", "--locked", "--format-version", "1"))["packages"]
    packages = [package for package in packages if (package["name"], package["version"]) in wanted]
    packages.sort(key=lambda package: (package["name"], package["version"]))
    assert len(packages) == len(wanted), "cargo tree and cargo metadata name different crates"
    holders = defaultdict(list)
    for package in packages:
        own = package["source"] is None
        if own and package["name"] != "warmline-lua":
            continue
        line = f"{package['name']} {package['version']} ({package['license']})"
        texts = list(texts_of(Path(package["manifest_path"]).parent))
        if not texts:
            licence = next(name for name in ("MIT", "Apache-2.0") if name in (package["license"] or ""))
            texts = [standard(packages, licence)]
            line += f", by {', '.join(package['authors']) or package['repository']}"
        for text in texts:
            holders[text].append(line)
    parts = ["Warmline's programs contain the works that each heading lists; their licence follows it."]
    for text, lines in sorted(holders.items(), key=lambda item: (item[1], item[0])):
        parts.append("\n".join([LINE, *dict.fromkeys(lines), LINE, "", text]))
    return "\n\n".join(parts) + "\n"


def main():
    text = notices()
    if sys.argv[1:] == ["--check"]:
        if not OUTPUT.is_file() or OUTPUT.read_text() != text:
            sys.exit(f"{OUTPUT.relative_to(ROOT)} is not current: run packaging/third-party.py")
    else:
        OUTPUT.write_text(text)


if __name__ == "__main__":
    main()
