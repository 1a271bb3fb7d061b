"""Byte-identity corpus: command lines, and what each of them prints and writes.

    python3 ci/corpus.py BINARY                compares with ci/corpus/expected.txt
    python3 ci/corpus.py BINARY --bless        writes ci/corpus/expected.txt anew
    python3 ci/corpus.py BINARY --keep DIR     also writes every output into DIR, for `diff -r`
    python3 ci/corpus.py BINARY --against OLD  runs both binaries and prints how they differ
    python3 ci/corpus.py BINARY --only TEXT    only the command lines that contain TEXT

Run it before and after a change that must not change what users see. Where bytes differ it prints
the command lines and ends with status 1: undo the change, or put the new `expected.txt` into the
commit and say why. `ci/corpus/commands.txt` has the command lines and explains their form,
`corpus_run.py` runs them, and `corpus_inputs.py` makes their inputs and says what is replaced.
"""

import argparse
import difflib
import hashlib
import pathlib
import re
import sys
import tempfile
import time

import corpus_inputs
import corpus_run
from corpus_run import Line, Output

EXPECTED = corpus_inputs.CORPUS / "expected.txt"
HEADER = """\
# Written by `python3 ci/corpus.py BINARY --bless`. A line has stdout, stderr and written files (as
# the first 16 digits of the SHA-256 and the bytes), the exit statuses, and the command line.
"""

# Longer lines of a difference are cut.
WIDTH = 300


def summary(line: Line, output: Output) -> str:
    """The line of expected.txt.

    >>> summary(corpus_run.parsed("gpubench plan"), Output(b"x", b"", b"", "0"))
    '2d711642b726b044:1 - - 0 gpubench plan'
    """
    parts = [f"{hashlib.sha256(part).hexdigest()[:16]}:{len(part)}" if part else "-"
             for part in (output.stdout, output.stderr, output.files)]
    return f"{' '.join(parts)} {output.status} {line.text}"


def expected(found: list[Line], only: str) -> list[str]:
    """The lines of expected.txt for these command lines; all of them without a filter."""
    kept = EXPECTED.read_text(encoding="utf-8").splitlines()
    texts = {line.text for line in found}
    return [one for one in kept if not one.startswith("#")
            and (not only or one.split(" ", 4)[4] in texts)]


def streams(output: Output) -> dict[str, bytes]:
    """What is compared, by name."""
    return {"stdout": output.stdout, "stderr": output.stderr, "files": output.files,
            "status": f"{output.status}\n".encode()}


def outputs_of(binary: pathlib.Path, found: list[Line]) -> list[Output]:
    """The outputs of all lines with a binary."""
    with tempfile.TemporaryDirectory(prefix="gpubench-corpus.") as folder:
        stage = pathlib.Path(folder)
        corpus_inputs.prepare(stage)
        return corpus_run.Session(binary, stage).outputs(found)


def keep(folder: pathlib.Path, found: list[Line], outputs: list[Output]) -> None:
    """Writes each output that is not empty as a file, named by number and command line."""
    folder.mkdir(parents=True)
    for number, (line, output) in enumerate(zip(found, outputs)):
        name = re.sub(r"[^\w.@=-]+", "-", line.text.replace("gpubench ", "")).strip("-")[:90]
        for stream, text in streams(output).items():
            if text:
                (folder / f"{number:03}-{name}.{stream}").write_bytes(text)


def differences(old: Output, new: Output, limit: int) -> list[str]:
    """A unified diff of each stream that differs, cut at a number of lines.

    >>> old, new = Output(b"a", b"", b"", "0"), Output(b"b", b"", b"", "0")
    >>> differences(old, new, 4)
    ['--- stdout of OLD', '+++ stdout', '@@ -1 +1 @@', '-a', '... 1 more lines']
    """
    found, after = [], streams(new)
    for stream, text in streams(old).items():
        texts = [one.decode(errors="replace").splitlines() for one in (text, after[stream])]
        changed = list(difflib.unified_diff(*texts, f"{stream} of OLD", stream, lineterm=""))
        if not changed and text != after[stream]:
            changed = [f"{stream}: the ends of lines differ, or bytes that are no text"]
        found += [one[:WIDTH] for one in changed[:limit]]
        if len(changed) > limit:
            found.append(f"... {len(changed) - limit} more lines")
    return found


def main() -> int:
    """Runs the command lines, and compares, writes or keeps what they print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("--bless", action="store_true", help="write expected.txt anew")
    parser.add_argument("--keep", type=pathlib.Path, metavar="DIR", help="new folder for outputs")
    parser.add_argument("--against", type=pathlib.Path, metavar="OLD", help="an older binary")
    parser.add_argument("--lines", type=int, default=40, help="most lines of a difference")
    parser.add_argument("--only", default="", metavar="TEXT", help="only lines that contain it")
    args = parser.parse_args()
    if args.bless and args.only:
        parser.error("--bless takes all lines: leave out --only")
    if args.keep and args.keep.exists():
        parser.error(f"{args.keep} exists: name a new folder")
    began, found = time.monotonic(), corpus_run.lines(args.only)
    outputs = outputs_of(args.binary, found)
    if args.keep:
        keep(args.keep, found, outputs)
    summaries = [summary(line, output) for line, output in zip(found, outputs)]
    if args.bless:
        EXPECTED.write_text(HEADER + "".join(f"{one}\n" for one in summaries), encoding="utf-8")
    changed = []
    if args.against:
        for line, old, new in zip(found, outputs_of(args.against, found), outputs):
            if old != new:
                changed.append(line.text)
                print("\n".join([f"== {line.text}", *differences(old, new, args.lines)]))
    else:
        kept = expected(found, args.only)
        for mark, texts, others in (("-", kept, summaries), ("+", summaries, kept)):
            missing = [one for one in texts if one not in others]
            changed += [one.split(" ", 4)[4] for one in missing]
            print("".join(f"{mark} {one}\n" for one in missing), end="")
        if changed:
            print(f"python3 {sys.argv[0]} {args.binary} --against OLD --only 'COMMAND LINE' shows "
                  "what changed")
    seconds = time.monotonic() - began
    print(f"{len(found)} command lines in {seconds:.0f} s: {len(set(changed))} changed")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
