"""SciPy and NumPy as the reference of gpubench-stats.

    python ci/oracle_scipy.py < JOBS

A job is a line: a name and numbers, series separated by `|`. The answer is a line of numbers, each
with 17 digits. `-` stands for a bound that does not exist.
"""

import sys

import numpy as np
from scipy import optimize, stats


def ratio_bounds(x, y, alpha, df, se_of):
    """Where the t test of mean(x) - r mean(y) has the p value alpha."""
    t = stats.t.ppf(1 - alpha / 2, df)
    value = np.mean(x) / np.mean(y)

    def excess(r):
        return abs(np.mean(x) - r * np.mean(y)) / se_of(r) - t

    step = abs(value) + 1e-3
    ends = []
    for sign in (-1, 1):
        far = value + sign * step
        while excess(far) < 0:
            far = value + (far - value) * 2
        ends.append(optimize.brentq(excess, value, far, xtol=1e-15, rtol=1e-14, maxiter=500))
    return [value, *ends]


def fieller_paired(series, alpha):
    x, y = series
    n = len(x)
    return ratio_bounds(x, y, alpha, n - 1, lambda r: np.std(x - r * y, ddof=1) / np.sqrt(n))


def fieller_independent(series, alpha):
    x, y = series
    df = min(len(x), len(y)) - 1

    def se(r):
        return np.sqrt(np.var(x, ddof=1) / len(x) + r**2 * np.var(y, ddof=1) / len(y))

    return ratio_bounds(x, y, alpha, df, se)


def welch(series, _):
    a, b = series
    found = stats.ttest_ind(b, a, equal_var=False)
    ci = found.confidence_interval(0.95)
    return [np.mean(b) - np.mean(a), found.df, found.pvalue, ci.low, ci.high]


def clopper_pearson(series, alpha):
    k, n = (int(v) for v in series[0])
    two = stats.binomtest(k, n).proportion_ci(1 - alpha, method="exact")
    return [two.low, two.high]


def ranks(series, alpha):
    n, p = series[0]
    lower = stats.binom.ppf(alpha / 2, n, p)
    upper = stats.binom.ppf(1 - alpha / 2, n, p) + 1
    return [lower if lower >= 1 else None, upper if upper <= n else None]


JOBS = {
    "t-quantile": lambda s, _: [stats.t.ppf(s[0][0], s[0][1])],
    "t-p": lambda s, _: [2 * stats.t.sf(abs(s[0][0]), s[0][1])],
    "welch": welch,
    "fieller-paired": fieller_paired,
    "fieller-independent": fieller_independent,
    "clopper-pearson": clopper_pearson,
    "ranks": ranks,
    "quantile": lambda s, _: [
        np.quantile(s[0], s[1][0], method=how) for how in ("linear", "median_unbiased")
    ],
}

for line in sys.stdin:
    name, *numbers = line.split()
    series = [np.array([float(v) for v in part.split()]) for part in " ".join(numbers).split("|")]
    answer = JOBS[name](series, 0.05)
    print(" ".join("-" if v is None else f"{v:.17g}" for v in answer))
