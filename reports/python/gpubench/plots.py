"""Plots by altair: `pip install gpubench[plots]`."""

from __future__ import annotations

import altair as alt
import polars as pl

from gpubench.record import Record

# Bounds of the levels of a retention.
BOUNDS = (0.60, 0.80, 0.95)


def intervals(record: Record, figure: str = "retention") -> alt.TopLevelMixin:
    """Each row's figure with its interval, and the bounds of the levels."""
    rows = record.figures.filter(pl.col("figure") == figure, pl.col("aggressor").is_not_null())
    rows = rows.with_columns((pl.col("sub_axis") + " beside " + pl.col("aggressor")).alias("row"))
    base = alt.Chart(rows).encode(y=alt.Y("row:N", title=None), color="variant:N",
                                  yOffset="variant:N")
    bars = base.mark_rule().encode(x=alt.X("lo:Q", title=figure), x2="hi:Q")
    points = base.mark_point(filled=True).encode(
        x="value:Q", tooltip=["variant", "row", "value", "lo", "hi", "n", "level"])
    bounds = alt.Chart(pl.DataFrame({"bound": BOUNDS})).mark_rule(strokeDash=[2, 2]).encode(
        x="bound:Q")
    return alt.layer(bounds, bars, points)


def blocks(record: Record) -> alt.TopLevelMixin:
    """The rate of the victim over blocks, by variant and condition."""
    cells = record.cells.filter(pl.col("condition").is_in(["N", "S", "C"]),
                                pl.col("closed_rate_per_s").is_not_null())
    chart: alt.TopLevelMixin = alt.Chart(cells).mark_line(point=True).encode(
        x="block:O", y=alt.Y("closed_rate_per_s:Q", title="requests/s"), color="condition:N",
        strokeDash="aggressor:N", facet=alt.Facet("variant:N", columns=3))
    return chart


def latencies(record: Record, quantiles: int = 100) -> alt.TopLevelMixin:
    """Latency of the open loop against the share of requests, by variant and condition."""
    shares = [index / quantiles for index in range(1, quantiles)]
    latency = (pl.col("t_done_ns") - pl.col("t_sched_ns")) / 1e6
    wanted = record.samples().filter(
        pl.col("tenant") == "victim", pl.col("phase") == 2, pl.col("status") == 0,
        pl.col("condition").is_in(["N", "S", "C"]))
    keys = ["variant", "condition", "victim", "aggressor"]
    frame = wanted.group_by(keys).agg(
        *[latency.quantile(share).alias(str(share)) for share in shares]).collect()
    lines = frame.unpivot(index=keys, variable_name="share", value_name="ms").with_columns(
        pl.col("share").cast(pl.Float64))
    chart: alt.TopLevelMixin = alt.Chart(lines).mark_line().encode(
        x="share:Q", y=alt.Y("ms:Q", title="latency in ms", scale=alt.Scale(type="log")),
        color="condition:N", strokeDash="aggressor:N",
        facet=alt.Facet("variant:N", columns=3))
    return chart
