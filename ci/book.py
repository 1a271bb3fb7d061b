#!/usr/bin/env python3
"""The commands of the book: checks, runs and expands them, and builds the book.

    book.py check                          blocks are of a known kind, pages listed, links lead on
    book.py run PROGRAM [--all] [PAGE...]  runs the commands; --all includes the long pages
    book.py write PROGRAM [PAGE...]        runs them, and writes what they print into the pages
    book.py build PROGRAM MDBOOK OUT       expands pages into OUT/src, and builds OUT/html

A page is Markdown. The first word behind ``` is the kind of a block:

- `console`: lines that begin with `$ ` are run by bash, each with the lines that follow and begin
  with `> `. Other lines are their stdout, compared but for dates. Further words: `status=N`, the
  status of the last command (0 unless given); `head=N`, `tail=N`, `match=REGEX`, the lines that
  are shown; `unchecked`, the output is an example (wall clock, paths); `generated`, the output is
  in the built book only.
- `sh elsewhere=STEP`: commands that need a cluster, a container engine or root. STEP is the step of
  ci/test.sh or ci/long.sh that runs them; `elsewhere=hardware` says that only a GPU can.
- `toml`, `json`, `yaml`, `sql`, `python`, `text`: no commands.

The blocks of a page share a folder, a home and a virtual GPU, so that a later one reads what an
earlier one wrote. A page with the line `<!-- long -->` runs with --all only.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BOOK = ROOT / "reports/book"
SOURCE = BOOK / "src"
WIDTH = 100
LIMIT = 600
DATA = ("toml", "json", "yaml", "sql", "python", "text")
LONG = "<!-- long -->"
# What differs from run to run in output that is the same: dates, and the real time of a run, which
# can wrap the line elsewhere.
CHANGING = re.compile(r"\d{4}-\d\d-\d\d(T[\d:.]+Z?)?|(?<=seed \d \| )[^|]*s(?= \|)")
WRAPPED = re.compile(r"\n {2,}(?=\S)")
INCLUDE = re.compile(r"^\{\{#include ([^}]+)\}\}$", re.MULTILINE)
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^( *)```([^\n]*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


class Block:
    """One fenced block of a page."""

    def __init__(self, match):
        self.indent, info, self.text = match.groups()
        self.start, self.end = match.span(3)
        self.kind, *words = info.split() or [""]
        pairs = (word.partition("=") for word in words)
        self.options = {name: value for name, _, value in pairs}

    def commands(self):
        """Pairs of a command and the output shown below it.

        >>> page = "```console\\n$ a \\\\\\n> b\\nout\\n$ c\\n```\\n"
        >>> [block.commands() for block in blocks(page)]
        [[('a \\\\\\nb', 'out\\n'), ('c', '')]]
        """
        found = []
        for line in self.text.splitlines(keepends=True):
            line = line.removeprefix(self.indent)
            if line.startswith("$ "):
                found.append([line[2:].rstrip("\n"), ""])
            elif line.startswith("> ") and found and not found[-1][1]:
                found[-1][0] += "\n" + line[2:].rstrip("\n")
            elif found:
                found[-1][1] += line
        return [tuple(pair) for pair in found]


def blocks(text):
    return [Block(match) for match in FENCE.finditer(text)]


def chosen(output, options):
    """The lines of an output that a block shows.

    >>> chosen("a\\nb\\nc\\n", {"head": "1"}), chosen("a\\nb \\n", {"match": "b"}), chosen("a", {})
    ('a\\n...\\n', 'b\\n', 'a\\n')
    """
    lines = [line.rstrip() for line in output.splitlines()]
    if "match" in options:
        lines = [line for line in lines if re.search(options["match"], line)]
    head, tail = int(options.get("head", len(lines))), int(options.get("tail", len(lines)))
    if head < len(lines):
        lines = lines[:head] + ["..."]
    if tail < len(lines):
        lines = ["..."] + lines[-tail:]
    while lines and not lines[-1]:
        lines.pop()
    return "".join(line + "\n" for line in lines)


def steps():
    """Names of the steps of both scripts, and `hardware`."""
    found = {"hardware"}
    for script in ("test.sh", "long.sh"):
        text = (ROOT / "ci" / script).read_text()
        found |= set(re.findall(r"^step_(\w+)\(\)", text, re.MULTILINE))
    return found


def problems(text, known):
    """What is wrong with the blocks of a page.

    >>> problems("```\\nx\\n```", {"a"}), problems("```sh\\nx\\n```", {"a"})
    (["'' is no kind of block"], ['sh needs elsewhere=STEP'])
    >>> problems("```sh elsewhere=a\\nx\\n```\\n```toml\\n$ x\\n```", {"a"})
    ['toml has a command: $ x']
    >>> problems("```text\\ngpubench x\\n```\\n```console\\nx\\n```", {"a"})
    ['text has a command: gpubench x', 'console has no command']
    """
    found = []
    for block in blocks(text):
        if block.kind == "sh":
            if block.options.get("elsewhere") not in known:
                found.append("sh needs elsewhere=STEP")
        elif block.kind == "console":
            if not block.commands():
                found.append("console has no command")
        elif block.kind not in DATA:
            found.append(f"{block.kind!r} is no kind of block")
        else:
            commands = re.findall(r"^ *(?:\$ |gpubench |cargo |bash ).*", block.text, re.MULTILINE)
            found += [f"{block.kind} has a command: {one.strip()}" for one in commands]
    return found


def pages():
    return sorted(SOURCE.rglob("*.md"))


def name_of(page):
    return str(page.relative_to(SOURCE))


def anchors(text):
    """The names of the headings of a page, as a browser finds them.

    >>> sorted(anchors("# A `b` of C's\\n## D, e: f\\n"))
    ['a-b-of-cs', 'd-e-f']
    """
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def lost(page):
    """Links of a page to headings that are not there."""
    found = []
    for _, _, target in LINK.findall(page.read_text()):
        path, _, anchor = target.partition("#")
        full = (page.parent / path).resolve() if path else page
        if anchor and "://" not in target and anchor not in anchors(full.read_text()):
            found.append(f"{target}: no such heading")
    return found


def check():
    """Every page is listed once, every block is of a known kind, and links lead to headings."""
    known, found = steps(), []
    summary = (SOURCE / "SUMMARY.md").read_text()
    listed = [target for _, _, target in LINK.findall(summary)]
    for page in pages():
        name = name_of(page)
        if name != "SUMMARY.md" and listed.count(name) != 1:
            found.append(f"SUMMARY.md has {name} {listed.count(name)} times")
        found += [f"{name}: {what}" for what in problems(page.read_text(), known) + lost(page)]
    return found


class Shell:
    """Where the commands of one page run."""

    def __init__(self, program):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpubench-book."))
        self.work = self.folder / "work"
        for path in (self.work, self.folder / "bin", self.folder / "home"):
            path.mkdir()
        (self.folder / "bin/gpubench").symlink_to(pathlib.Path(program).resolve())
        for name in ("ci", "profiles", "reports", "workloads"):
            (self.work / name).symlink_to(ROOT / name)
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("GPUBENCH_", "XDG_", "CUDA_"))}
        self.environment = kept | {
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "HOME": str(self.folder / "home"), "COLUMNS": str(WIDTH), "NO_COLOR": "1",
            "LC_ALL": "C.UTF-8",
        }

    def run(self, command):
        done = subprocess.run(["bash", "-c", command], cwd=self.work, env=self.environment,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
        text = done.stdout.decode().replace(str(self.folder / "home"), "~")
        return text.replace(str(self.work), "."), done.stderr.decode(), done.returncode

    def end(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def run_page(program, page):
    """Runs the blocks of a page: the text with their output, findings, and the seconds."""
    text, found, started = page.read_text(), [], time.monotonic()
    here = [block for block in blocks(text) if block.kind == "console"]
    pieces, at = [], 0
    shell = Shell(program)
    try:
        for block in here:
            pieces.append(text[at:block.start])
            at = block.end
            made, commands = "", block.commands()
            for index, (command, shown) in enumerate(commands):
                output, errors, status = shell.run(command)
                is_last = index + 1 == len(commands)
                wanted = int(block.options.get("status", 0)) if is_last else 0
                if status != wanted:
                    found.append(f"$ {command}\nended with {status}, not {wanted}:\n{errors}")
                lines = chosen(output, block.options) if output else ""
                if "unchecked" in block.options:
                    lines = shown or lines
                elif "generated" not in block.options and same(lines) != same(shown):
                    found.append(f"$ {command}\nprints\n{lines}and the page shows\n{shown}")
                made += "$ " + command.replace("\n", "\n> ") + "\n" + lines
            pieces.append("".join(block.indent + line for line in made.splitlines(keepends=True)))
    except subprocess.TimeoutExpired as slow:
        found.append(f"$ {slow.cmd[-1]}\nran for more than {LIMIT} s")
    finally:
        shell.end()
    return "".join(pieces) + text[at:], found, time.monotonic() - started, here


def same(text):
    """A text in which what differs from run to run is one word.

    >>> same("seed 1 | 18 s | of\\n  x | 2026-11-27"), same("seed 1 | 2 min 1 s | of x | now")
    ('seed 1 | ... | of x | ...', 'seed 1 | ... | of x | now')
    """
    return CHANGING.sub("...", WRAPPED.sub(" ", text))


def select(names, everything):
    wanted = [page for page in pages() if not names or name_of(page) in names]
    if len(wanted) < len(names):
        sys.exit(f"book: unknown page; known: {', '.join(map(name_of, pages()))}")
    return [page for page in wanted if any(block.kind == "console" for block in
                                           blocks(page.read_text()))
            and (everything or names or LONG not in page.read_text())]


def run(program, names, everything, write):
    found, count, started = [], 0, time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        wanted = select(names, everything)
        for page, done in zip(wanted, pool.map(lambda page: run_page(program, page), wanted)):
            text, wrong, seconds, here = done
            commands = sum(len(block.commands()) for block in here)
            count += commands
            print(f"{name_of(page)}: {commands} commands, {seconds:.0f} s")
            failed = [one for one in wrong if not (write and "and the page shows" in one)]
            found += [f"{name_of(page)}: {one}" for one in failed]
            if write and not failed:
                # A generated block stays as it is.
                page.write_text(kept_short(page.read_text(), text))
    print(f"{count} commands of {len(wanted)} pages in {time.monotonic() - started:.0f} s; "
          f"elsewhere: {elsewhere()}")
    return found


def kept_short(before, after):
    """`after`, with the generated blocks of `before`.

    >>> kept_short("```console generated\\n$ a\\n```", "```console generated\\n$ a\\nx\\n```")
    '```console generated\\n$ a\\n```'
    """
    old = [match for match in FENCE.finditer(before)]
    new = [match for match in FENCE.finditer(after)]
    pieces, at = [], 0
    for one, other in zip(old, new):
        if "generated" in one.group(2).split():
            pieces += [after[at:other.start(3)], one.group(3)]
            at = other.end(3)
    return "".join(pieces) + after[at:]


def elsewhere():
    """How many blocks each step of the scripts stands for."""
    counts = {}
    for page in pages():
        for block in blocks(page.read_text()):
            step = block.options.get("elsewhere")
            if step:
                counts[step] = counts.get(step, 0) + 1
    return ", ".join(f"{step} {count}" for step, count in sorted(counts.items())) or "none"


def relinked(text, folder, page):
    """The links of a text from `folder`, for a page of the book: what is no page is named."""
    def link(match):
        picture, words, target = match.groups()
        path, _, anchor = target.partition("#")
        if "://" in target or not path:
            return match.group(0)
        full = (folder / path).resolve()
        moved = INCLUDED.get(full)
        if moved or (full.is_relative_to(SOURCE) and full.exists()):
            relative = os.path.relpath(moved or full, page.parent)
            return f"{picture}[{words}]({relative}{'#' + anchor if anchor else ''})"
        if full.is_relative_to(ROOT) and full.exists():
            return f"{words} (`{full.relative_to(ROOT)}` in the sources)"
        return match.group(0)
    return LINK.sub(link, text)


# Files of the tree that are pages of the book, filled by `build`.
INCLUDED = {}


def build(program, mdbook, out):
    out = pathlib.Path(out).resolve()
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(BOOK, out)
    for page in pages():
        for one in INCLUDE.findall(page.read_text()):
            INCLUDED[(page.parent / one).resolve()] = page
    found = []
    for page in pages():
        text = page.read_text()
        if any("generated" in block.options for block in blocks(text)):
            text, wrong, _, _ = run_page(program, page)
            found += [f"{name_of(page)}: {one}" for one in wrong]
        text = relinked(text, page.parent, page)

        def included(match):
            source = (page.parent / match.group(1)).resolve()
            return relinked(source.read_text().rstrip(), source.parent, page)
        (out / "src" / name_of(page)).write_text(INCLUDE.sub(included, text))
    subprocess.run([mdbook, "build", "--dest-dir", str(out / "html"), str(out)], check=True)
    print(f"built {len(list((out / 'html').rglob('*.html')))} pages in {out / 'html'}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("check")
    for verb in ("run", "write"):
        one = verbs.add_parser(verb)
        one.add_argument("program")
        one.add_argument("pages", nargs="*")
        one.add_argument("--all", action="store_true")
    one = verbs.add_parser("build")
    for name in ("program", "mdbook", "out"):
        one.add_argument(name)
    given = parser.parse_args()
    if given.verb == "check":
        found = check()
    elif given.verb == "build":
        found = build(given.program, given.mdbook, given.out)
    else:
        found = run(given.program, given.pages, given.all, given.verb == "write")
    print("\n".join(found), file=sys.stderr)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
