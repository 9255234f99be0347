#!/usr/bin/env bash
# Licences of dependencies, versions in duplicate, where they come from, and known faults in them (`deny.toml`).
. "$(dirname "$0")/../tools.sh"
check=(cargo deny --locked --config .ci/deny.toml)
# It reads the sources of all crates, of every platform.
cargo fetch --locked --quiet
"${check[@]}" --offline check licenses bans sources
# The database of advisories is a repository of its own, which not every machine reaches.
if "${check[@]}" fetch db >/dev/null 2>&1; then
    "${check[@]}" check advisories
else
    echo '-- the database of advisories cannot be fetched: known faults of dependencies were NOT looked for'
fi
