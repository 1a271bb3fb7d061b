"""Figures computed again from cells and samples, by the rules of the program."""

from __future__ import annotations

import math
from typing import Any

import polars as pl

from gpubench.record import Record

CLOSED, OK, COMPLETIONS_MIN = 1, 0, 10
# The conditions over which a figure divides, and whose variant they have.
RATIOS = {"retention": ("C", "S"), "guarantee": ("C", "N"), "efficiency": ("S", "N"),
          "effectiveness": ("U", "N")}


def rates(record: Record) -> pl.DataFrame:
    """The rate of the victim in the closed loop of each cell, in 1/s, from the samples: requests
    that completed, over the time from the first arrival to the last completion."""
    done = pl.col("t_done_ns").filter(pl.col("status") == OK)
    span = done.max() - pl.col("t_sched_ns").sort_by("seq").first()
    closed = record.samples().filter(pl.col("tenant") == "victim", pl.col("phase") == CLOSED)
    of_cell = closed.group_by("cell", maintain_order=True).agg(
        done.count().alias("requests"), (done.count() * 1e9 / span).alias("rate"))
    return of_cell.filter(pl.col("requests") >= COMPLETIONS_MIN).collect()


def ratio(record: Record, row: dict[str, Any], figure: str,
          of_cells: pl.DataFrame | None = None) -> list[float]:
    """The logarithm of a ratio of rates of each block that counts, for a row of the matrix.

    `of_cells` has the rate of each cell (`rates(record)`); without it those of the record count.
    """
    top, bottom = RATIOS[figure]
    cells = record.cells.filter(pl.col("outcome") == "measured", pl.col("victim") == row["victim"])
    if of_cells is not None:
        cells = cells.join(of_cells.select("cell", "rate"), on="cell")
    else:
        cells = cells.rename({"closed_rate_per_s": "rate"})
    # Compared cells are of one group, which ran side by side in the block. In the groups of others
    # a variant has unprotected cells only.
    own = cells.filter(pl.col("variant") == row["variant"], pl.col("condition") == "S")
    group = own["group"].first()
    cells = cells.filter(pl.col("group") == group, pl.col("rate") > 0)
    tops, bottoms = (_by_block(record, cells, one, row) for one in (top, bottom))
    lost = {one["block"] for one in row.get("blocks_lost") or [] if "block" in one}
    shared = sorted((tops.keys() & bottoms.keys()) - lost)
    return [math.log(tops[block]) - math.log(bottoms[block]) for block in shared]


def _by_block(record: Record, cells: pl.DataFrame, condition: str,
              row: dict[str, Any]) -> dict[int, float]:
    if condition in ("C", "U"):
        cells = cells.filter(pl.col("aggressor") == row["aggressor"], pl.col("dose") == 1.0)
    variant = record.data["plan"]["reference"] if condition == "N" else row["variant"]
    if condition == "U" and "U" not in cells["condition"]:
        # A mechanism that protects from nothing has contended cells in place of unprotected ones.
        kind = str(row.get("u_kind"))
        variant = row["variant"] if kind.endswith("(identity)") else kind
        condition = "C"
    if condition != "U":
        cells = cells.filter(pl.col("variant") == variant)
    pairs = cells.filter(pl.col("condition") == condition).select("block", "rate").iter_rows()
    return {block: rate for block, rate in pairs}


def t_interval(logs: list[float], confidence: float = 0.95) -> tuple[float, float, float]:
    """The figure and the ends of its interval, of one logarithm a block.

    >>> t_interval([0.0, 0.0, 0.0])
    (1.0, 1.0, 1.0)
    """
    count = len(logs)
    mean = math.fsum(logs) / count
    variance = math.fsum((log - mean) ** 2 for log in logs) / (count - 1)
    half = t_quantile((1 + confidence) / 2, count - 1) * math.sqrt(variance / count)
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def t_quantile(share: float, freedom: int) -> float:
    """The quantile of Student's t, by bisection of its closed form for whole degrees of freedom.

    >>> [round(t_quantile(share, freedom), 6) for share, freedom in ((0.975, 7), (0.9875, 8))]
    [2.364624, 2.751524]
    """
    low, high = 0.0, 1e4
    while True:
        middle = (low + high) / 2
        if middle in (low, high):
            return middle
        if _t_share(middle, freedom) < share:
            low = middle
        else:
            high = middle


def _t_share(value: float, freedom: int) -> float:
    """The distribution function of Student's t (Abramowitz and Stegun 26.7.3 and 26.7.4)."""
    angle = math.atan(value / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    if freedom % 2 == 0:
        term, total = 1.0, 1.0
        for index in range(1, freedom // 2):
            term *= cosine * cosine * (2 * index - 1) / (2 * index)
            total += term
        inside = sine * total
    else:
        term, total = cosine, cosine if freedom > 1 else 0.0
        for index in range(1, (freedom - 1) // 2):
            term *= cosine * cosine * 2 * index / (2 * index + 1)
            total += term
        inside = 2 / math.pi * (angle + sine * total)
    return 0.5 + inside / 2
