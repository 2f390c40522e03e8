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
