"""Checks ci/kubernetes, and what `gpubench advise --config` writes for a cluster.

    target/manifests/bin/python ci/check_manifests.py GPUBENCH

Each overlay is built by the resolver below and, where a `kubectl` is installed that has kustomize 4
or newer, also by that: both must give the same objects. Every object is validated strictly against
the schemas of VERSIONS of Kubernetes. The jobs must run without rights, and their arguments must be
accepted by GPUBENCH, which runs them on the virtual GPU.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import kubernetes_validate
import yaml

ROOT = Path(__file__).resolve().parent.parent / "ci" / "kubernetes"
VERSIONS = ("1.34", "1.36", "1.37")
# Resource claims are stable from 1.34 on. All other objects fit this older version too.
OLDER = "1.31"
# Lists of these fields are merged by the value of a key; kustomize replaces other lists.
MERGE_KEYS = {"containers": "name", "initContainers": "name", "env": "name", "volumes": "name",
              "volumeMounts": "mountPath", "resourceClaims": "name"}
# Answers that lead to each leaf of the tree, with what its files for a cluster must have.
LEAVES = {
    "--isolation single": {"Pod", "ResourceClaimTemplate"},
    "--isolation hard --mig no": {"Pod", "Role", "ResourceClaimTemplate"},
    "--isolation hard --mig yes --gpu A100-80": {"Pod", "ConfigMap", "ResourceClaimTemplate"},
    "--isolation shared --workload latency --memory-isolation yes --soft-compute yes": {"Pod"},
    "--isolation shared --workload throughput --driver platform --sm-bound yes "
    "--reduced-fault-isolation yes": {"Pod", "ConfigMap", "ResourceClaim"},
    "--isolation shared --workload throughput --driver platform --sm-bound no": {
        "Pod", "ConfigMap", "ResourceClaim"},
    "--isolation shared --workload throughput --driver cloud": {"Pod", "ResourceClaim"},
}


def merged(base, patch, field=""):
    """A strategic merge.

    >>> merged({"a": 1, "b": {"c": 2}}, {"b": {"c": None, "d": 3}})
    {'a': 1, 'b': {'d': 3}}
    >>> merged([{"name": "x", "v": 1}], [{"name": "x", "v": 2}, {"name": "y"}], "env")
    [{'name': 'x', 'v': 2}, {'name': 'y'}]
    >>> merged([1, 2], [3], "args")
    [3]
    """
    if isinstance(base, dict) and isinstance(patch, dict):
        result = dict(base)
        for key, value in patch.items():
            if value is None:
                result.pop(key, None)
            else:
                result[key] = merged(result.get(key), value, key)
        return result
    if isinstance(base, list) and isinstance(patch, list) and field in MERGE_KEYS:
        key = MERGE_KEYS[field]
        known = {item[key]: item for item in base}
        # kubectl may put new items first; the order of these lists means nothing.
        return [merged(item, next((p for p in patch if p[key] == item[key]), {})) for item in base
                ] + [merged({}, item) for item in patch if item[key] not in known]
    return merged({}, patch) if isinstance(patch, dict) else patch


def name_of(item):
    """What identifies an object."""
    return item["apiVersion"], item["kind"], item["metadata"]["name"]


def documents(path):
    return [item for item in yaml.safe_load_all(path.read_text()) if item]


def built(folder):
    """The objects of a kustomization: resources and patches are what these manifests use.

    A field of a kustomization that is not known here is refused.
    """
    [kustomization] = documents(folder / "kustomization.yaml")
    unknown = set(kustomization) - {"apiVersion", "kind", "resources", "patches"}
    assert not unknown, f"{folder}: the resolver does not know {unknown}"
    objects = {}
    for resource in kustomization["resources"]:
        path = folder / resource
        items = built(path).values() if path.is_dir() else documents(path)
        for item in items:
            assert name_of(item) not in objects, f"{folder}: {name_of(item)} twice"
            objects[name_of(item)] = item
    for patch in kustomization.get("patches", []):
        for item in documents(folder / patch["path"]):
            name = name_of(item)
            assert name in objects, f"{folder}: a patch of {name}, which does not exist"
            if item.pop("$patch", None) == "delete":
                del objects[name]
            else:
                objects[name] = merged(objects[name], item)
    return objects


def without_order(value, field=""):
    """The value with lists that are merged by a key in the order of that key."""
    if isinstance(value, dict):
        return {key: without_order(item, key) for key, item in value.items()}
    if isinstance(value, list):
        items = [without_order(item) for item in value]
        key = MERGE_KEYS.get(field)
        return sorted(items, key=lambda item: item[key]) if key else items
    return value


def kubectl():
    """A `kubectl` with kustomize 4 or newer, or None. That of Debian 12 is older."""
    program = shutil.which("kubectl")
    if program is None:
        return None
    done = subprocess.run([program, "version", "--client"], capture_output=True, text=True)
    found = re.search(r"Kustomize Version: v(\d+)", done.stdout)
    return program if found and int(found[1]) >= 4 else None


def validate(item, context):
    """Strictly against every version."""
    is_claim = item["apiVersion"].startswith("resource.k8s.io/")
    uses_claim = "resourceClaimTemplateName" in json.dumps(item)
    versions = VERSIONS if is_claim or uses_claim else (OLDER, *VERSIONS)
    for version in versions:
        try:
            kubernetes_validate.validate(item, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            path = ".".join(map(str, error.path))
            raise AssertionError(f"{context}, Kubernetes {version}: {path}: {error.message}")
    return len(versions)


def pod_specs(item):
    """The pod specs of a Job or CronJob."""
    if item["kind"] == "CronJob":
        yield item["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    elif item["kind"] == "Job":
        yield item["spec"]["template"]["spec"]


def check_rights(spec, context):
    """A pod runs as no root, with no token, no capability and nothing of the host."""
    assert spec["automountServiceAccountToken"] is False, context
    assert spec["securityContext"]["runAsNonRoot"] is True, context
    for key in ("hostPID", "hostIPC", "hostNetwork"):
        assert key not in spec, f"{context}: {key}"
    assert not any("hostPath" in volume for volume in spec["volumes"]), context
    mounted = {volume["name"] for volume in spec["volumes"]}
    for container in spec["containers"] + spec.get("initContainers", []):
        security = container["securityContext"]
        assert security["allowPrivilegeEscalation"] is False, context
        assert security["capabilities"] == {"drop": ["ALL"]}, context
        for mount in container["volumeMounts"]:
            assert mount["name"] in mounted, f"{context}: no volume {mount['name']}"


def gpus(spec):
    """GPUs of the device plugin, and claims, that a pod asks for."""
    limits = [one.get("resources", {}).get("limits", {}) for one in spec["containers"]]
    claims = [claim for one in spec["containers"]
              for claim in one.get("resources", {}).get("claims", [])]
    return sum(one.get("nvidia.com/gpu", 0) for one in limits), len(claims)


def arguments(spec):
    return [(one["command"] + one["args"])[1:] for one in spec.get("initContainers", [])
            + spec["containers"] if one["command"] == ["gpubench"]]


def run(program, words, scratch):
    """Runs what a container would, on the virtual GPU and with a short profile."""
    place = {"POD_NAME": f"pod-{len(list(scratch.glob('records/*')))}", "NODE_NAME": "node-1"}
    words = [word.replace("/results", str(scratch)).replace("nightly", "smoke") for word in words]
    words = [re.sub(r"\$\((\w+)\)", lambda name: place[name[1]], word) for word in words]
    if words[0] == "matrix":
        words += ["--device=virtual:turing", "--mechanism=exclusive,time-slicing"]
    done = subprocess.run([program, *words], capture_output=True, text=True)
    # outliers ends with 10 where a group has fewer than five nodes.
    accepted = (0, 10) if words[0] == "outliers" else (0,)
    assert done.returncode in accepted, f"{words}: {done.returncode}: {done.stderr}"


def check_overlays(program):
    folders = [ROOT / "base", *sorted((ROOT / "overlays").iterdir())]
    builder = kubectl()
    overlays, validated = {}, 0
    for folder in folders:
        objects = overlays[folder.name] = built(folder)
        if builder:
            done = subprocess.run([builder, "kustomize", folder], capture_output=True, text=True)
            assert done.returncode == 0, f"{folder}: {done.stderr}"
            theirs = {name_of(item): item for item in yaml.safe_load_all(done.stdout)}
            assert without_order(theirs) == without_order(objects), f"{folder}: kubectl differs"
        for item in objects.values():
            context = f"{folder.name}: {item['kind']} {item['metadata']['name']}"
            validated += validate(item, context)
            assert item["kind"] not in ("Role", "RoleBinding", "ClusterRole"), context
            for spec in pod_specs(item):
                check_rights(spec, context)
                wanted = {"reduce": (0, 0), "dra": (0, 1)}.get(folder.name, (1, 0))
                if item["metadata"]["name"] == "gpubench-reduce":
                    wanted = (0, 0)
                assert gpus(spec) == wanted, f"{context}: {gpus(spec)}, not {wanted}"
    with_kubectl = "by the resolver and by kubectl" if builder else "by the resolver only"
    print(f"manifests: {len(folders)} built {with_kubectl}, {validated} validations")
    return overlays


def check_nights(overlays):
    """The night's job templates repeat the jobs of the pool and the reduction."""
    job = lambda overlay, name: overlays[overlay][("batch/v1", "Job", name)]["spec"]
    night = lambda name: overlays["nightly"][("batch/v1", "CronJob", name)]["spec"]["jobTemplate"]
    for overlay, name, nightly in (("pool", "gpubench", "gpubench-nightly"),
                                   ("reduce", "gpubench-reduce", "gpubench-reduce")):
        same = without_order(job(overlay, name)) == without_order(night(nightly)["spec"])
        assert same, f"the template of {nightly} is not the job of overlays/{overlay}"


def check_runs(program, overlays):
    """The arguments of every container, in the order in which people apply the overlays."""
    with tempfile.TemporaryDirectory() as folder:
        count = 0
        for overlay in ("calibrate", "base", "pool", "pool", "dra", "rclone", "reduce"):
            for item in overlays[overlay].values():
                for spec in pod_specs(item):
                    for words in arguments(spec):
                        run(program, words, Path(folder))
                        count += 1
    print(f"manifests: {count} containers ran on the virtual GPU")


def check_advice(program):
    validated = 0
    for answers, kinds in LEAVES.items():
        command = [program, "advise", *answers.split(), "--config", "--format=json"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        found = set()
        for file in json.loads(done.stdout)["files"]:
            if not file["name"].endswith(".yaml"):
                continue
            for item in yaml.safe_load_all(file["text"]):
                if isinstance(item, dict) and {"apiVersion", "kind", "metadata"} <= set(item):
                    found.add(item["kind"])
                    validated += validate(item, f"advise {answers}: {file['name']}")
        assert kinds <= found, f"{answers}: {found} has not {kinds}"
    print(f"manifests: {len(LEAVES)} configurations of advise, {validated} validations")


def main(program):
    overlays = check_overlays(program)
    check_nights(overlays)
    check_advice(program)
    check_runs(program, overlays)


if __name__ == "__main__":
    main(sys.argv[1])
