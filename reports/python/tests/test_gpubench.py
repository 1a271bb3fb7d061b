"""The reader against the program's own figures: GPUBENCH_RECORD is a record with samples."""

import csv
import io
import math
import os
import subprocess
from pathlib import Path

import pytest

import gpubench
from gpubench import figures

PROGRAM = os.environ["GPUBENCH"]
RECORD = os.environ["GPUBENCH_RECORD"]
EXAMPLE = Path(__file__).resolve().parents[2] / "examples/h100_580.159.04_matrix"
EQUAL = 1e-12


@pytest.fixture(scope="module")
def record():
    return gpubench.load(RECORD)


def near(found, wanted):
    return found == wanted or math.isclose(found, wanted, rel_tol=EQUAL, abs_tol=EQUAL)


def test_rates_of_samples_are_those_of_the_record(record):
    rates = dict(gpubench.rates(record).select("cell", "rate").iter_rows())
    stored = {cell: rate for cell, rate in
              record.cells.select("cell", "closed_rate_per_s").iter_rows() if rate is not None}
    # A starved victim has a bound and no rate.
    assert len(stored.keys() & rates.keys()) > 0.9 * len(stored) > 45
    assert all(near(rates[cell], rate) for cell, rate in stored.items() if cell in rates)


@pytest.mark.parametrize("figure", figures.RATIOS)
def test_ratios_of_samples_are_those_of_the_report(record, figure):
    rates, compared = gpubench.rates(record), 0
    confidence = 0.975 if record.data["plan"].get("looks") == 2 else 0.95
    for row in record.data["matrix"]:
        stored = row.get(figure)
        is_scored = stored and stored["value"] is not None and row.get("aggressor")
        if not is_scored or row["axis"] not in ("compute", "bandwidth"):
            continue
        logs = gpubench.ratio(record, row, figure, rates)
        value, low, high = gpubench.t_interval(logs, confidence)
        assert len(logs) == stored["n"]
        assert near(value, stored["value"]), (row["variant"], value, stored)
        assert near(low, stored["stat_lo"]) and near(high, stored["stat_hi"]), (low, high, stored)
        compared += 1
    assert compared > 3


def test_figures_are_those_of_the_csv(record):
    text = subprocess.run([PROGRAM, "report", RECORD, "--format", "csv"], check=True,
                          capture_output=True, text=True).stdout
    compared = 0
    frame = record.figures.to_dicts()
    for line in csv.DictReader(io.StringIO(text)):
        for one in frame:
            keys = ("variant", "axis", "sub_axis", "victim", "aggressor")
            if one["value"] is not None and line.get(one["figure"]) and all(
                    (one[key] or "") == line[key] for key in keys):
                assert near(one["value"], float(line[one["figure"]]))
                for end in ("lo", "hi"):
                    if one[end] is not None:
                        assert near(one[end], float(line[f"{one['figure']}_{end}"]))
                compared += 1
    assert compared > 20


def test_samples_have_what_ran_in_their_cell(record):
    frame = record.samples().collect()
    frame = frame.filter(frame["cell"].is_in(record.cells["cell"].implode()))
    assert frame.height > 1000
    for name in ("mechanism", "variant", "condition", "victim", "outcome"):
        assert frame[name].null_count() == 0, name
    assert record.telemetry().collect().height > 0
    assert record.legends()["status"].startswith("0 ok") and "t_ns" in record.legends("telemetry")


def test_a_record_without_samples_says_so():
    record = gpubench.load(EXAMPLE)
    assert record.figures.height > 30 and record.cells.height == 704
    assert record.identity["device_kind"] == "real"
    with pytest.raises(gpubench.RecordError, match="has no samples.parquet"):
        record.samples()


@pytest.mark.parametrize("text, message", [("{", "Expecting"), ("{}", "it lacks cells")])
def test_what_is_no_record_is_refused(tmp_path, text, message):
    (tmp_path / "record.json").write_text(text)
    with pytest.raises(gpubench.RecordError, match=message):
        gpubench.load(tmp_path)


def test_plots_and_pandas(record):
    plots = pytest.importorskip("gpubench.plots")
    for plot in (plots.intervals, plots.blocks, plots.latencies):
        assert plot(record).to_dict()["$schema"]
    assert len(record.figures.to_pandas()) == record.figures.height


@pytest.mark.parametrize("page", ["how-to/python.md", "reference/columns.md"])
def test_the_pages_of_the_book_run(page, tmp_path, monkeypatch):
    (tmp_path / "nights").mkdir()
    (tmp_path / "rec").symlink_to(RECORD)
    (tmp_path / "nights/1").symlink_to(RECORD)
    monkeypatch.chdir(tmp_path)
    text = (EXAMPLE.parents[1] / "book/src" / page).read_text()
    blocks = [part.split("```")[0] for part in text.split("```python\n")[1:]]
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    if "logs" in names:
        assert len(names["logs"]) > 2 and names["nights"].height > 10
    else:
        assert names["rates"].height > 50
