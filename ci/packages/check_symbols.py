"""Which glibc a packaged program needs: `python3 ci/packages/check_symbols.py PROGRAM 2.28`.

It checks the program and every shared object that is embedded in it. `objdump -T` must name no
symbol of a newer glibc, and none that no library is known to have, as the linker leaves one in a
shared object where that glibc lacks it; `objdump -p` must name no library but those of glibc.
"""

import re
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

# The libraries of glibc, on every system that has one.
LIBRARIES = {
    "libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1",
    "ld-linux-x86-64.so.2",
}

# The virtual GPU's driver libraries, and the stand-in for HAMi-core.
EMBEDDED = 2

# The first bytes of a zlib stream of the best compression, and of an ELF file.
STREAM = b"\x78\xda"
ELF = b"\x7fELF"


def number(version):
    """A version that compares.

    >>> number("2.9") < number("2.28") < number("2.28.1")
    True
    """
    return tuple(int(part) for part in version.split("."))


def versions(table):
    """The versions of glibc that the output of `objdump -T` names, oldest first.

    >>> versions("0 w DF *UND* 0 (GLIBC_2.17) a\\n0 DF *UND* 0 GLIBC_2.2.5 b\\n0 g DF .text 1 c")
    ['2.2.5', '2.17']
    """
    return sorted(set(re.findall(r"\bGLIBC_([0-9.]+)\b", table)), key=number)


def unknown(table):
    """Undefined symbols without a version in the output of `objdump -T`; weak ones can be absent.

    >>> unknown("0 w D *UND*\\t0 a\\n0 D *UND*\\t0  b\\n0 DF *UND*\\t0  (GLIBC_2.17) c")
    ['b']
    """
    rows = re.findall(r"^\S+ (.*)\*UND\*\s+\S+\s+(.*)$", table, re.MULTILINE)
    return [name for flags, name in rows if "w" not in flags and " " not in name]


def embedded(program):
    """The ELF files that are compressed in the bytes of a program.

    >>> packed = b"abc" + zlib.compress(ELF + b"rest", 9) + b"def" + zlib.compress(b"text", 9)
    >>> embedded(packed)
    [b'\\x7fELFrest']
    """
    found = []
    at = program.find(STREAM)
    while at >= 0:
        reader = zlib.decompressobj()
        try:
            start = reader.decompress(program[at:at + 4096], len(ELF))
            if start.startswith(ELF):
                found.append(zlib.decompressobj().decompress(program[at:]))
        except zlib.error:
            pass  # Two bytes that begin no stream.
        at = program.find(STREAM, at + 1)
    return found


def objdump(flag, path):
    command = ["objdump", flag, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def problems(name, path, limit):
    """What is wrong with one ELF file; prints what it needs."""
    table = objdump("-T", path)
    needs = versions(table)
    libraries = set(re.findall(r"NEEDED +(\S+)", objdump("-p", path)))
    print(f"{name}: {path.stat().st_size} bytes, newest symbol GLIBC_{(needs or ['none'])[-1]},"
          f" needs {' '.join(sorted(libraries))}")
    found = [f"{name} needs GLIBC_{need}" for need in needs if number(need) > number(limit)]
    found += [f"{name} needs {library}" for library in sorted(libraries - LIBRARIES)]
    found += [f"{name} needs {symbol}, which this glibc lacks" for symbol in unknown(table)]
    if not needs:
        found.append(f"{name} names no symbol of glibc")
    if "no symbols" not in objdump("-t", path):
        found.append(f"{name} is not stripped")
    return found


def main(path, limit):
    program = Path(path)
    found = problems(program.name, program, limit)
    objects = embedded(program.read_bytes())
    if len(objects) != EMBEDDED:
        found.append(f"{len(objects)} embedded shared objects, not {EMBEDDED}")
    with tempfile.TemporaryDirectory() as folder:
        for index, content in enumerate(objects):
            path = Path(folder, f"embedded-{index}.so")
            path.write_bytes(content)
            found += problems(f"embedded object {index}", path, limit)
    print("\n".join(found) or f"nothing needs more than glibc {limit}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
