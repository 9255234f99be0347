#!/usr/bin/env bash
# test.sh: builds the package of the programs in BINARIES (`target/dist` unless told otherwise), installs it into a project of
# its own, and uses it with ioredis.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
package=$("$here/build.sh" "$work")
mkdir "$work/project" "$work/temporary"
cd "$work/project"
echo '{"private": true, "type": "module"}' >package.json
npm install --silent --no-audit --no-fund "$package" ioredis@5.8.2
cp "$here"/test/*.mjs .
TMPDIR=$work/temporary node --test
[ -z "$(ls -A "$work/temporary")" ] || { ls "$work/temporary" >&2; exit 1; }
npx warmline-server --version | grep -q '^Warmline server'
npx warmline-cli --version | grep -q .
echo '-- the package was installed and used'
