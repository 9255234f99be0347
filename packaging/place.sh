#!/usr/bin/env bash
# place.sh DIRECTORY: puts there what each way to install has in common, laid out as below /usr: the programs that
# `cargo build --profile dist --workspace` has built, units of systemd, manual pages, completions, the manual and the
# licences. BINARIES is another directory than `target/dist`; RUNNER precedes each call of a program there that this machine
# cannot run itself.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$1
binaries=${BINARIES:-target/dist}
read -ra runner <<<"${RUNNER:-}"

for program in warmline-server warmline-cli warmline-benchmark; do
    install -D -m 755 "$binaries/$program" "$root/bin/$program"
done
for tool in check-rdb check-aof; do
    ln -s warmline-server "$root/bin/warmline-$tool"
done

# One server, and instances of further ones: what is the same for all is written once.
units=$root/lib/systemd/system
install -D -m 644 packaging/systemd/warmline.service "$units/warmline.service"
sed -f packaging/systemd/instance.sed packaging/systemd/warmline.service >"$units/warmline@.service"
chmod 644 "$units/warmline@.service"

man=$root/share/man/man1
bash_completions=$root/share/bash-completion/completions
zsh_completions=$root/share/zsh/vendor-completions
fish_completions=$root/share/fish/vendor_completions.d
mkdir -p "$man" "$bash_completions" "$zsh_completions" "$fish_completions"
# place NAME KIND FILE: what a program is described by, and where that belongs.
place() {
    case $2 in
    man) gzip -9n <"$3" >"$man/$1.1.gz" ;;
    bash) install -m 644 "$3" "$bash_completions/$1" ;;
    zsh) install -m 644 "$3" "$zsh_completions/_$1" ;;
    fish) install -m 644 "$3" "$fish_completions/$1.fish" ;;
    esac
}
for kind in man bash zsh fish; do
    for program in warmline-cli warmline-benchmark; do
        "${runner[@]}" "$binaries/$program" --generate "$kind" >"$root/generated"
        place "$program" "$kind" "$root/generated"
    done
    for program in warmline-server warmline-check-rdb warmline-check-aof; do
        place "$program" "$kind" "packaging/generated/$program.$kind"
    done
done
rm "$root/generated"

documents=$root/share/doc/warmline
install -D -m 644 LICENSE "$documents/copyright"
install -m 644 packaging/generated/third-party-notices.txt "$documents/"
gzip -9n <CHANGELOG.md >"$documents/changelog.gz"
cp -r README.md SECURITY.md docs "$documents/"
