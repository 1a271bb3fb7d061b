#!/usr/bin/env bash
# Builds what a release publishes into target/dist: `bash ci/packages/build.sh`.
#
# The programs are those of ci/install-packages.sh. The stage, target/portable/stage, is the tree
# that the archive, the deb and the container image are made of.
#
# GPUBENCH_MAINTAINER is the maintainer of the deb, `NAME <ADDRESS>`. GPUBENCH_TARGET is another
# target, whose packages go to target/dist-ARCH; the program writes its pages under qemu-ARCH.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

target=${GPUBENCH_TARGET:-x86_64-unknown-linux-gnu}
arch=${target%%-*}
# RHEL 8 has 2.28, Ubuntu 20.04 has 2.31.
glibc=2.28
root=$PWD
dist=$root/target/dist portable=$root/target/portable run=()
if [ "$arch" != "$(uname -m)" ]; then
    dist=$dist-$arch
    run=("qemu-$arch" -L "/usr/$arch-linux-gnu")
fi
stage=$portable/stage
export PATH="$root/target/packages/bin:$PATH"
export CARGO_BUILD_JOBS="${CARGO_BUILD_JOBS:-2}"
export CARGO_TARGET_DIR="$portable"

say() { printf 'packages: %s\n' "$*"; }

version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"$/\1/p' Cargo.toml)
commit=$(git rev-parse HEAD)
[ -z "$(git status --porcelain --untracked-files=no)" ] || commit="$commit with changes"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH GPUBENCH_COMMIT="$commit"

# The target is named although it is that of the host: the suffix is how cargo-zigbuild chooses the
# glibc. Because both are equal, cargo links build-dependencies with zig too, and the libraries of
# the virtual GPU, which are embedded, are among them.
say "gpubench $version, commit $commit, for $target with glibc $glibc"
cargo zigbuild --locked --release --package gpubench --bin gpubench --target "$target.$glibc"
program=$portable/$target/release/gpubench

rm -rf "$stage" "$dist"
mkdir -p "$dist"
share=$stage/share
doc=$share/doc/gpubench
install -D -m 755 "$program" "$stage/bin/gpubench"
mkdir -p "$share/man/man1" "$doc"
"${run[@]}" "$program" man --output "$share/man/man1" >/dev/null
# Writes the completions for a shell where that shell looks for them.
completions() {
    mkdir -p "$share/$2"
    "${run[@]}" "$program" completions "$1" >"$share/$2/$3"
}
completions bash bash-completion/completions gpubench
completions zsh zsh/vendor-completions _gpubench
completions fish fish/vendor_completions.d gpubench.fish
# Profiles, schemas, the book, and files for clusters, as `gpubench files` writes them.
"${run[@]}" "$program" files "$share/gpubench" >/dev/null
install -m 644 LICENSE-MIT LICENSE-APACHE ci/packages/copyright "$doc/"
cargo metadata --locked --format-version 1 --filter-platform "$target" |
    python3 ci/packages/third_party.py >"$doc/THIRD-PARTY.txt"

# `pack FOLDER NAME FILE` packs FOLDER as NAME: equal bytes for equal contents.
pack() {
    tar --create --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
        --directory "$(dirname "$1")" --transform "s,^$(basename "$1"),$2," "$(basename "$1")" |
        gzip --no-name --best >"$3"
}

# The bill of materials. cargo-cyclonedx counts build-dependencies, of which the embedded libraries
# are made, but writes beside each manifest: it gets a copy of the sources.
copy=$(mktemp -d "${TMPDIR:-/tmp}/gpubench-packages.XXXXXX")
trap 'rm -rf "$copy"' EXIT
git ls-files -z | tar --create --null --files-from - | tar --extract --directory "$copy"
# The sources, for `cargo install`: the libraries of the virtual GPU are a workspace of their own,
# which no crate of a registry can hold.
pack "$copy" "gpubench-$version" "$dist/gpubench-$version-src.tar.gz"
(cd "$copy" && cargo cyclonedx --quiet --manifest-path harness/Cargo.toml --format json \
    --spec-version 1.5 --target "$target" --override-filename bom)
bom=gpubench.cdx.json
mv "$copy/harness/bom.json" "$dist/$bom"

# The archive, for hosts without dpkg.
pack "$stage" "gpubench-$version" "$dist/gpubench-$version-$arch-linux.tar.gz"

# The changes are in CHANGELOG.md of the sources; Debian's format needs an entry of its own.
maintainer=${GPUBENCH_MAINTAINER:-$(sed -n 's/^maintainer = "\(.*\)"$/\1/p' harness/Cargo.toml)}
cat >"$portable/changelog" <<END
gpubench ($version-1) unstable; urgency=medium

  * Built from commit $commit.

 -- $maintainer  $(LC_ALL=C date --utc --date="@$SOURCE_DATE_EPOCH" '+%a, %d %b %Y %T +0000')
END
cargo deb --quiet --no-build --no-strip --locked --package gpubench --target "$target" \
    --maintainer "$maintainer" --output "$dist/"

# cargo-generate-rpm does not know the folder of cargo-zigbuild's target by itself.
cargo generate-rpm --package harness --target "$target" --target-dir "$portable" \
    --payload-compress gzip --output "$dist/"

(cd "$dist" && sha256sum -- * >SHA256SUMS)
say "in $dist:"
ls -l "$dist"
