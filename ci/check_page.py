#!/usr/bin/env python3
"""Checks a report page in headless Chromium, and keeps screenshots of it.

    check_page.py PAGE.html [--screenshots DIR] [--axe axe.min.js]

Checked: the first screen at 1440 x 900 shows the head and the whole heat map; no side scrolling at
390 px; no console message, and the script of the sliders runs under the policy of the page; no
request leaves the file; axe-core finds no violation; print opens every section and cuts
nothing; a report is at most 12000 px high with sections collapsed.
Chromium is driven over its DevTools pipe with the standard library alone; `install-page.sh`
installs Chromium and axe-core.
"""

import argparse
import base64
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

WIDE, PHONE = (1440, 900), (390, 844)
HEIGHT_MAX = 12_000
PAGES_MAX = 40
# Pixels of a screenshot below the first screen.
LONG = 3000


class Chromium:
    """One browser with one tab, over two pipes (file descriptors 3 and 4 of the child)."""

    def __init__(self):
        self.profile = tempfile.TemporaryDirectory()
        read_ours, write_theirs = os.pipe()
        read_theirs, write_ours = os.pipe()
        program = next((name for name in ("chromium", "chromium-browser", "google-chrome")
                        if any((pathlib.Path(part) / name).exists()
                               for part in os.environ["PATH"].split(":"))), None)
        if program is None:
            sys.exit("check_page: no chromium in PATH; ci/install-page.sh installs it")

        def wire():
            os.dup2(read_theirs, 3)
            os.dup2(write_theirs, 4)

        # 3 and 4 may be one of the pipes' own numbers, so they are moved out of the way first.
        read_theirs, write_theirs = (os.dup(fd) for fd in (read_theirs, write_theirs))
        high = [os.dup2(fd, 100 + n) for n, fd in enumerate((read_theirs, write_theirs))]
        read_theirs, write_theirs = high
        self.child = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             "--remote-debugging-pipe", f"--user-data-dir={self.profile.name}", "about:blank"],
            preexec_fn=wire, close_fds=False, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(read_theirs)
        os.close(write_theirs)
        self.read, self.write = read_ours, write_ours
        self.buffer, self.number, self.events = b"", 0, []
        target = next(one for one in self.call("Target.getTargets")["targetInfos"]
                      if one["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    session = None

    def message(self):
        while b"\0" not in self.buffer:
            part = os.read(self.read, 1 << 20)
            if not part:
                sys.exit("check_page: chromium ended")
            self.buffer += part
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **params):
        self.number += 1
        request = {"id": self.number, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.write, json.dumps(request).encode() + b"\0")
        while True:
            message = self.message()
            if message.get("id") == self.number:
                if "error" in message:
                    sys.exit(f"check_page: {method}: {message['error']['message']}")
                return message["result"]
            self.events.append(message)

    def evaluate(self, code):
        result = self.call("Runtime.evaluate", expression=code, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in result:
            sys.exit(f"check_page: {result['exceptionDetails']}")
        return result["result"].get("value")

    def open(self, url, size, dark=False, media=""):
        self.call("Emulation.setDeviceMetricsOverride", width=size[0], height=size[1],
                  deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.call("Page.navigate", url=url)
        self.evaluate("new Promise(done => document.readyState === 'complete' ? done() : "
                      "addEventListener('load', done))")

    def screenshot(self, path, size):
        clip = {"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1}
        shot = self.call("Page.captureScreenshot", format="png", clip=clip,
                         captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def end(self):
        self.session = None
        os.write(self.write, json.dumps({"id": 0, "method": "Browser.close"}).encode() + b"\0")
        self.child.wait(timeout=30)


def cut_off(browser, held):
    """Elements that reach beyond the right edge, without those that match `held`."""
    return browser.evaluate("""
        [...document.querySelectorAll('body *')].filter(one => !one.closest('HELD'))
          .filter(one => one.getClientRects().length &&
                  one.getBoundingClientRect().right > innerWidth + 1)
          .slice(0, 5).map(one => one.tagName + '.' + one.className + ' ' +
                  one.textContent.slice(0, 40))""".replace("HELD", held))


def overflowing(browser):
    """Elements wider than the page that no scroll box holds."""
    return cut_off(browser, "svg *, .scroll")


def print_width(browser):
    """Elements that a printed page of A4 less its margins would cut."""
    browser.call("Emulation.setDeviceMetricsOverride", width=703, height=1031,
                 deviceScaleFactor=1, mobile=False)
    return cut_off(browser, "svg *")


def check(browser, page, axe, shots):
    url = page.resolve().as_uri()
    found = []

    def expect(holds, what):
        print(("ok    " if holds else "FAILS ") + what)
        if not holds:
            found.append(what)

    browser.open(url, WIDE)
    bottom = browser.evaluate("(document.querySelector('.heat') || document.querySelector('h1'))"
                              ".getBoundingClientRect().bottom")
    expect(bottom <= WIDE[1], f"head and heat map end at {bottom:.0f} px of {WIDE[1]}")
    height = browser.evaluate("document.documentElement.scrollHeight")
    is_report = browser.evaluate("document.querySelector('.heat') !== null")
    expect(height <= HEIGHT_MAX or not is_report,
           f"the page is {height} px high, at most {HEIGHT_MAX} of a report")
    wide = browser.evaluate("document.documentElement.scrollWidth")
    expect(wide <= WIDE[0], f"the page is {wide} px wide in {WIDE[0]}")
    if shots:
        browser.screenshot(shots / "light.png", WIDE)
        browser.screenshot(shots / "light-long.png", (WIDE[0], min(height, LONG)))
    if axe:
        browser.evaluate(axe.read_text())
        violations = browser.evaluate("axe.run().then(found => found.violations.map(one => "
                                      "[one.impact, one.id, one.nodes.length, "
                                      "one.nodes[0].html.slice(0, 90)]))")
        expect(not violations, f"axe-core: {violations or 'no violation'}")
    moved = browser.evaluate("""(() => {
        const input = document.querySelector('.needs input[max="3"]');
        if (!input) return null;
        input.value = 1;
        input.dispatchEvent(new Event('input'));
        return input.parentElement.querySelector('output').value; })()""")
    expect(moved in (None, "L1 or better"), f"a slider at 1 says {moved}")
    browser.open(url, WIDE, dark=True)
    if axe:
        browser.evaluate(axe.read_text())
        dark = browser.evaluate("axe.run({runOnly: ['color-contrast']}).then(found => "
                                "found.violations.map(one => [one.id, one.nodes.length, "
                                "one.nodes[0].html.slice(0, 90)]))")
        expect(not dark, f"contrast in dark: {dark or 'enough'}")
    if shots:
        browser.screenshot(shots / "dark.png", WIDE)
    browser.open(url, PHONE)
    wide = browser.evaluate("document.documentElement.scrollWidth")
    expect(wide <= PHONE[0] and not overflowing(browser),
           f"{wide} px wide on a phone of {PHONE[0]}: {overflowing(browser)}")
    narrow = browser.evaluate("""
        [...document.querySelectorAll('p, caption, h2, li, summary')]
          .filter(one => one.getClientRects().length && !one.closest('.scroll') &&
                  one.textContent.length > 60 && one.getBoundingClientRect().width < 200)
          .map(one => one.textContent.slice(0, 40))""")
    expect(not narrow, f"no text is in a narrow column on a phone: {narrow}")
    if shots:
        browser.screenshot(shots / "phone.png", (PHONE[0], 1400))
    browser.open(url, WIDE, media="print")
    shut = browser.evaluate("""[...document.querySelectorAll('details')]
        .filter(one => !one.lastElementChild.checkVisibility())
        .map(one => one.firstElementChild.textContent)""")
    expect(not shut, f"print opens every section: {shut}")
    cut = print_width(browser)
    expect(not cut, f"nothing is cut in print: {cut}")
    if shots:
        browser.screenshot(shots / "print.png", (703, 1031))
    browser.open(url, WIDE)
    pdf = base64.b64decode(browser.call("Page.printToPDF", preferCSSPageSize=True,
                                        printBackground=True)["data"])
    pages = len(re.findall(rb"/Type\s*/Page\b", pdf))
    expect(0 < pages <= PAGES_MAX, f"print has {pages} pages, at most {PAGES_MAX}")
    logged = [one for one in browser.events
              if one["method"] in ("Runtime.consoleAPICalled", "Log.entryAdded",
                                   "Runtime.exceptionThrown")]
    expect(not logged, f"console messages: {logged[:2]}")
    requests = {one["params"]["request"]["url"] for one in browser.events
                if one["method"] == "Network.requestWillBeSent"}
    away = {one for one in requests if one != url and not one.startswith("data:")}
    expect(not away, f"requests beyond the file: {sorted(away)}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("page", type=pathlib.Path, nargs="+")
    parser.add_argument("--screenshots", type=pathlib.Path)
    parser.add_argument("--axe", type=pathlib.Path)
    args = parser.parse_args()
    failed = False
    for page in args.page:
        print(page)
        browser = Chromium()
        try:
            failed |= bool(check(browser, page, args.axe, args.screenshots))
        finally:
            browser.end()
    sys.exit(failed)


if __name__ == "__main__":
    main()
