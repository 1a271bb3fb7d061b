"""Turns a container file into two shell scripts, for hosts without a container engine.

    python3 ci/packages/containerfile.py FILE CONTEXT ROOT OUT

ROOT is a clean root of the base image's system. OUT/build.sh puts into it what the image adds, and
OUT/start.sh, started by root inside of it, becomes a container's program: as its user, in its
folder, with its environment and no other, and without a way to gain rights.
"""

import json
import shlex
import sys
from pathlib import Path

# What engines set where the file does not, for a user without a name.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
HOME = "/"


class Refused(Exception):
    """An instruction that these scripts cannot repeat."""


def instructions(text):
    """Pairs of a name and its argument, without comments.

    >>> instructions("# a\\nFROM b:1\\n\\nCOPY c \\\\\\n  d\\n")
    [('FROM', 'b:1'), ('COPY', 'c d')]
    """
    lines = [line.strip() for line in text.splitlines()]
    joined = "\n".join(line for line in lines if line and not line.startswith("#"))
    pairs = (line.split(None, 1) for line in joined.replace("\\\n", "").splitlines())
    return [(name.upper(), argument) for name, argument in pairs]


def base_of(root):
    """The image whose system a root has, such as debian:12."""
    lines = Path(root, "etc/os-release").read_text(encoding="utf-8").splitlines()
    facts = dict(line.split("=", 1) for line in lines if "=" in line)
    return f"{facts['ID']}:{facts['VERSION_ID']}".replace('"', "")


def scripts(text, context, root, base):
    """The texts of both scripts.

    >>> image = 'FROM debian:12-slim\\nCOPY a /b/c\\nENV X=1\\nUSER 5:6\\nENTRYPOINT ["/b/c"]'
    >>> build, start = scripts(image, "ctx", "tree", "debian:12")
    >>> print(build)
    set -eu
    install -D -p -m "$(stat -c %a ctx/a)" ctx/a tree/b/c
    >>> start.splitlines()[-1].split(PATH)
    ['exec $drop env -i PATH=', ' HOME=/ X=1 /b/c "$@"']
    >>> scripts("FROM fedora:42", "ctx", "tree", "debian:12")
    Traceback (most recent call last):
    containerfile.Refused: FROM fedora:42: the root is of debian:12
    >>> scripts("FROM debian:12\\nRUN x", "ctx", "tree", "debian:12")
    Traceback (most recent call last):
    containerfile.Refused: RUN: not known here
    """
    build, environment = ["set -eu"], {"PATH": PATH, "HOME": HOME}
    user, folder, entry = "0:0", "/", None
    for name, argument in instructions(text):
        if name == "FROM":
            if argument.removesuffix("-slim") != base:
                raise Refused(f"FROM {argument}: the root is of {base}")
        elif name == "COPY":
            source, target = argument.split()
            source, target = shlex.quote(f"{context}/{source}"), shlex.quote(root + target)
            build.append(f'install -D -p -m "$(stat -c %a {source})" {source} {target}')
        elif name == "ENV":
            key, value = argument.split("=", 1)
            environment[key] = value
        elif name == "USER":
            user = argument
        elif name == "WORKDIR":
            folder = argument
        elif name == "ENTRYPOINT":
            entry = json.loads(argument)
        else:
            raise Refused(f"{name}: not known here")
    if entry is None:
        return "\n".join(build), ""
    uid, gid = user.split(":")
    variables = [shlex.quote(f"{key}={value}") for key, value in environment.items()]
    start = [
        "set -eu",
        f"cd {shlex.quote(folder)}",
        f"drop='setpriv --reuid={uid} --regid={gid} --clear-groups --no-new-privs'",
        'drop="$drop --inh-caps=-all --bounding-set=-all"',
        f'exec $drop env -i {" ".join(variables)} {shlex.join(entry)} "$@"',
    ]
    return "\n".join(build), "\n".join(start)


def main(file, context, root, out):
    text = Path(file).read_text(encoding="utf-8")
    build, start = scripts(text, context, root, base_of(root))
    Path(out, "build.sh").write_text(build + "\n", encoding="utf-8")
    Path(out, "start.sh").write_text(start + "\n", encoding="utf-8")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Refused as refused:
        sys.exit(f"{sys.argv[1]}: {refused}")
