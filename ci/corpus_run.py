"""Reads the command lines of `ci/corpus/commands.txt` and runs them, for `ci/corpus.py`.

A line runs in new folders, on the lines' inputs, with a fixed environment, and in a pipe or on
terminals of a given width. Lines run on all cores at the same time.
"""

import concurrent.futures
import contextlib
import dataclasses
import fcntl
import os
import pathlib
import pty
import re
import select
import shlex
import shutil
import struct
import subprocess
import tempfile
import termios
import time
import tty
from typing import Any

import corpus_inputs

COMMANDS = corpus_inputs.CORPUS / "commands.txt"

# A command that takes longer is ended, and its status is `timeout`.
LIMIT_S = 120.0

ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    # Without a pager, which waits for a key.
    "PAGER": "",
    "TZ": "UTC",
    # glibc has variants of exp, log and others for processors with fused multiply-add. Their
    # results differ in the last bit, so every processor uses the variants without.
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-FMA,-FMA4,-FMA_Usable,-FMA4_Usable",
}

# Files of a run that cannot be normalised. They follow from its other files.
LEFT_OUT = {"report.html", "checksums.b3", "checksums.b3.minisig"}

# An input in a command.
INPUT = re.compile(r"\{([\w.-]+)\}")


@dataclasses.dataclass(frozen=True)
class Line:
    """A line of commands.txt: commands that run one after the other in one folder."""

    text: str
    makes: str | None
    columns: int | None
    variables: dict[str, str]
    commands: list[list[str]]

    def verbs(self) -> set[str]:
        """The first argument of each command."""
        return {command[0] for command in self.commands if command}

    def needs(self) -> list[str]:
        """The names of the inputs."""
        return sorted(set(INPUT.findall(" ".join(sum(self.commands, [])))))


def parsed(text: str) -> Line:
    """Reads a line of commands.txt.

    >>> line = parsed("@80 NO_COLOR=1 gpubench report {h100} ; gpubench diff {a} -- '{b}/*'")
    >>> line.columns, line.variables, sorted(line.verbs()), line.needs()
    (80, {'NO_COLOR': '1'}, ['diff', 'report'], ['a', 'b', 'h100'])
    >>> line.commands[1]
    ['diff', '{a}', '--', '{b}/*']
    >>> parsed("run = gpubench matrix --out run").makes
    'run'
    """
    words = shlex.split(text)
    makes = words[0] if words[1:2] == ["="] else None
    begin = words.index("gpubench")
    columns, variables = None, {}
    for word in words[2 if makes else 0:begin]:
        if word.startswith("@"):
            columns = int(word[1:])
        else:
            name, value = word.split("=", 1)
            variables[name] = value
    commands: list[list[str]] = [[]]
    for word in words[begin:]:
        if word == ";":
            commands.append([])
        else:
            commands[-1].append(word)
    if any(command[:1] != ["gpubench"] for command in commands):
        raise ValueError(f"{COMMANDS.name}: a command does not begin with gpubench: {text}")
    return Line(text, makes, columns, variables, [command[1:] for command in commands])


def lines(only: str) -> list[Line]:
    """The lines of commands.txt that contain a text, and those that make their inputs."""
    texts = [text.strip() for text in COMMANDS.read_text(encoding="utf-8").splitlines()]
    found = [parsed(text) for text in texts if text and not text.startswith("#")]
    twice = {line.text for line in found if texts.count(line.text) > 1}
    if twice:
        raise ValueError(f"{COMMANDS.name}: lines that occur twice: {sorted(twice)}")
    wanted = [line for line in found if only in line.text]
    runs = {corpus_inputs.run_of(name) for line in wanted for name in line.needs()} - {None}
    return [line for line in found if line in wanted or line.makes in runs]


@dataclasses.dataclass(frozen=True)
class Output:
    """What the commands of a line printed and wrote, and their exit statuses."""

    stdout: bytes
    stderr: bytes
    files: bytes
    status: str


class Session:
    """The lines with one binary."""

    def __init__(self, binary: pathlib.Path, stage: pathlib.Path) -> None:
        # Xids name the process by the file of the binary, so that file has one name.
        (stage / "program").mkdir()
        self.binary = shutil.copy(binary, stage / "program" / "gpubench")
        self.stage = stage
        self.runs: dict[str, concurrent.futures.Future[Output]] = {}

    def outputs(self, found: list[Line]) -> list[Output]:
        """Runs the lines on all cores. Those that make inputs of others start first."""
        running: dict[str, concurrent.futures.Future[Output]] = {}
        with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            for line in sorted(found, key=lambda line: line.makes is None):
                running[line.text] = pool.submit(self.output, line)
                if line.makes:
                    self.runs[line.makes] = running[line.text]
            return [running[line.text].result() for line in found]

    def output(self, line: Line) -> Output:
        """Runs the commands of a line in a new folder, in which its inputs are linked."""
        for run in {corpus_inputs.run_of(name) for name in line.needs()} - {None}:
            self.runs[run].result()
        with tempfile.TemporaryDirectory(dir=self.stage, ignore_cleanup_errors=True) as folder:
            for name in ("home", "tmp", "work"):
                os.mkdir(os.path.join(folder, name))
            work = pathlib.Path(folder, "work")
            for name in line.needs():
                corpus_inputs.provide(self.stage / name, work / name)
            inputs = {path.stat().st_ino for path in work.rglob("*")}
            streams, statuses = [b"", b""], []
            for command in line.commands:
                stdout, stderr, status = executed(self.binary, command, line, folder)
                streams = [streams[0] + stdout, streams[1] + stderr]
                statuses.append(status)
            if line.makes:
                corpus_inputs.keep_run(work / line.makes, self.stage)
            streams.append(written(work, inputs))
        streams = [one.replace(os.fsencode(folder), b"FOLDER") for one in streams]
        verbs = line.verbs()
        return Output(*(corpus_inputs.normalised(verbs, one) for one in streams),
                      ";".join(statuses))


def executed(binary: pathlib.Path, command: list[str], line: Line,
             folder: str) -> tuple[bytes, bytes, str]:
    """Runs a command of a line in the folders of the line."""
    home = os.path.join(folder, "home")
    env = ENVIRONMENT | {"HOME": home, "TMPDIR": os.path.join(folder, "tmp")}
    env |= {f"XDG_{name.upper()}_HOME": os.path.join(home, name)
            for name in ("cache", "config", "data", "state")}
    if line.columns:
        env["TERM"] = "xterm-256color"
    words = ["gpubench", *(INPUT.sub(r"\1", word) for word in command)]
    context = {"executable": binary, "env": env | line.variables, "stdin": subprocess.DEVNULL,
               "cwd": os.path.join(folder, "work"), "start_new_session": True}
    if line.columns:
        return on_terminals(words, line.columns, **context)
    try:
        done = subprocess.run(words, capture_output=True, timeout=LIMIT_S, check=False, **context)
    except subprocess.TimeoutExpired:
        return b"", b"", "timeout"
    return done.stdout, done.stderr, str(done.returncode)


def on_terminals(words: list[str], columns: int, **context: Any) -> tuple[bytes, bytes, str]:
    """Runs a command with a terminal of that width as stdout, and another one as stderr."""
    ours, theirs = zip(pty.openpty(), pty.openpty())
    try:
        for end in theirs:
            tty.setraw(end)
            fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        child = subprocess.Popen(words, stdout=theirs[0], stderr=theirs[1], **context)
    finally:
        for end in theirs:
            os.close(end)
    try:
        stdout, stderr = drained(ours)
        return stdout, stderr, str(child.wait(timeout=LIMIT_S))
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
        return b"", b"", "timeout"
    finally:
        for end in ours:
            os.close(end)


def drained(ends: tuple[int, ...]) -> list[bytes]:
    """Reads terminals until their last writer has closed them."""
    parts = dict.fromkeys(ends, b"")
    left, until = set(ends), time.monotonic() + LIMIT_S
    while left and time.monotonic() < until:
        for end in select.select(list(left), [], [], 1.0)[0]:
            part = b""
            with contextlib.suppress(OSError):
                part = os.read(end, 1 << 16)
            parts[end] += part
            if not part:
                left.discard(end)
    return [parts[end] for end in ends]


def written(work: pathlib.Path, inputs: set[int]) -> bytes:
    """The files below a folder that are no inputs, one after the other. Indexes are hidden."""
    parts = b""
    for file in sorted(path for path in work.rglob("*") if path.is_file()):
        name = file.relative_to(work)
        is_hidden = any(part.startswith(".") for part in name.parts)
        if not is_hidden and name.name not in LEFT_OUT and file.stat().st_ino not in inputs:
            parts += f"==> {name}\n".encode() + file.read_bytes() + b"\n"
    return parts
