"""The licences of the packages that are linked into gpubench, as text on standard output.

    cargo metadata --locked --format-version 1 --filter-platform TARGET | \\
        python3 ci/packages/third_party.py

MIT, BSD and others demand that their texts go with a binary. Build-dependencies count, because the
embedded libraries of the virtual GPU are made of them.
"""

import json
import re
import sys
from pathlib import Path

ROOT = "gpubench"
TEXTS = re.compile(r"(licen[cs]e|copying|notice|unlicense)", re.IGNORECASE)


def linked(metadata):
    """The packages from elsewhere that ROOT is made of, by name and version; tests need others.

    >>> kinds = lambda kind: [{"kind": kind}]
    >>> edge = lambda to, kind: {"pkg": to, "dep_kinds": kinds(kind)}
    >>> package = lambda name: {"id": name, "name": name, "version": "1", "source": "s"}
    >>> nodes = [{"id": "gpubench", "deps": [edge("a", None), edge("t", "dev")]},
    ...          {"id": "a", "deps": [edge("b", "build")]}, {"id": "b", "deps": []}]
    >>> packages = [package("gpubench") | {"source": None}, package("a"), package("b")]
    >>> found = linked({"packages": packages, "resolve": {"nodes": nodes}})
    >>> [one["name"] for one in found]
    ['a', 'b']
    """
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node["deps"] for node in metadata["resolve"]["nodes"]}
    wanted = [key for key, package in packages.items() if package["name"] == ROOT]
    reached = set(wanted)
    while wanted:
        for edge in nodes[wanted.pop()]:
            if edge["pkg"] not in reached and any(
                    kind["kind"] != "dev" for kind in edge["dep_kinds"]):
                reached.add(edge["pkg"])
                wanted.append(edge["pkg"])
    found = [packages[key] for key in reached if packages[key]["source"]]
    return sorted(found, key=lambda package: (package["name"], package["version"]))


def texts(package):
    """The licence files of a package, as text."""
    folder = Path(package["manifest_path"]).parent
    files = [path for path in sorted(folder.iterdir())
             if TEXTS.match(path.name) and path.is_file()]
    return [path.read_text(encoding="utf-8", errors="replace").strip() for path in files]


def main():
    packages = linked(json.load(sys.stdin))
    users = {}
    print("gpubench is linked with Rust's standard library (MIT OR Apache-2.0), and with these.\n")
    for package in packages:
        name = f"{package['name']} {package['version']}"
        found = texts(package)
        note = "" if found else " (its package has no text)"
        print(f"{name}: {package['license'] or 'see below'}{note}")
        for text in found:
            users.setdefault(text, []).append(name)
    for text, names in users.items():
        print(f"\n{'=' * 80}\n{', '.join(names)}\n\n{text}")


if __name__ == "__main__":
    main()
