#!/bin/sh
# Creates target/prometheus: prometheus, promtool, the node exporter and the Pushgateway of Debian's
# packages, unpacked and not installed. Needs apt.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
home="$root/target/prometheus"
programs="prometheus promtool prometheus-node-exporter prometheus-pushgateway"
missing=
for program in $programs; do [ -x "$home/$program" ] || missing=yes; done
[ -n "$missing" ] || exit 0
mkdir -p "$home"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
apt-get download -qq prometheus prometheus-node-exporter prometheus-pushgateway
for package in *.deb; do dpkg-deb -x "$package" .; done
for program in $programs; do mv "usr/bin/$program" "$home/$program"; done
"$home/promtool" --version | head -n 1
