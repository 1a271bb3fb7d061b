"""Records of gpubench as tidy frames.

    import gpubench
    record = gpubench.load("rec")
    record.figures          # one row a figure, with its bounds
    record.cells            # one row a cell, with its rates
    record.samples()        # one row a request, lazily, with what ran in its cell
    gpubench.rates(record)  # the rates of cells, computed again from the samples
"""

from gpubench.figures import ratio, rates, t_interval
from gpubench.record import Record, RecordError, load

__all__ = ["Record", "RecordError", "load", "ratio", "rates", "t_interval"]
