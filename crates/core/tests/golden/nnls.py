"""Golden values of src/nnls/tests.rs: run with numpy and scipy, paste the output."""

import numpy as np
import scipy
from scipy.optimize import nnls


def problem(rows, columns, shift):
    a = [[((i * 7 + j * 13 + i * j * 5) % 17 - shift) / 4 for j in range(columns)] for i in range(rows)]
    b = [((i * 11 + 3) % 13 - 4) / 2 for i in range(rows)]
    return np.array(a), np.array(b)


print("scipy", scipy.__version__)
for rows, columns, shift in [(8, 3, 6), (12, 5, 3), (20, 7, 8), (40, 10, 5)]:
    x, norm = nnls(*problem(rows, columns, shift))
    print(f"({rows}, {columns}, {shift}, &{[float(v) for v in x]}, {norm!r}),".replace("np.float64", ""))
