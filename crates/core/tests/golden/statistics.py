"""Golden values of src/statistics/tests.rs: run with numpy and scipy, paste the output."""

import numpy as np
import scipy
from scipy.stats import binom

print("numpy", np.__version__, "scipy", scipy.__version__)


def sample(n):
    return sorted(float((i * 37 + 11) % 101 + 100) for i in range(n))


for p in (0.05, 0.1, 0.333, 0.5, 0.9, 0.99):
    print("quantile", p, repr(float(np.quantile(sample(50), p, method="linear"))))


def hettmansperger_sheather(x, confidence):
    n = len(x)
    covered = lambda d: binom.cdf(n - d, n, 0.5) - binom.cdf(d - 1, n, 0.5)
    d = max(d for d in range(1, n // 2 + 1) if covered(d) >= confidence)
    outer, inner = covered(d), covered(d + 1) if d + 1 <= n - d else 0.0
    share = (outer - confidence) / (outer - inner)
    share = (n - d) * share / (d + (n - 2 * d) * share)
    return (1 - share) * x[d - 1] + share * x[d], (1 - share) * x[n - d] + share * x[n - d - 1]


for n, confidence in [(6, 0.95), (7, 0.95), (30, 0.95), (31, 0.95), (100, 0.95), (100, 0.99)]:
    low, high = hettmansperger_sheather(sample(n), confidence)
    print(f"({n}, {confidence}, {low!r}, {high!r}),".replace("np.float64", ""))

# Student's t.
from scipy.stats import t, ttest_1samp, ttest_ind, wilcoxon

for confidence, degrees in [(0.95, 1), (0.95, 2), (0.95, 4), (0.95, 7), (0.95, 30), (0.95, 101), (0.99, 5), (0.999, 3)]:
    print("t critical", confidence, degrees, float(t.ppf(0.5 + confidence / 2, degrees)))
for value, degrees in [(0.5, 1), (2.0, 1), (2.5, 2), (2.5, 3), (1.0, 8), (3.3, 9), (4.0, 1000)]:
    print("t p", value, degrees, float(2 * t.sf(value, degrees)))

# Signed ranks: the interval counts Walsh averages against the exact distribution of the rank sum.
differences = np.array([0.031, -0.004, 0.022, 0.017, 0.048, 0.009, -0.012, 0.027, 0.035, 0.011])
print("signed rank p", wilcoxon(differences, method="exact").pvalue)
walsh = np.sort([(a + b) / 2 for i, a in enumerate(differences) for b in differences[i:]])
sums = np.array([1.0])
for rank in range(1, len(differences) + 1):
    sums = np.convolve(sums, [0.5] + [0.0] * (rank - 1) + [0.5])
rank = int(np.sum(2 * np.cumsum(sums) <= 0.05))
print("signed rank", np.median(walsh), walsh[rank - 1], walsh[-rank])

# Kendall's S: how many inversions of a random permutation have two-sided probability of 1 % at most.
for n in (4, 5, 6, 8, 10, 32):
    inversions = np.array([1.0])
    for size in range(2, n + 1):
        inversions = np.convolve(inversions, np.full(size, 1 / size))
    print("inversions", n, int(np.sum(2 * np.cumsum(inversions) <= 0.01)))

# Comparisons.
logs = np.log([1.02, 0.99, 1.04, 1.01])
result = ttest_1samp(logs, 0.0)
ends = result.confidence_interval(0.95)
print("paired", result.pvalue, np.exp(ends.low), np.exp(ends.high))
first, second = np.log([10.0, 10.4, 9.9, 10.2]), np.log([11.0, 11.9, 11.2])
welch = ttest_ind(first, second, equal_var=False)
print("welch", 2 * t.sf(abs(welch.statistic), int(welch.df)), welch.df, np.exp(first.mean() - second.mean()))
