"""The folder of a record as frames."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

# Figures of a row of the matrix, each an object with value, lo, hi, n and unit.
FIGURES = ("retention", "guarantee", "efficiency", "effectiveness", "isolation_index", "jitter",
           "tail_at_load", "survival", "overshoot", "clock_part")
ROW = ("mechanism", "variant", "axis", "sub_axis", "victim", "aggressor")
CELL = ("id", "block", "group", "mechanism", "variant", "sub_axis", "condition", "victim",
        "aggressor", "dose", "outcome", "reason")
TEXTS = {name: pl.String for name in ROW}


class RecordError(Exception):
    """A folder that is no record, or lacks what was asked of it."""


@dataclass(frozen=True)
class Record:
    """One record. `data` is `record.json` as it is."""

    folder: Path
    data: dict[str, Any]

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What identifies this record."""
        device, provenance = self.data["device"], self.data["provenance"]
        return {
            "record": self.folder.name, "uuid": device.get("uuid"), "device": device["name"],
            "device_kind": device["kind"], "driver": device.get("driver"),
            "host": (provenance.get("host") or {}).get("hostname"),
            "started_at": provenance["started_at"],
            "seed": self.data["seed"], "labels": provenance.get("labels") or {},
        }

    @cached_property
    def figures(self) -> pl.DataFrame:
        """One row a figure: what it is of, `figure`, `value`, `lo`, `hi`, `n`, `unit`, the level,
        the word and the outcome of its row. A row without figures has one line with a null."""
        lines = []
        for row in self.data["matrix"]:
            here = {name: row.get(name) for name in ROW}
            here |= {name: row.get(name) for name in ("outcome", "reason", "level", "word")}
            found: list[tuple[str | None, dict[str, Any]]] = [
                (name, row[name]) for name in FIGURES if isinstance(row.get(name), dict)]
            for name, figure in found or [(None, {})]:
                lines.append(here | {"figure": name} | {
                    key: figure.get(key) for key in ("value", "lo", "hi", "n", "unit")})
        texts = ("outcome", "reason", "level", "word", "figure", "unit")
        schema = TEXTS | {name: pl.String for name in texts} | {
            "value": pl.Float64, "lo": pl.Float64, "hi": pl.Float64, "n": pl.Int64}
        order = [*ROW, "figure", "value", "lo", "hi", "n", "unit", "level", "word", "outcome",
                 "reason"]
        return pl.DataFrame(lines, schema=schema).select(order)

    @cached_property
    def cells(self) -> pl.DataFrame:
        """One row a cell: what ran in it, and a column for each of its rates."""
        names = sorted({name for cell in self.data["cells"] for name in cell.get("rates", {})})
        lines = [{name: cell.get(name) for name in CELL}
                 | {name: cell.get("rates", {}).get(name) for name in names}
                 for cell in self.data["cells"]]
        texts = set(CELL) - {"block", "dose"}
        schema: dict[str, Any] = {
            name: pl.String if name in texts else pl.Float64 for name in CELL}
        schema |= {"block": pl.Int64} | {name: pl.Float64 for name in names}
        return pl.DataFrame(lines, schema=schema).rename({"id": "cell"})

    def samples(self) -> pl.LazyFrame:
        """One row a request, with what ran in its cell. Times are ns from the cell's start on.

        Requests of fault trials, which are no cells, have no mechanism."""
        of_cells = self.cells.select("cell", "mechanism", "variant", "condition", "victim",
                                     "aggressor", "dose", "outcome")
        return self._scan("samples").join(of_cells.lazy(), on="cell", how="left")

    def telemetry(self) -> pl.LazyFrame:
        """One row a reading: `t_ns`, `cell`, `source`, `metric`, `value`, `unit`."""
        return self._scan("telemetry")

    def legends(self, what: str = "samples") -> dict[str, str]:
        """What the columns of a file mean, with codes and units: `samples` or `telemetry`."""
        path = self.folder / f"{what}.parquet"
        if not path.is_file():
            raise RecordError(f"{self.folder} has no {what}.parquet")
        found = pl.read_parquet_metadata(path)
        return {name.removeprefix("gpubench."): text for name, text in found.items()
                if name.startswith("gpubench.")}

    def _scan(self, what: str) -> pl.LazyFrame:
        path = self.folder / f"{what}.parquet"
        if not path.is_file():
            raise RecordError(f"{self.folder} has no {what}.parquet")
        frame = pl.scan_parquet(path)
        texts = [pl.col(name).cast(pl.String) for name, kind in frame.collect_schema().items()
                 if isinstance(kind, pl.Categorical)]
        return frame.with_columns(texts)


def load(record: str | Path) -> Record:
    """Reads the folder of a record. `report DIR --format json` brings one of an older format, or
    one that another version scored, to the rules of today: its output may stand in place of
    `record.json`.

    >>> load("none")
    Traceback (most recent call last):
    gpubench.record.RecordError: none/record.json: no such file
    """
    folder = Path(record)
    path = folder if folder.is_file() else folder / "record.json"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise RecordError(f"{path}: no such file") from error
    except (OSError, ValueError) as error:
        raise RecordError(f"{path}: {error}") from error
    missing = {"matrix", "cells", "device", "provenance", "plan"} - set(data)
    if missing:
        raise RecordError(f"{path}: no record: it lacks {', '.join(sorted(missing))}")
    return Record(path.parent, data)
