"""Checks a bill of materials: `target/packages/bin/python ci/packages/check_bom.py BOM Cargo.lock`.

It is valid by the schema of CycloneDX 1.5, each package in it has the version of the lock file, and
it lists the packages of the virtual GPU.
"""

import json
import sys
import tomllib
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

# One of each kind: of the program, of its files, and of the virtual GPU.
DEMANDED = ("clap", "polars-core", "gpubench-virtual-gpu-driver")


def problems(components, locked):
    """What is wrong with pairs of name and version.

    >>> problems([("a", "1")], {("a", "1")})[:1]
    ['clap is missing']
    >>> problems([(name, "1") for name in DEMANDED], {(name, "1") for name in DEMANDED})
    []
    >>> problems([("b", "2")], {("b", "1")})[-1]
    'b 2 is not in the lock file'
    """
    names = {name for name, _ in components}
    found = [f"{name} is missing" for name in DEMANDED if name not in names]
    return found + [f"{name} {version} is not in the lock file"
                    for name, version in components if (name, version) not in locked]


def main(bom, lock):
    text = Path(bom).read_text(encoding="utf-8")
    wrong = JsonStrictValidator(SchemaVersion.V1_5).validate_str(text)
    components = [(part["name"], part["version"]) for part in json.loads(text)["components"]]
    packages = tomllib.loads(Path(lock).read_text(encoding="utf-8"))["package"]
    found = problems(components, {(package["name"], package["version"]) for package in packages})
    if wrong:
        found.append(f"not valid: {wrong}")
    print("\n".join(found) or f"{len(components)} packages, valid by CycloneDX 1.5")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
