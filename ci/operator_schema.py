"""Writes the excerpts of published schemas with which tests check the output of `advise`.

    python3 ci/operator_schema.py gpu-operator CHECKOUT TAG > .../schemas/gpu-operator.tsv
    python3 ci/operator_schema.py hami CHECKOUT TAG > .../schemas/hami.tsv

CHECKOUT is a clone of github.com/NVIDIA/gpu-operator or github.com/Project-HAMi/HAMi, TAG one of
its releases, and the folder is harness/predict/tests/it/schemas. An excerpt has a line for every
property: path, type, and the accepted values where they are listed. That of the operator has the
ClusterPolicy's components in COMPONENTS and the same components of the Helm chart's values; that of
HAMi has the parts HAMI_PARTS of its chart's values, whose own schema covers other devices only.
Needs PyYAML.
"""

import functools
import json
import re
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
HAMI_VALUES = "charts/hami/values.yaml"
HAMI_READER = "pkg/device/nvidia/device.go"
HAMI_PARTS = ("devicePlugin.deviceSplitCount", "devicePlugin.deviceMemoryScaling",
              "devicePlugin.deviceCoreScaling", "devicePlugin.disablecorelimit",
              "devices.nvidia.gpuCorePolicy")
HAMI_HEADER = """\
# Derived by ci/operator_schema.py from HAMi {tag}, commit {commit}:
# {values} (blob {values_blob})
# {reader} (blob {reader_blob})
# Copyright the HAMi authors, licensed under the Apache License, Version 2.0.
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


def hami_lines(values, reader):
    """A line for each part and for the objects around them. The reader has constants of the policy.

    >>> [line for line in hami_lines({"devicePlugin": {"deviceSplitCount": 10,
    ...     "deviceMemoryScaling": 1, "deviceCoreScaling": 1, "disablecorelimit": "false"},
    ...     "devices": {"nvidia": {"gpuCorePolicy": "default"}}},
    ...     'A GPUCoreUtilizationPolicy = "a"') if "." in line][-1]
    'values.devices.nvidia.gpuCorePolicy\\tstring\\t["a"]'
    """
    policies = re.findall(r'GPUCoreUtilizationPolicy\s*=\s*"(\w+)"', reader)
    lines = {}
    for part in HAMI_PARTS:
        names = part.split(".")
        for length in range(1, len(names)):
            lines["values." + ".".join(names[:length])] = f"object\t{ANY}"
        value = functools.reduce(lambda node, name: node[name], names, values)
        [line] = value_lines(f"values.{part}", value)
        if names[-1] == "gpuCorePolicy":
            line = line.removesuffix(ANY) + json.dumps(policies)
        path, rest = line.split("\t", 1)
        lines[path] = rest
    return [f"{path}\t{rest}" for path, rest in lines.items()]


def hami(checkout, tag):
    import yaml

    texts = [git(checkout, "show", f"{tag}:{path}") for path in (HAMI_VALUES, HAMI_READER)]
    blobs = [git(checkout, "rev-parse", f"{tag}:{path}").strip()
             for path in (HAMI_VALUES, HAMI_READER)]
    commit = git(checkout, "rev-parse", f"{tag}^{{commit}}").strip()
    print(HAMI_HEADER.format(tag=tag, commit=commit, values=HAMI_VALUES, values_blob=blobs[0],
                             reader=HAMI_READER, reader_blob=blobs[1]))
    print("\n".join(hami_lines(yaml.safe_load(texts[0]), texts[1])))


def gpu_operator(checkout, tag):
    import yaml  # here, so that the examples above need no package

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
    of = {"gpu-operator": gpu_operator, "hami": hami}
    of[sys.argv[1]](*sys.argv[2:])
