#!/bin/sh
# Installs what check_page.py needs: Chromium from the system's packages (as root, where it is
# missing), and axe-core from its npm package into target/page.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
home="$root/target/page"
if ! command -v chromium >/dev/null 2>&1; then
    apt-get update -qq
    apt-get install -qq -y --no-install-recommends chromium >/dev/null
fi
mkdir -p "$home"
if [ ! -f "$home/axe.min.js" ]; then
    (cd "$home" && npm pack --silent axe-core@4.10.3 >/dev/null && tar xzf axe-core-4.10.3.tgz)
    mv "$home/package/axe.min.js" "$home/axe.min.js"
    rm -r "$home/package" "$home/axe-core-4.10.3.tgz"
fi
chromium --version
