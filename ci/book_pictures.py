#!/usr/bin/env python3
"""Draws the pictures of the book from records: `book_pictures.py PROGRAM [--write]`.

Drawings (a terminal, the requests of a cell) have the same bytes for the same output and are
compared with those in reports/book/src/images; pictures of pages depend on the browser and its
fonts, so that they are only made. --write puts all of them there. Needs Chromium (install-page.sh)
and polars (install-book.sh).
"""

import html
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from check_page import Chromium

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "reports/book/src/images"
H100 = ROOT / "reports/examples/h100_580.159.04_matrix"
PROFILE = ROOT / "ci/nightly/rehearsal.toml"
SGR = re.compile(r"\x1b\[([\d;]*)m")
INK, PAPER = "#d8dee9", "#1f2430"
COLOURS = {"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "34": "#79c0ff", "36": "#76e3ea",
           "2": "#8b949e", "90": "#8b949e", "91": "#ff7b72", "92": "#7ee787", "93": "#e3b341"}
CHARACTER, LINE, MARGIN = 8.43, 19, 16


def spans(line):
    """Pieces of a line with their colour and whether they are bold.

    >>> spans("a\\x1b[1;32mb\\x1b[0m")
    [('a', '#d8dee9', False), ('b', '#7ee787', True)]
    """
    found, colour, bold = [], INK, False
    parts = SGR.split(line)
    for index, part in enumerate(parts):
        if index % 2 == 0:
            if part:
                found.append((part, colour, bold))
            continue
        for code in part.split(";"):
            if code in ("", "0"):
                colour, bold = INK, False
            elif code == "1":
                bold = True
            elif code == "39":
                colour = INK
            else:
                colour = COLOURS.get(code, colour)
    return found


def terminal(text, title):
    """A terminal with a text as SVG."""
    lines = text.rstrip("\n").split("\n")
    columns = max(len(SGR.sub("", line)) for line in lines)
    width, height = columns * CHARACTER + 2 * MARGIN, len(lines) * LINE + 2 * MARGIN
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
           f'width="{width:.0f}" font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" '
           f'font-size="14" role="img"><title>{html.escape(title)}</title>',
           f'<rect width="100%" height="100%" rx="8" fill="{PAPER}"/>']
    for row, line in enumerate(lines):
        column, pieces = 0, []
        for piece, colour, bold in spans(line):
            weight = ' font-weight="bold"' if bold else ""
            x = MARGIN + column * CHARACTER
            length = len(piece) * CHARACTER
            pieces.append(f'<tspan x="{x:.1f}" textLength="{length:.1f}" fill="{colour}"{weight}>'
                          f"{html.escape(piece)}</tspan>")
            column += len(piece)
        y = MARGIN + (row + 0.8) * LINE
        out.append(f'<text y="{y:.1f}" xml:space="preserve">{"".join(pieces)}</text>')
    return "\n".join([*out, "</svg>", ""])


def timeline(record, window_ms=14.0):
    """The requests of a victim in one block: alone, and beside each tenant's neighbour, as SVG."""
    import polars as pl
    sys.path.insert(0, str(ROOT / "reports/python"))
    import gpubench
    read = gpubench.load(record)
    frame = read.samples().filter(pl.col("phase") == 1, pl.col("block") == 0,
                                  pl.col("victim") == "stream").collect()
    rows = []
    for variant in ("time-slicing[slice=default]", "mps", "mig[3g+3g]"):
        for condition in ("S", "C"):
            here = frame.filter(pl.col("variant") == variant, pl.col("condition") == condition)
            start = here.filter(pl.col("tenant") == "victim")["t_issue_ns"].min()
            words = "alone" if condition == "S" else "beside dram-copy"
            for tenant, colour in (("victim", "#0b6bcb"), ("neighbour-1", "#c9510c")):
                one = here.filter(pl.col("tenant") == tenant).sort("t_issue_ns")
                spots = [((issue - start) / 1e6, (done - start) / 1e6)
                         for issue, done in one.select("t_issue_ns", "t_done_ns").iter_rows()
                         if done is not None and start is not None]
                spots = [(max(low, 0.0), min(high, window_ms)) for low, high in spots
                         if high > 0 and low < window_ms]
                if spots:
                    rows.append((f"{variant.split('[')[0]}, {words}", tenant, colour, spots))
    left, right, top, step = 300, 20, 44, 30
    width, height = 980, top + step * len(rows) + 40
    scale = (width - left - right) / window_ms
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
           f'width="{width}" font-family="DejaVu Sans, sans-serif" font-size="13" role="img">'
           "<title>requests of a victim and its neighbour in one cell</title>",
           '<rect width="100%" height="100%" fill="#ffffff"/>',
           f'<text x="{left}" y="24" fill="#333">one bar is one request: from its issue to its '
           "completion; blue the victim, orange the neighbour</text>"]
    for row, (label, tenant, colour, spots) in enumerate(rows):
        y = top + row * step
        name = label if tenant == "victim" else "its neighbour"
        out.append(f'<text x="{left - 10}" y="{y + 15}" text-anchor="end" fill="#333">'
                   f"{html.escape(name)}</text>")
        for low, high in spots:
            out.append(f'<rect x="{left + low * scale:.1f}" y="{y}" '
                       f'width="{max((high - low) * scale - 1, 0.8):.1f}" height="20" '
                       f'fill="{colour}" fill-opacity="0.8"/>')
    base = top + len(rows) * step
    for tick in range(0, int(window_ms) + 1, 2):
        x = left + tick * scale
        out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top - 6}" y2="{base}" stroke="#ddd"/>'
                   f'<text x="{x:.1f}" y="{base + 18}" text-anchor="middle" fill="#333">{tick} ms'
                   "</text>")
    return "\n".join([*out, "</svg>", ""])


def page(browser, path, out, size=(1200, 760)):
    browser.open(path.resolve().as_uri(), size)
    browser.screenshot(out, size)


def main(program, write):
    folder = Path(tempfile.mkdtemp(prefix="gpubench-pictures."))
    out = IMAGES if write else folder / "images"
    out.mkdir(parents=True, exist_ok=True)
    base = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    environment = base | {"COLUMNS": "88", "HOME": str(folder)}

    def run(*arguments, statuses=(0,)):
        done = subprocess.run([program, *map(str, arguments)], env=environment, cwd=folder,
                              capture_output=True, text=True)
        if done.returncode not in statuses:
            sys.exit(f"book_pictures: {arguments}: {done.returncode}: {done.stderr}")
        return done.stdout

    screen = run("report", H100, "--color", "always")
    lines = screen.split("\n")
    end = next(index for index, line in enumerate(lines) if line.startswith("claims:"))
    command = "\x1b[2m$\x1b[0m gpubench report h100"
    drawn = terminal("\n".join([command, *lines[:end]]), "the matrix of an H100 on a terminal")
    (out / "screen.svg").write_text(drawn)

    run("matrix", "--quiet", "--device", "virtual", "--mechanism", "time-slicing,mps,mig",
        "--axis", "bandwidth/dram", "--allow-reconfigure", "--out", folder / "rec")
    (out / "cell.svg").write_text(timeline(folder / "rec"))

    run("report", H100, "--format", "html", "--output", folder / "page.html")
    machine = run("virtual-gpu", "show", "hopper")
    (folder / "old.toml").write_text(machine)
    newer = re.sub(r"(?m)^driver = .*", 'driver = "620.00.virtual"', machine)
    (folder / "new.toml").write_text(newer + "\n[defects]\nmig_dram_leak = 0.5\n")
    for side, name in (("before", "old"), ("after", "new")):
        for seed in (1, 2, 3):
            first = folder / "before/1"
            calibration = ["--calibration", first] if first.exists() else []
            run("matrix", "--quiet", "--device", f"virtual:{folder / name}.toml", "--profile",
                PROFILE, "--seed", seed, "--allow-reconfigure", *calibration, "--out",
                folder / side / str(seed))
    run("diff", "--vary", "driver", folder / "before", "--to", folder / "after", "--format", "html",
        "--output", folder / "diff.html", statuses=(30,))
    browser = Chromium()
    page(browser, folder / "page.html", out / "page.png")
    page(browser, folder / "diff.html", out / "diff.png")
    browser.end()

    changed = [name for name in ("screen.svg", "cell.svg")
               if (out / name).read_bytes() != (IMAGES / name).read_bytes()]
    for name in changed:
        print(f"{name} is not what {program} prints: book_pictures.py PROGRAM --write")
    if not changed:
        print(f"{len(list(out.iterdir()))} pictures")
    return bool(changed)


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1]), "--write" in sys.argv[2:]))
