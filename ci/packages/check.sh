#!/usr/bin/env bash
# Checks target/dist, as ci/packages/build.sh left it: `bash ci/packages/check.sh [PART...]`.
#
# It needs root, for clean roots of Debian in namespaces of their own: without network, with private
# /proc, /tmp and /dev/shm, and unmounted by the kernel when the last process ends. What is checked
# runs in them as an ordinary user.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=ci/packages
tools=target/packages
dist=target/dist
stage=target/portable/stage

# Debian 12, and the oldest Debian that its mirrors still have: glibc 2.31, as in Ubuntu 20.04.
suites=(bookworm bullseye)

parts=(symbols files rpm container deb oldest)
wanted=("$@")
[ $# -gt 0 ] || wanted=("${parts[@]}")

say() { printf 'packages: %s\n' "$*"; }
fail() { say "FAILED: $*" >&2; exit 1; }
scratch=$(mktemp -d "${TMPDIR:-/tmp}/gpubench-packages.XXXXXX")
trap 'rm -rf --one-file-system "$scratch"' EXIT
# The user of a root must be able to enter.
chmod 755 "$scratch"

# A new clean root of a suite, from an archive that is made once, in $root.
clean_root() {
    local suite=$1 archive=$tools/root-$1.tar
    if [ ! -f "$archive" ]; then
        mmdebstrap --quiet --variant=minbase --format=tar "$suite" "$archive.part" || return
        mv "$archive.part" "$archive"
    fi
    root=$scratch/$suite-$RANDOM
    mkdir "$root"
    tar --extract --file "$archive" --directory "$root"
    mkdir -p "$root/dev/shm"
}

# `within MODE COMMAND...` runs a command in $root as root. In the mode `ro` the tree cannot be
# written, as a pod's with readOnlyRootFilesystem; /mnt is the folder $mnt.
within() {
    local mode=$1
    shift
    # shellcheck disable=SC2016 # expanded by the inner shell
    timeout --kill-after=30 10m \
        unshare --mount --pid --net --ipc --uts --fork --kill-child -- bash -euc '
            root=$1 mode=$2 mnt=$3
            shift 3
            mount --bind "$root" "$root"
            [ "$mode" = rw ] || mount -o remount,bind,ro "$root"
            mount -t proc proc "$root/proc"
            mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
            mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
            mount --bind "$mnt" "$root/mnt"
            cd /
            exec chroot "$root" "$@"
        ' bash "$root" "$mode" "$mnt" "$@"
}

# A command in $root as an ordinary user without rights, with an empty home.
as_user() {
    within ro setpriv --reuid=1000 --regid=1000 --clear-groups --no-new-privs --inh-caps=-all \
        --bounding-set=-all env -i PATH=/usr/bin:/bin HOME=/tmp "$@"
}

# A fresh folder for results, $mnt, that the user given can write.
results_for() {
    mnt=$(mktemp -d "$scratch/results.XXXXXX")
    chown "$1" "$mnt"
}

# The report of a smoke run, complete and marked as virtual.
check_report() {
    python3 ci/check_smoke.py "$1"
}

# No symbol above GLIBC_2.28, in the program and in what is embedded in it.
part_symbols() {
    python3 -m doctest "$here/check_symbols.py"
    python3 "$here/check_symbols.py" "$stage/bin/gpubench" 2.28
    "$stage/bin/gpubench" --version
}

# Checksums, the archive, the bill of materials, and the workflow.
part_files() {
    (cd "$dist" && sha256sum --check --strict SHA256SUMS)
    mkdir "$scratch/archive"
    tar --extract --file "$dist"/gpubench-*-linux.tar.gz --directory "$scratch/archive"
    diff -r "$scratch/archive"/gpubench-* "$stage"
    "$tools/bin/python" "$here/check_bom.py" "$dist/gpubench.cdx.json" Cargo.lock
    "$tools/bin/check-jsonschema" --quiet --builtin-schema vendor.github-workflows \
        "$here/release.yml"
}

# The rpm, by the program of that name: its files are those of the stage, it needs glibc and a
# shell, and it installs into an empty root.
part_rpm() {
    local rpm
    rpm=$(echo "$dist"/gpubench-*.rpm)
    rpm --query --package --requires "$rpm" | grep -v '^rpmlib' >"$scratch/requires"
    [ "$(cat "$scratch/requires")" = $'/bin/sh\nglibc >= 2.28' ] ||
        fail "the rpm needs $(cat "$scratch/requires")"
    mkdir "$scratch/rpm"
    rpm --root "$scratch/rpm" --initdb
    rpm --root "$scratch/rpm" --install --nodeps --noscripts "$rpm"
    cmp "$stage/bin/gpubench" "$scratch/rpm/usr/bin/gpubench"
    diff -r "$stage/share/gpubench" "$scratch/rpm/usr/share/gpubench"
    "$scratch/rpm/usr/bin/gpubench" --version
}

# The steps of the container file, and its program as the first process of a container.
part_container() {
    python3 -m doctest "$here/containerfile.py"
    clean_root bookworm
    listing >"$scratch/base"
    python3 "$here/containerfile.py" "$here/Containerfile" "$stage" "$root" "$scratch"
    sh "$scratch/build.sh"
    listing >"$scratch/image"
    echo "f ./usr/bin/gpubench" | LC_ALL=C sort "$scratch/base" - | diff - "$scratch/image" ||
        fail "the image does not have exactly the program more than its base"
    results_for 10001
    cp "$scratch/start.sh" "$mnt/start"
    within ro sh /mnt/start --version
    within ro sh /mnt/start matrix --device virtual --profile smoke --out /mnt/smoke >/dev/null
    within ro sh /mnt/start report /mnt/smoke --format json >"$scratch/container.json"
    check_report "$scratch/container.json"
    say "the smoke matrix ran as $(stat -c 'user %u, group %g' "$mnt/smoke/record.json")"
}

# What is in $root, by type and path. dpkg's own state and log are left out.
listing() {
    (cd "$root" && find . -path ./var/lib/dpkg -prune -o -path ./var/log/dpkg.log -o \
        -printf '%y %p\n' | LC_ALL=C sort)
}

# Installs the deb in $root, uses it as an ordinary user, and removes it.
deb_in_root() {
    local deb
    deb=$(echo "$dist"/gpubench_*.deb)
    results_for 1000
    cp "$deb" "$mnt/gpubench.deb"
    within rw dpkg --list | awk '$1 == "ii" { print $2 }' >"$scratch/packages"
    listing >"$scratch/before"
    within rw dpkg --install /mnt/gpubench.deb >/dev/null
    cmp "$stage/bin/gpubench" "$root/usr/bin/gpubench"
    within rw dpkg --listfiles gpubench >"$scratch/installed"
    say "the deb has $(grep -c 'man1/.*gz$' "$scratch/installed") manual pages"
    as_user bash -n /usr/share/bash-completion/completions/gpubench
    as_user sh -c 'zcat /usr/share/man/man1/gpubench-matrix.1.gz | grep -q "^.TH"'
    as_user gpubench matrix --device virtual --profile smoke --out /mnt/smoke >/dev/null
    as_user gpubench report /mnt/smoke --format json >"$scratch/deb.json"
    check_report "$scratch/deb.json"
    within rw dpkg --purge gpubench >/dev/null
    listing >"$scratch/after"
    diff "$scratch/before" "$scratch/after" || fail "the deb leaves something"
    within rw dpkg --list | awk '$1 == "ii" { print $2 }' | diff "$scratch/packages" - ||
        fail "dpkg still knows the deb"
    say "$(sed -n 's/^PRETTY_NAME=//p' "$root/etc/os-release"): installed, ran, removed"
}

part_deb() {
    # Warnings are printed and do not fail.
    lintian --fail-on error "$dist"/gpubench_*.deb
    clean_root "${suites[0]}"
    deb_in_root
}

part_oldest() {
    clean_root "${suites[1]}"
    deb_in_root
}

for part in "${wanted[@]}"; do
    declare -F "part_$part" >/dev/null || fail "unknown part $part (known: ${parts[*]})"
    say "$part"
    "part_$part"
done
say "all ok"
