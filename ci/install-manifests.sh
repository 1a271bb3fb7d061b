#!/bin/sh
# Creates target/manifests: the schemas of Kubernetes' API with a validator, and Helm, as wheels.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
home="$root/target/manifests"
[ -x "$home/bin/python" ] || python3 -m venv "$home"
"$home/bin/python" -m pip install --quiet --disable-pip-version-check kubernetes-validate==1.37.0 \
    helm-python-sdk==0.2.2
"$home/bin/python" -c 'import kubernetes_validate as k; print("schemas up to", k.latest_version())'
