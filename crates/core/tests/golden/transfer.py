"""Golden values of src/transfer/tests.rs: run with numpy, paste the output.

An independent implementation: covariances by outer products over all rows at once, left-out times by joining
all other rows anew, and the learned prior by dense matrices.
"""

import numpy as np

# Standard deviations of the amount of work, what it consists of, the smooth part, the model.
WITHIN_MACHINE = (1.127, 0.047, 0.601, 0.051)
WITHIN_KIND = [(0.059, 0.107, 0.073, 0.061), (0.046, 0.321, 0.085, 0.124)]
OF_CANDIDATE = [(0.12, 0.112, 0.153, 0.112), (0.027, 0.025, 0.073, 0.12)]
LENGTHS = np.array([10.8] + [5.4] * 8)
LEVEL, CENTRE, NOISE = 100.0, np.log(1e7), 0.05**2
CENTRES = np.array([20.0, 15.0, 16.3, 4.7, 0.05, 0.0, 0.1, 0.4, 0.015])
SCALES = np.array([1.5, 1.7, 0.75, 0.6, 0.05, 0.2, 0.12, 0.13, 0.025])
MODELS = 5


def facts(i):
    """The facts of model i: the same arithmetic as in the test. NaN stands for what is not known."""
    amounts = [1e8 * 3.0**i, 1e6 * (1.0 + i * i), 2e6 * (1.0 + 3.0 * i), 40.0 + 25.0 * i]
    shares = [0.02 * i, 0.1 * (i % 2), 0.05 * (i % 3), 0.3 + 0.04 * i, 0.01 * (i % 2)]
    if i == MODELS - 1:
        shares[3:] = [np.nan, np.nan]
    return np.concatenate([np.log(amounts), shares])


X = (np.array([facts(i) for i in range(MODELS)]) - CENTRES) / SCALES


def work(i):
    """Shares of the reference's time on a dense grid of class and window, pack, length and size."""
    grid = np.zeros((3, 3, 16, 20))
    grid[0, 0, 5 + i, 14] += max(8e7 * (1.0 + i) / 8, 3e6)
    grid[1, 1, 6 + i, 15] += max(9e7 / 8, 5e6 * i)
    # Packs that are not filled, filled, and not known, which are those of the first model.
    pack = 2 if i == 0 else i % 2
    grid[2, pack, 3, 12 + i % 2] += max(4e6 / 8, 2e6 * (1.0 + i))
    return grid / grid.sum()


def spread(grid):
    for axis, part in ((2, 0.5), (3, 1.0)):
        grid = grid + part * (np.roll(grid, 1, axis) + np.roll(grid, -1, axis))
    return grid


def product(a, b):
    """The first two are of one class and differ in their windows: alike by a fifth; packs by a half."""
    alike = np.array([[1.0, 0.2, 0.0], [0.2, 1.0, 0.0], [0.0, 0.0, 1.0]])
    packs = 0.5 * np.ones((3, 3)) + 0.5 * np.eye(3)
    return np.einsum("ikab,ij,kl,jlab", a, alike, packs, b, optimize=True)


def likeness():
    """Of the last model the work is not known."""
    known = np.array([spread(work(i)) for i in range(MODELS - 1)])
    known = known - known.mean(0)
    whole = np.eye(MODELS)
    whole[:-1, :-1] = [[product(a, b) / 0.52 for b in known] for a in known]
    return whole


def smooth():
    """What is not known is drawn; the mean over the draws, by quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    weights = weights / weights.sum()
    whole = np.eye(MODELS)
    for i in range(MODELS):
        for j in range(i):
            for a, b, length in zip(X[i], X[j], LENGTHS):
                a = np.where(np.isnan(a), nodes, a)[:, None]
                b = np.where(np.isnan(b), nodes, b)[None, :]
                value = weights @ np.exp(-0.5 * ((a - b) / length) ** 2) @ weights
                whole[i, j] = whole[j, i] = whole[i, j] * value if length != LENGTHS[0] else value
    return whole


def time_ms(machine, candidate, model):
    return (1.0 + 0.3 * machine + 0.7 * candidate) * (1.0 + model) ** (1.0 + 0.2 * candidate) + 0.05 * (
        (7 * model + 5 * candidate + 3 * machine) % 4
    )


def kernel(component):
    size, work, smooth, model = component
    s = X[:, 0]
    return size**2 * np.outer(s, s) + work**2 * LIKENESS + smooth**2 * SMOOTH + model**2 * np.eye(MODELS)


LIKENESS, SMOOTH = likeness(), smooth()


def of_facts():
    shared = np.tile(kernel(WITHIN_MACHINE), (2, 2))
    for kind in range(2):
        part = slice(kind * MODELS, (kind + 1) * MODELS)
        shared[part, part] += kernel(WITHIN_KIND[kind])
    return np.zeros(2 * MODELS), shared, [kernel(c) for c in OF_CANDIDATE]


KINDS = [0, 0, 1]


def rows(machine, missing=()):
    cells = [(c, m) for c in range(len(KINDS)) for m in range(MODELS) if (c, m) not in missing]
    c, m = np.array(cells).T
    z = np.array(KINDS)[c] * MODELS + m
    y = np.log([time_ms(machine, *cell) * 1e6 for cell in cells]) - CENTRE
    return c, m, z, y


def joint(prior, c, m, z, noise=NOISE):
    _, shared, own = prior
    k = shared[np.ix_(z, z)] + noise * np.eye(len(z))
    for candidate, kind in enumerate(KINDS):
        i = np.flatnonzero(c == candidate)
        k[np.ix_(i, i)] += LEVEL + own[kind][np.ix_(m[i], m[i])]
    return k


def left_out(prior, machine, out):
    c, m, z, y = rows(machine)
    i = np.array([k for k in range(len(y)) if (c[k], m[k]) in out])
    o = np.setdiff1d(np.arange(len(y)), i)
    k = joint(prior, c, m, z)
    gain = np.linalg.solve(k[np.ix_(o, o)], k[np.ix_(o, i)]).T
    mean = CENTRE + prior[0][z[i]] + gain @ (y[o] - prior[0][z[o]])
    covariance = k[np.ix_(i, i)] - gain @ k[np.ix_(o, i)]
    return list(zip(mean, np.sqrt(np.diag(covariance))))


def learn(prior, machines, rounds=8, nu=(5.0, 20.0), nu_own=30.0, kappa=(0.3, 8.0)):
    """What kinds have in common and their contrast count differently: the statistics are those of these two."""
    _, shared0, own0 = prior
    one = np.eye(MODELS)
    turn = np.block([[one, one], [one, -one]]) / np.sqrt(2)
    nu, kappa = (np.diag(np.repeat(weights, MODELS)) for weights in (nu, kappa))
    mean, shared, own = np.zeros(2 * MODELS), shared0, own0
    for _ in range(rounds):
        means, rest, own_sum, own_count = [], np.zeros_like(shared0), [nu_own * k for k in own0], [nu_own] * 2
        for machine, missing in machines:
            c, m, z, y = rows(machine, missing)
            inverse = np.linalg.inv(joint((mean, shared, own), c, m, z))
            gain = shared[:, z] @ inverse
            means.append(mean + gain @ (y - mean[z]))
            rest += shared - gain @ shared[z]
            for candidate, kind in enumerate(KINDS):
                i = np.flatnonzero(c == candidate)
                across = own[kind][:, m[i]]
                part = across @ (inverse @ (y - mean[z]))[i]
                left = own[kind] - across @ inverse[np.ix_(i, i)] @ across.T
                own_sum[kind] = own_sum[kind] + np.outer(part, part) + left
                own_count[kind] += 1
        means = np.array(means) @ turn
        mean = np.linalg.solve(len(machines) * np.eye(2 * MODELS) + kappa, means.sum(0))
        apart, pull = means - mean, np.sqrt(kappa) @ mean
        sums = np.sqrt(nu) @ turn @ shared0 @ turn @ np.sqrt(nu) + turn @ rest @ turn
        sums = sums + apart.T @ apart + np.outer(pull, pull)
        root = np.sqrt(np.linalg.inv(nu + len(machines) * np.eye(2 * MODELS)))
        mean, shared = turn @ mean, turn @ root @ sums @ root @ turn
        own = [s / n for s, n in zip(own_sum, own_count)]
    of_mean = np.sqrt(np.eye(2 * MODELS) + np.linalg.inv(len(machines) * np.eye(2 * MODELS) + kappa))
    return mean, turn @ of_mean @ turn @ shared @ turn @ of_mean @ turn, own


def show(name, pairs):
    print(name, ", ".join(f"({float(a)!r}, {float(b)!r})" for a, b in pairs))


print("numpy", np.__version__)
FACTS = of_facts()
LEARNED = learn(FACTS, [(1, ()), (2, {(0, 3), (2, 1)})])
for name, prior in [("facts", FACTS), ("learned", LEARNED)]:
    show(f"{name} one model:", left_out(prior, 0, {(0, 2), (1, 2), (2, 2)}))
    show(f"{name} one time:", left_out(prior, 0, {(2, 4)}))
