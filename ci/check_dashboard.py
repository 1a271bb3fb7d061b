"""Checks ci/grafana against programs of others, with the record of an H100.

    python3 ci/check_dashboard.py GPUBENCH

promtool checks the metrics, the rules and their tests. Prometheus scrapes the metrics through the
node exporter's textfile collector, answers which row has the worst retention as the record does,
runs every query of the dashboard, and raises the alert of a night that is missing. The programs are
those of ci/install-prometheus.sh, and both servers are stopped again.
"""

import json
import os
import re
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GRAFANA = ROOT / "ci" / "grafana"
RECORD = ROOT / "reports" / "examples" / "h100_580.159.04_matrix"
PROGRAMS = ROOT / "target" / "prometheus"
LIMIT_S = 60
# The age at which a night is missing, and more.
OLD_S = 48 * 3600


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ran(*command, **more):
    """Runs a command, which must end with 0; returns what it printed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    assert done.returncode == 0, f"{command}: {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout


def until(what, condition):
    """Waits for a condition and returns its value."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.5)
    raise AssertionError(f"not within {LIMIT_S} s: {what}")


class Prometheus:
    """A Prometheus that scrapes a node exporter, both on free ports of this host."""

    def __init__(self, folder):
        self.textfiles = folder / "textfiles"
        self.textfiles.mkdir()
        exporter, self.port = free_port(), free_port()
        (folder / "prometheus.yml").write_text(
            json.dumps({  # YAML holds JSON.
                "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                "rule_files": [str(GRAFANA / "alerts.yml")],
                "scrape_configs": [
                    {"job_name": "node", "static_configs": [
                        {"targets": [f"127.0.0.1:{exporter}"], "labels": {"instance": "n1"}}]}],
            }))
        log = open(folder / "log.txt", "w", encoding="utf-8")
        self.servers = [
            subprocess.Popen(command, stdout=log, stderr=log) for command in (
                [PROGRAMS / "prometheus-node-exporter", "--collector.disable-defaults",
                 "--collector.textfile", f"--collector.textfile.directory={self.textfiles}",
                 f"--web.listen-address=127.0.0.1:{exporter}"],
                [PROGRAMS / "prometheus", f"--config.file={folder / 'prometheus.yml'}",
                 f"--storage.tsdb.path={folder / 'data'}",
                 f"--web.listen-address=127.0.0.1:{self.port}"])]

    def stop(self):
        for server in self.servers:
            server.terminate()
        for server in self.servers:
            server.wait(timeout=30)

    def api(self, path, **parameters):
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error
        except OSError:
            return None

    def query(self, text):
        data = self.api("query", query=text)
        return data and data["result"]


def worst_row(record):
    """Variant, axis and retention of the worst row of a record.

    >>> rows = [{"variant": "a", "axis": "x", "retention": {"value": 0.5}},
    ...         {"variant": "b", "axis": "y", "retention": {"value": 0.25}},
    ...         {"variant": "c", "axis": "z", "retention": None}]
    >>> worst_row({"matrix": rows})
    ('b', 'y', 0.25)
    """
    # A bound has no value.
    known = lambda row: row.get("retention") and row["retention"]["value"] is not None
    rows = [row for row in record["matrix"] if known(row)]
    row = min(rows, key=lambda row: row["retention"]["value"])
    return row["variant"], row["axis"], row["retention"]["value"]


def queries(dashboard):
    """Every query of a dashboard, with its variables replaced by everything."""
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            text = target["expr"].replace("$instance", ".*").replace("$variant", ".*")
            assert "$" not in text, f"{panel['title']}: {text} has an unknown variable"
            yield panel["title"], text


def check(gpubench, folder):
    metrics = folder / "gpubench.prom"
    ran(gpubench, "report", RECORD, "--format=openmetrics", "--output", metrics)
    with open(metrics, encoding="utf-8") as text:
        ran(PROGRAMS / "promtool", "check", "metrics", stdin=text)
    ran(PROGRAMS / "promtool", "check", "rules", GRAFANA / "alerts.yml")
    ran(PROGRAMS / "promtool", "test", "rules", GRAFANA / "alerts_test.yml")
    print("dashboard: promtool accepts metrics, rules and their tests")

    server = Prometheus(folder)
    try:
        # Two GPUs of one host in one folder, with a metric of another exporter that joins.
        uuid = json.loads(ran(gpubench, "report", RECORD, "--format=json"))["device"]["uuid"]
        os.replace(metrics, server.textfiles / "gpubench-figures-one.prom")
        # The second one is virtual, and has the jitter that the record of the first one lacks.
        ran(gpubench, "nightly", folder / "nights", "--reports", folder / "night", "--metrics",
            server.textfiles, "--device", "virtual:turing", "--mechanism", "time-slicing")
        [outcome] = server.textfiles.glob("gpubench-night-*.prom")
        (server.textfiles / "dcgm.prom").write_text(
            "# TYPE DCGM_FI_DEV_SM_CLOCK gauge\n"
            f'DCGM_FI_DEV_SM_CLOCK{{UUID="{uuid}",gpu="0"}} 1980\n')
        until("both GPUs", lambda: len(server.query("count by (UUID) (gpubench_rows)")) == 2)
        joined = server.query("gpubench_complete * on (UUID) DCGM_FI_DEV_SM_CLOCK")
        assert [one["metric"]["UUID"] for one in joined] == [uuid], joined
        worst = f'bottomk(1, gpubench_retention_ratio{{UUID="{uuid}"}})'
        [found] = until("Prometheus answers", lambda: server.query(worst))
        labels, value = found["metric"], float(found["value"][1])
        record = json.loads(ran(gpubench, "report", RECORD, "--format=json"))
        assert (labels["variant"], labels["axis"], value) == worst_row(record), found
        print(f"dashboard: worst retention {value:.3f}: {labels['variant']} {labels['axis']} "
              f"{labels.get('sub_axis', '')}")
        dashboard = json.loads((GRAFANA / "dashboard.json").read_text())
        count = 0
        for title, text in queries(dashboard):
            assert server.query(text), f"{title}: {text} finds nothing"
            count += 1
        print(f"dashboard: {count} queries of {len(dashboard['panels'])} panels find series")
        alerts = lambda: {one["labels"]["alertname"] for one in server.api("alerts")["alerts"]}
        assert not alerts(), f"{alerts()} for a night of today"
        stamp = r"(?m)^(gpubench_night_timestamp_seconds{.*}) .*$"
        aged, count = re.subn(stamp, rf"\1 {time.time() - OLD_S:.0f}", outcome.read_text())
        assert count == 1, outcome.read_text()
        outcome.write_text(aged)
        until("the alert of a missing night", lambda: "GpubenchNightMissing" in alerts())
        rules = [rule for group in server.api("rules")["groups"] for rule in group["rules"]]
        assert [rule["health"] for rule in rules] == ["ok"] * 4, rules
        print("dashboard: the alert of a missing night is raised, and the rules are evaluated")
    finally:
        server.stop()


def check_push(gpubench, folder):
    """Nights push to a Pushgateway with TLS; one that measures nothing keeps the figures."""
    port, tls = free_port(), folder / "web.yml"
    ran("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
        "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-addext",
        "basicConstraints=critical,CA:FALSE", "-keyout", folder / "key.pem",
        "-out", folder / "cert.pem")
    tls.write_text("tls_server_config: "
                   f"{{cert_file: {folder}/cert.pem, key_file: {folder}/key.pem}}\n")
    log = open(folder / "push.txt", "w", encoding="utf-8")
    server = subprocess.Popen(
        [PROGRAMS / "prometheus-pushgateway", f"--web.listen-address=127.0.0.1:{port}",
         f"--web.config.file={tls}"], stdout=log, stderr=log)
    trust = ssl.create_default_context(cafile=folder / "cert.pem")
    url = f"https://localhost:{port}"

    def metrics():
        with urllib.request.urlopen(f"{url}/metrics", context=trust, timeout=5) as answer:
            return answer.read().decode()

    def night(code, *more, trusted=folder / "cert.pem"):
        done = subprocess.run(
            [gpubench, "nightly", folder / "nights", "--reports", folder / "night", "--profile",
             "smoke", "--mechanism", "time-slicing", "--push", url, *more], text=True,
            capture_output=True, env=os.environ | {"SSL_CERT_FILE": str(trusted)})
        assert done.returncode == code, f"{done.returncode}: {done.stdout}{done.stderr}"

    def up():
        try:
            return metrics()
        except OSError:
            return None

    try:
        until("the Pushgateway answers", up)
        night(0, "--device", "virtual:turing")
        kept = ("gpubench_retention", "gpubench_measured")
        figures = lambda text: sorted(
            line for line in text.splitlines() if line.startswith(kept))
        first = metrics()
        assert figures(first) and 'outcome="passed"' in first, first
        # The second one has no device, so it knows its GPU by the nights so far.
        night(2, "--device", "virtual:none")
        second = metrics()
        assert figures(second) == figures(first)
        assert re.search(r'gpubench_night{.*outcome="not measured".*} 1', second), second
        (folder / "empty.pem").write_text("")
        night(5, "--device", "virtual:turing", trusted=folder / "empty.pem")
        print("dashboard: nights push over TLS, keep figures, and fail without the certificate")
    finally:
        server.terminate()
        server.wait()


def main(gpubench):
    with tempfile.TemporaryDirectory() as folder:
        check(gpubench, Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        check_push(gpubench, Path(folder))


if __name__ == "__main__":
    main(sys.argv[1])
