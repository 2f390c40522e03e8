"""Golden values of src/form/tests.rs: run with numpy and scipy, paste the output."""

import numpy as np
import scipy
from scipy.optimize import nnls

CACHE = 4e6
# family, flops, weight bytes, parameters, batch, time in ns
ROWS = [
    ("mlp", 1.31e5, 2.6e5, 6.5e4, 1, 1.9e4),
    ("mlp", 1.05e6, 2.6e5, 6.5e4, 8, 2.3e4),
    ("mlp", 2.10e6, 4.2e6, 1.05e6, 1, 1.5e5),
    ("mlp", 1.68e7, 4.2e6, 1.05e6, 8, 1.9e5),
    ("mlp", 3.36e7, 6.7e7, 1.68e7, 1, 2.9e6),
    ("mlp", 2.68e8, 6.7e7, 1.68e7, 8, 3.2e6),
    ("conv", 2.4e7, 2.4e4, 5.9e3, 1, 1.4e5),
    ("conv", 1.9e8, 2.4e4, 5.9e3, 8, 8.8e5),
    ("conv", 6.0e8, 5.9e5, 1.5e5, 1, 2.6e6),
    ("conv", 4.8e9, 5.9e5, 1.5e5, 8, 2.2e7),
    ("attn", 1.1e8, 4.0e5, 1.0e5, 1, 3.3e5),
    ("attn", 8.8e8, 4.0e5, 1.0e5, 8, 2.1e6),
]
FAMILIES = ["mlp", "conv", "attn", "recurrent"]


def columns(form, row):
    family, w, d, p, b, _ = row
    if form == "F1":
        return [1.0, w, d]
    if form == "F2":
        return [1.0, w, min(d, CACHE), max(d - CACHE, 0.0)]
    if form == "F3":
        return [1.0, np.log(p), np.log(b)]
    if form == "F5":
        # 8 nodes; all work in the operators of the family, each weight moved once.
        return [1.0, 8.0, w if family in ("mlp", "attn") else 0.0, w if family == "conv" else 0.0, 0.0, 0.0, d]
    return [1.0] + [w if family == other else 0.0 for other in FAMILIES] + [d]


def fit(form, rows):
    a = np.array([columns(form, row) for row in rows])
    t = np.array([row[5] for row in rows])
    if form == "F3":
        return np.linalg.lstsq(a, np.log(t), rcond=None)[0]
    a = a / t[:, None]
    scale = np.linalg.norm(a, axis=0)
    scale[scale == 0] = 1
    return nnls(a / scale, np.ones(len(t)))[0] / scale


def predict(form, x, row):
    value = float(np.dot(columns(form, row), x))
    return np.exp(value) if form == "F3" else max(value, 1.0)


print("numpy", np.__version__, "scipy", scipy.__version__)
for form in ["F1", "F2", "F3", "F4", "F5"]:
    errors = []
    for i, row in enumerate(ROWS):
        x = fit(form, ROWS[:i] + ROWS[i + 1 :])
        errors.append(100 * abs(predict(form, x, row) / row[5] - 1))
    print(form, [float(v) for v in fit(form, ROWS)], "mape", float(np.mean(errors)), "median", float(np.median(errors)))
