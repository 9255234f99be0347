#!/usr/bin/env bash
# test.sh: builds the wheel of the programs in BINARIES (`target/dist` unless told otherwise), installs it into an environment
# of its own, and uses it with redis-py and pytest.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
wheel=$(PYTHON=$work/venv/bin/python "$here/build.sh" "$work")
"$work/venv/bin/pip" install --quiet --disable-pip-version-check "$wheel" 'redis==7.0.1' 'pytest==8.4.2'
# Servers and their directories are looked for here.
mkdir "$work/temporary"
cd "$work"
TMPDIR=$work/temporary venv/bin/python -m pytest -q -p no:cacheprovider "$here/tests"
[ -z "$(ls -A "$work/temporary")" ] || { ls "$work/temporary" >&2; exit 1; }
venv/bin/warmline-server --version | grep -q '^Warmline server'
venv/bin/warmline-cli --version | grep -q .
echo '-- the wheel was installed and used'
