"""Checks ci/kubernetes, and what `advise --config` and `choose --config` write for a cluster.

    target/manifests/bin/python ci/check_manifests.py GPUBENCH

Each overlay is built by the resolver below and, where a `kubectl` is installed that has kustomize 4
or newer, also by that: both must give the same objects. Every object is validated strictly against
the schemas of VERSIONS of Kubernetes. The jobs must run without rights, and their arguments must be
accepted by GPUBENCH, which runs them on the virtual GPU: a GPU for each pod, with one model and a
UUID of its own, as in a pool.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import helm_python
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
    [{'name': 'y'}, {'name': 'x', 'v': 2}]
    >>> merged([{"name": "x"}], [{"name": "y"}], "initContainers")
    [{'name': 'y'}, {'name': 'x'}]
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
        # kustomize puts new items first.
        return [merged({}, item) for item in patch if item[key] not in known] + [
            merged(item, next((p for p in patch if p[key] == item[key]), {})) for item in base]
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
    """The value with lists that are merged by a key in the order of that key.

    Init containers run in the order of their list, which stays.
    """
    if isinstance(value, dict):
        return {key: without_order(item, key) for key, item in value.items()}
    if isinstance(value, list):
        items = [without_order(item) for item in value]
        key = MERGE_KEYS.get(field) if field != "initContainers" else None
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


def containers(spec):
    """The containers that run gpubench, in their order."""
    return [one for one in spec.get("initContainers", []) + spec["containers"]
            if one["command"] == ["gpubench"]]


def machine(program, scratch, node):
    """A virtual GPU of a node: one model, and a UUID that follows from its name."""
    shown = subprocess.run([program, "virtual-gpu", "show", "turing"], capture_output=True,
                           text=True, check=True).stdout
    named, count = re.subn('(?m)^name = "turing"$', f'name = "turing-{node}"', shown)
    assert count == 1, "the machine file has no name"
    path = scratch / f"{node}.toml"
    path.write_text(named)
    return path


def label_file(pod, container, scratch):
    """The file that GPUBENCH_LABELS names, as the downward API mounts it, or None."""
    variables = {one["name"]: one.get("value") for one in container.get("env", [])}
    named = variables.get("GPUBENCH_LABELS")
    if named is None:
        return None
    mounts = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
    folder, _, name = named.removeprefix("@").rpartition("/")
    volume = next(one for one in pod["spec"]["volumes"] if one["name"] == mounts[folder])
    [item] = volume["downwardAPI"]["items"]
    assert (item["path"], item["fieldRef"]) == (name, {"fieldPath": "metadata.labels"}), named
    path = scratch / "labels"
    labels = pod["metadata"]["labels"].items()
    path.write_text("".join(f'{key}="{value}"\n' for key, value in labels))
    return path


def run(program, pod, container, node, scratch):
    """Runs what a container of a node would, on its virtual GPU and with a short profile."""
    words = (container["command"] + container["args"])[1:]
    place = {"POD_NAME": f"pod-{node}", "NODE_NAME": node}
    words = [word.replace("/results", str(scratch)).replace("nightly", "smoke") for word in words]
    words = [re.sub(r"\$\((\w+)\)", lambda name: place[name[1]], word) for word in words]
    environment = dict(os.environ)
    labels = label_file(pod, container, scratch)
    if labels:
        environment["GPUBENCH_LABELS"] = f"@{labels}"
    if words[0] == "matrix":
        words += [f"--device=virtual:{machine(program, scratch, node)}",
                  "--mechanism=exclusive,time-slicing"]
    if words[0] == "outliers":
        words += ["--format=json"]
    done = subprocess.run([program, *words], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, f"{words}: {done.returncode}: {done.stderr}"
    if labels:
        record = json.loads((scratch / "records" / f"pod-{node}" / "record.json").read_text())
        found = record["provenance"]["labels"]
        assert pod["metadata"]["labels"].items() <= found.items(), f"{words}: {found}"
    return json.loads(done.stdout) if words[0] == "outliers" else None


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
                wanted = {"dra": (0, 1)}.get(folder.name, (1, 0))
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


def rendered(values):
    """The objects of the chart with these values."""
    with helm_python.Chart.load(str(ROOT)) as chart:
        texts = chart.render(values, name="gpubench", namespace="gpubench").values()
    items = [item for text in texts for item in yaml.safe_load_all(text) if item]
    return {name_of(item): item for item in items}


def check_chart(overlays):
    """The chart is overlays/nightly, and each value changes what it names and nothing else."""
    assert rendered({}) == overlays["nightly"], "the chart is not overlays/nightly"
    cases = [({"image": "r/gpubench:2"}, "r/gpubench:2", 3), ({"nodes": 77}, 77, 3),
             ({"nodeSelector": {"pool": "h100"}}, "h100", 1),
             ({"schedule": "1 3 * * *"}, "1 3 * * *", 1),
             ({"reduceSchedule": "1 9 * * *"}, "1 9 * * *", 1),
             ({"profile": "weekly"}, "--profile=weekly", 1),
             ({"volume": {"size": "9Ti"}}, "9Ti", 1),
             ({"volume": {"storageClassName": "nfs"}}, "nfs", 1)]
    validated = 0
    for values, found, count in cases:
        items = rendered(values)
        flat = json.dumps(list(items.values()))
        assert flat.count(json.dumps(found)) == count, f"{values}: {flat.count(json.dumps(found))}"
        validated += sum(validate(item, f"chart with {values}") for item in items.values())
    print(f"manifests: the chart with {len(cases)} values, {validated} validations")


def check_pipelines():
    """The GitHub action and the GitLab component by the schemas that their hosts publish."""
    nightly = ROOT.parent / "nightly"
    head, job = (nightly / "gitlab.yml").read_text().split("\n---\n")
    inputs = yaml.safe_load(head)["spec"]["inputs"]
    given = lambda name: json.dumps(inputs[name[1]]["default"])
    job = re.sub(r"(?<=: )\$\[\[ inputs\.(\w+) \]\]$", given, job, flags=re.M)
    job = re.sub(r"\$\[\[ inputs\.(\w+) \]\]", lambda name: str(inputs[name[1]]["default"]), job)
    validator = Path(sys.executable).parent / "check-jsonschema"
    with tempfile.TemporaryDirectory() as folder:
        component = Path(folder) / "component.yml"
        component.write_text(job)
        for schema, path in [("github-actions", nightly / "action.yml"), ("gitlab-ci", component)]:
            command = [validator, "--builtin-schema", f"vendor.{schema}", path]
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
    print("manifests: the action and the component are valid by their schemas")


def check_action(program):
    """The steps of the GitHub action run as shell; each gets what the action gives it."""
    action = yaml.safe_load((ROOT.parent / "nightly" / "action.yml").read_text())
    steps = action["runs"]["steps"]
    assert action["runs"]["using"] == "composite"
    assert all(step.get("shell") == "bash" or "uses" in step for step in steps), steps
    [night] = [step for step in steps if step.get("id") == "night"]
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "bin").mkdir()
        (folder / "bin" / "gpubench").symlink_to(Path(program).resolve())
        given = {"nights": folder / "nights", "profile": "smoke", "reports": folder / "reports",
                 "arguments": "--device virtual:turing --mechanism time-slicing"}
        given = {key: str(value) for key, value in given.items()}
        value = lambda text: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda name: given[name[1]], text)
        environment = os.environ | {key: value(text) for key, text in night["env"].items()} | {
            "RUNNER_TEMP": str(folder), "GITHUB_OUTPUT": str(folder / "output"),
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
        shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", night["run"]]
        done = subprocess.run(shell, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        output = (folder / "output").read_text()
        assert output.startswith("verdict=nightly: passed with a warning (0): "), output
        environment["ARGUMENTS"] = "--device 99"
        done = subprocess.run(shell, env=environment, capture_output=True, text=True)
        assert done.returncode == 3, f"{done.returncode}: {done.stderr}"
    print("manifests: the action passes on the virtual GPU, and fails without a GPU")


def check_statuses(program, overlays):
    """A pod is not repeated after any status of `matrix` but those that are no answer."""
    shown = subprocess.run([program, "matrix", "--help"], capture_output=True, text=True).stdout
    codes = {int(code) for code in re.findall(r"(?m)^ +(\d+)  ", shown.split("Exit codes:")[1])}
    # Done, not without --resume, interrupted.
    answers = sorted(codes - {0, 20, 130})
    for overlay, objects in overlays.items():
        job = objects.get(("batch/v1", "Job", "gpubench"))
        rules = job["spec"]["podFailurePolicy"]["rules"] if job else []
        for rule in rules:
            values = rule.get("onExitCodes", {"values": answers})["values"]
            assert values == answers, f"{overlay}: {values}, not {answers}"


def check_runs(program, overlays):
    """The containers of each overlay, with the reductions last, on a GPU of a node for each pod."""
    with tempfile.TemporaryDirectory() as folder:
        count, nodes = 0, 0
        for overlay in ("base", "pool", "labels", "dra", "rclone", "reduce", "reduce-rclone"):
            for item in overlays[overlay].values():
                if item["kind"] != "Job":
                    continue
                pod = item["spec"]["template"]
                is_reducer = item["metadata"]["name"] == "gpubench-reduce"
                nodes += not is_reducer
                for container in containers(pod["spec"]):
                    fleet = run(program, pod, container, f"node-{nodes}", Path(folder))
                    count += 1
                    if fleet:
                        sizes = [group["devices"] for group in fleet["groups"]]
                        assert sizes == [nodes], f"{sizes} and not one group of {nodes} nodes"
    print(f"manifests: {count} containers ran on {nodes} virtual GPUs, which are one group")


def check_advice(program):
    validated = 0
    commands = {f"advise {answers} --config": kinds for answers, kinds in LEAVES.items()}
    # The first mechanism that meets these needs, with its figures as comments.
    record = "reports/examples/h100_580.159.04_matrix"
    for need, kinds in (("compute>=L2", "Pod ConfigMap ResourceClaim"), ("no-restart", "Pod")):
        commands[f"choose {record} --need {need} --config"] = set(kinds.split())
    for line, kinds in commands.items():
        command = [program, *line.split(), "--format=json"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        found = set()
        for file in json.loads(done.stdout)["files"]:
            if not file["name"].endswith(".yaml"):
                continue
            for item in yaml.safe_load_all(file["text"]):
                if isinstance(item, dict) and {"apiVersion", "kind", "metadata"} <= set(item):
                    found.add(item["kind"])
                    validated += validate(item, f"{line}: {file['name']}")
        assert kinds <= found, f"{line}: {found} has not {kinds}"
    print(f"manifests: {len(commands)} configurations, {validated} validations")


def main(program):
    overlays = check_overlays(program)
    check_nights(overlays)
    check_chart(overlays)
    check_pipelines()
    check_action(program)
    check_statuses(program, overlays)
    check_advice(program)
    check_runs(program, overlays)


if __name__ == "__main__":
    main(sys.argv[1])
