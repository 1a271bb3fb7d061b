#!/bin/sh
# Creates target/packages, the programs that build and check packages: zig and cargo-zigbuild as
# wheels, cargo-deb, cargo-generate-rpm and cargo-cyclonedx compiled from their crates, which takes
# some minutes once. mmdebstrap, lintian, rpm and objdump come from the system's packages, as root,
# where one is missing.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
home="$root/target/packages"
[ -x "$home/bin/python" ] || python3 -m venv "$home"
"$home/bin/python" -m pip install --quiet --disable-pip-version-check \
    ziglang==0.17.1 cargo-zigbuild==0.24.0 check-jsonschema==0.39.0 \
    "cyclonedx-python-lib[json-validation]==11.12.0"

# cargo does nothing for a version that is there. Its build folder is temporary.
install() { cargo install --quiet --locked --root "$home" --version "$2" "$1"; }
install cargo-deb 3.8.0
install cargo-cyclonedx 0.5.9
install cargo-generate-rpm 0.21.1

missing=
command -v mmdebstrap >/dev/null || missing="$missing mmdebstrap"
command -v lintian >/dev/null || missing="$missing lintian"
command -v objdump >/dev/null || missing="$missing binutils"
command -v rpm >/dev/null || missing="$missing rpm"
if [ -n "$missing" ]; then
    apt-get update -qq
    # shellcheck disable=SC2086 # a list of package names
    apt-get install -qq --no-install-recommends --yes $missing >/dev/null
fi
zig=$("$home/bin/python" -m ziglang version)
echo "packages: $("$home/bin/cargo-zigbuild" --version), zig $zig"
