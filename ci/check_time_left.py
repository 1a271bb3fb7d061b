#!/usr/bin/env python3
"""The time left that a run shows on a terminal of 80 columns, against the true one.

    check_time_left.py GPUBENCH PROFILE...

Prints both at each tenth of the run, and fails where from a third of it on they differ by more than
30 % and by more than three seconds. The machine must be idle.

>>> left("cells 3/9   ETA 1:05"), left("ETA 1:00:05 ... ETA 0:07"), left("ETA -:--")
(65, 7, None)
"""

import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import termios
import time
import fcntl
import struct

LEFT = re.compile(r"ETA ((?:\d+:)+\d+)")
WITHIN, SLACK = 0.30, 3


def left(line):
    total = 0
    found = LEFT.findall(line)
    for part in found[-1].split(":") if found else ():
        total = total * 60 + int(part)
    return total if found else None


def watch(command):
    """The moments at which a time was shown, with it, and how long the run took."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    begun, shown = time.monotonic(), []
    with subprocess.Popen(command, stdin=child, stdout=subprocess.DEVNULL, stderr=child) as run:
        os.close(child)
        while run.poll() is None or select.select([parent], [], [], 0)[0]:
            if not select.select([parent], [], [], 0.2)[0]:
                continue
            try:
                text = os.read(parent, 65536).decode(errors="replace")
            except OSError:
                break
            if (found := left(text)) is not None:
                shown.append((time.monotonic() - begun, found))
        run.wait()
    os.close(parent)
    if run.returncode not in (0, 10):
        sys.exit(f"{command} ended with {run.returncode}")
    return shown, time.monotonic() - begun


def main():
    program, *profiles = sys.argv[1:]
    failed = False
    print("seconds left at each tenth, shown/true")
    for profile in profiles:
        with tempfile.TemporaryDirectory() as out:
            shown, took = watch([program, "matrix", "--device", "virtual", "--allow-reconfigure",
                                 "--profile", profile, "--out", f"{out}/run"])
        row = []
        for tenth in range(1, 10):
            at, true = took * tenth / 10, took * (1 - tenth / 10)
            before = [said for moment, said in shown if moment <= at]
            said = before[-1] if before else None
            is_off = tenth > 3 and (said is None or abs(said - true) > max(WITHIN * true, SLACK))
            failed |= is_off
            row.append(f"{'-' if said is None else said}/{true:.0f}{'!' if is_off else ''}")
        print(f"{profile:<18} {took:5.0f} s  {'  '.join(row)}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
