#!/bin/sh
# Creates target/manifests, of wheels: the schemas of Kubernetes' API with a validator, Helm, and
# the schemas of GitHub's actions and GitLab's pipelines with a validator.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
home="$root/target/manifests"
[ -x "$home/bin/python" ] || python3 -m venv "$home"
"$home/bin/python" -m pip install --quiet --disable-pip-version-check kubernetes-validate==1.37.0 \
    helm-python-sdk==0.2.2 check-jsonschema==0.39.0
"$home/bin/python" -c 'import kubernetes_validate as k; print("schemas up to", k.latest_version())'
