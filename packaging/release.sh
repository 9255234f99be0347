#!/usr/bin/env bash
# release.sh [OPTION...] [DIRECTORY]: makes all files of a release there, `target/release-files` unless told otherwise: for
# amd64 and arm64 a tarball, a Debian package and a Python wheel, the bills of materials (CycloneDX), the npm package of
# all of them, and SHA256SUMS. What is built depends on the sources, the toolchain and the time of the commit alone: no path
# of this machine is in it, which is checked.
#
#   --architectures LIST     of `amd64 arm64`
#   --profile NAME           another than `dist`, for trials
#   --binaries ARCH=DIR      programs that are there already, in place of a build; again for each architecture
#   --no-bills               without bills of materials, and so without cargo-cyclonedx
#   --twice                  builds again in another directory, and compares the programs byte for byte
#
# Needs what `.ci/steps/prepare.sh` installs, and cargo-cyclonedx (CARGO_CYCLONEDX in `.ci/tools.sh`).
. "$(dirname "${BASH_SOURCE[0]}")/../.ci/tools.sh"
# A failure within $(...) ends the script too.
shopt -s inherit_errexit

architectures='amd64 arm64'
profile=dist
twice=
with_bills=yes
declare -A given=()
while [ $# -gt 0 ]; do
    case $1 in
    --architectures) architectures=$2; shift ;;
    --profile) profile=$2; shift ;;
    --binaries) given[${2%%=*}]=${2#*=}; shift ;;
    --no-bills) with_bills= ;;
    --twice) twice=yes ;;
    -*) echo "release.sh: $1 is no option" >&2; exit 1 ;;
    *) break ;;
    esac
    shift
done
output=$(realpath -m "${1:-target/release-files}")
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"$/\1/p' Cargo.toml)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
programs=(warmline-server warmline-cli warmline-benchmark)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -n "$with_bills" ] && ! cargo cyclonedx --version >/dev/null 2>&1; then
    echo "release.sh: cargo install --locked --version $CARGO_CYCLONEDX cargo-cyclonedx, or --no-bills" >&2
    exit 1
fi
say() { printf -- '-- %s\n' "$*" >&2; }

target_of() {
    case $1 in
    amd64) echo x86_64-unknown-linux-gnu ;;
    arm64) echo "$ARM" ;;
    *) echo "release.sh: no target is known for $1" >&2; return 1 ;;
    esac
}

# What runs a program of that architecture here; nothing if the machine can.
runner_of() {
    [ "$1" = "$(dpkg --print-architecture)" ] || case $1 in
    arm64) echo "$ARM_RUNNER" ;;
    *) echo "release.sh: nothing is known that runs $1" >&2; return 1 ;;
    esac
}

# Where cargo keeps the sources of crates, and the compiler those of the standard library.
crates_home=${CARGO_HOME:-$HOME/.cargo}
sysroot=$(rustc --print sysroot)
compiler_commit=$(rustc -vV | sed -n 's/^commit-hash: //p')

# build ARCHITECTURE SOURCES TARGET_DIRECTORY: paths of this machine become names that are the same everywhere, in Rust and in C.
build() {
    local target
    target=$(target_of "$1")
    local maps=("$2=/warmline" "$3=/build" "$crates_home=/cargo" "$sysroot/lib/rustlib/src/rust=/rustc/$compiler_commit" "$sysroot=/rust")
    local rust_flags='' c_flags='' map
    for map in "${maps[@]}"; do
        rust_flags+=${rust_flags:+$'\x1f'}--remap-path-prefix=$map
        c_flags+=" -ffile-prefix-map=$map"
    done
    say "building for $1 in $2"
    (cd "$2" && env CARGO_ENCODED_RUSTFLAGS="$rust_flags" CFLAGS="$c_flags" CXXFLAGS="$c_flags" \
        CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
        cargo build --locked --profile "$profile" --workspace --target "$target" --target-dir "$3") >&2
}

# Prints the directory of programs below a target directory.
programs_in() {
    local folder=$profile
    [ "$profile" != dev ] || folder=debug
    echo "$1/$(target_of "$2")/$folder"
}

# No path of the machine that built a program may be in it.
without_paths() {
    local program path found
    for program in "${programs[@]}"; do
        [ -s "$1/$program" ] || { echo "release.sh: $1/$program does not exist" >&2; return 1; }
        for path in "$PWD" "$work" "$crates_home" "$sysroot" "$HOME/"; do
            found=$(grep -a -o -m 1 -F "$path" "$1/$program" | head -1 || true)
            [ -z "$found" ] || { echo "release.sh: $1/$program contains $found" >&2; return 1; }
        done
    done
}

# Builds what was not given, and prints where it is.
binaries_of() {
    if [ -n "${given[$1]:-}" ]; then realpath "${given[$1]}"; return; fi
    local first=$PWD/target/remapped
    build "$1" "$PWD" "$first"
    first=$(programs_in "$first" "$1")
    without_paths "$first"
    if [ -n "$twice" ]; then
        local again=$work/again
        rm -rf "$again" && mkdir "$again"
        git ls-files -z | xargs -0 cp --parents -t "$again"
        build "$1" "$again" "$work/again-$1"
        for program in "${programs[@]}"; do
            cmp "$first/$program" "$(programs_in "$work/again-$1" "$1")/$program" >&2
        done
        rm -rf "$again" "$work/again-$1"
        say "two builds for $1 are the same"
    fi
    echo "$first"
}

# pack NAME: the directory NAME below the working directory as a tarball whose bytes depend on nothing else.
pack() {
    tar -C "$work" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu -cf - "$1" |
        gzip -9n >"$output/$1.tar.gz"
}

tarball() {
    local name=warmline-$version-linux-$1
    packaging/place.sh "$work/$name"
    install -m 644 warmline.conf "$work/$name/share/doc/warmline/"
    chmod -R u=rwX,go=rX "$work/$name"
    pack "$name"
}

# What each program is linked of, as cargo resolves it for that architecture.
bills() {
    local program
    local -A folders=([warmline-server]=server [warmline-cli]=cli [warmline-benchmark]=bench)
    for program in "${programs[@]}"; do
        cargo cyclonedx --quiet --format json --spec-version 1.5 --no-build-deps --target "$(target_of "$1")" \
            --override-filename bill --manifest-path "crates/${folders[$program]}/Cargo.toml" >&2
        sed "s|path+file://$PWD|path+file:///warmline|g" "crates/${folders[$program]}/bill.json" \
            >"$output/$program-$version-linux-$1.cdx.json"
        find crates -name bill.json -delete
    done
}

mkdir -p "$output"
built=()
for architecture in $architectures; do
    BINARIES=$(binaries_of "$architecture")
    RUNNER=$(runner_of "$architecture")
    export BINARIES RUNNER
    tarball "$architecture"
    export ARCHITECTURE=$architecture
    packaging/debian/build.sh "$output" >&2
    packaging/python/build.sh "$output" >&2
    built+=("$BINARIES")
    [ -z "$with_bills" ] || bills "$architecture"
done
# npm installs by the architecture that runs: the first of those given, and the other one.
ARCHITECTURE=${architectures%% *} BINARIES=${built[0]} FURTHER_BINARIES=${built[1]:-} packaging/npm/build.sh "$output" >&2
(cd "$output" && find . -maxdepth 1 -type f -name '*warmline*' -printf '%P\0' | sort -z | xargs -0 sha256sum >SHA256SUMS)
cat "$output/SHA256SUMS"
