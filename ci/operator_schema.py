"""Writes the excerpt of the GPU Operator's schema with which tests check the output of `advise`.

    python3 ci/operator_schema.py CHECKOUT TAG > harness/predict/tests/schemas/gpu-operator.tsv

CHECKOUT is a clone of github.com/NVIDIA/gpu-operator, TAG one of its releases. The excerpt has a
line for every property of the ClusterPolicy's components in COMPONENTS, and of the same components
of the Helm chart's values: path, type, and the accepted values where they are listed. Needs PyYAML.
"""

import json
import subprocess
import sys

CRD = "config/crd/bases/nvidia.com_clusterpolicies.yaml"
VALUES = "deployments/gpu-operator/values.yaml"
COMPONENTS = ("devicePlugin", "driver", "mig", "migManager", "toolkit")
# Used where no values are listed.
ANY = "-"
HEADER = """\
# Derived by ci/operator_schema.py from NVIDIA GPU Operator {tag}, commit {commit}:
# {crd} (blob {crd_blob})
# {values} (blob {values_blob})
# Copyright NVIDIA CORPORATION, licensed under the Apache License, Version 2.0.
# path, type, accepted values"""


def git(checkout, *args):
    done = subprocess.run(["git", "-C", checkout, *args], check=True, capture_output=True)
    return done.stdout.decode()


def schema_lines(path, node):
    """A line for a node of the OpenAPI schema, and for all below it.

    >>> list(schema_lines("a", {"type": "object", "properties": {"b": {"enum": ["x", ""],
    ...                         "type": "string"}}}))
    ['a\\tobject\\t-', 'a.b\\tstring\\t["x", ""]']
    >>> list(schema_lines("a", {"type": "array", "items": {"type": "string"}}))
    ['a\\tarray\\t-', 'a[]\\tstring\\t-']
    """
    kind = "int-or-string" if node.get("x-kubernetes-int-or-string") else node["type"]
    yield f"{path}\t{kind}\t{json.dumps(node['enum']) if 'enum' in node else ANY}"
    for name, below in sorted(node.get("properties", {}).items()):
        yield from schema_lines(f"{path}.{name}", below)
    if "items" in node:
        yield from schema_lines(f"{path}[]", node["items"])
    if isinstance(node.get("additionalProperties"), dict):
        yield from schema_lines(f"{path}.*", node["additionalProperties"])


def value_lines(path, value):
    """The same for a chart's values, with the types of their defaults.

    >>> list(value_lines("a", {"b": True, "c": "x", "d": 1}))
    ['a\\tobject\\t-', 'a.b\\tboolean\\t-', 'a.c\\tstring\\t-', 'a.d\\tinteger\\t-']
    """
    kinds = {dict: "object", list: "array", bool: "boolean", int: "integer", str: "string"}
    yield f"{path}\t{kinds[type(value)]}\t{ANY}"
    if isinstance(value, dict):
        for name, below in sorted(value.items()):
            yield from value_lines(f"{path}.{name}", below)


def spec(crd):
    """The schema of the one version's spec."""
    [version] = crd["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]["properties"]["spec"]


def main():
    import yaml  # here, so that the examples above need no package

    checkout, tag = sys.argv[1:]
    crd, values = (yaml.safe_load(git(checkout, "show", f"{tag}:{path}")) for path in (CRD, VALUES))
    blobs = [git(checkout, "rev-parse", f"{tag}:{path}").strip() for path in (CRD, VALUES)]
    commit = git(checkout, "rev-parse", f"{tag}^{{commit}}").strip()
    print(
        HEADER.format(
            tag=tag, commit=commit, crd=CRD, crd_blob=blobs[0], values=VALUES, values_blob=blobs[1]
        )
    )
    kind, plural = crd["spec"]["names"]["kind"], crd["spec"]["names"]["plural"]
    print(f"{kind}\t{plural}.{crd['spec']['group']}\t{ANY}")
    policy = spec(crd)
    policy["properties"] = {name: policy["properties"][name] for name in COMPONENTS}
    print("\n".join(schema_lines(f"{kind}.spec", policy)))
    print("\n".join(value_lines("values", {name: values[name] for name in COMPONENTS})))


if __name__ == "__main__":
    main()
