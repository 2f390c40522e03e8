"""Golden values of src/transfer/tests.rs: run with numpy, paste the output.

An independent implementation: covariances by outer products over all rows at once, left-out times by joining
all other rows anew, and the learned prior by dense matrices.
"""

import numpy as np

SIZE, REST = slice(0, 1), slice(1, None)
WITHIN_MACHINE = (0.81, 0.075, 0.37, 0.05)
WITHIN_KIND = [(0.23, 0.02, 0.09, 0.08), (0.09, 0.03, 0.39, 0.21)]
OF_CANDIDATE = [(0.14, 0.027, 0.06, 0.14), (0.045, 0.014, 0.07, 0.12)]
LENGTHS = (4.4, 4.3)
LEVEL, CENTRE, NOISE = 100.0, np.log(1e7), 0.05**2
CENTRES = np.array([20.0, 15.0, 16.3, 4.7, 0.05, 0.0, 0.1, 0.4, 0.015])
SCALES = np.array([1.5, 1.7, 0.75, 0.6, 0.05, 0.2, 0.12, 0.13, 0.025])


def facts(i):
    """The facts of model i: the same arithmetic as in the test."""
    amounts = [1e8 * 3.0**i, 1e6 * (1.0 + i * i), 2e6 * (1.0 + 3.0 * i), 40.0 + 25.0 * i]
    shares = [0.02 * i, 0.1 * (i % 2), 0.05 * (i % 3), 0.3 + 0.04 * i, 0.01 * (i % 2)]
    return amounts, shares


MODELS = 5
X = np.array([np.concatenate([np.log(a), s]) for a, s in map(facts, range(MODELS))])
X = (X - CENTRES) / SCALES


def time_ms(machine, candidate, model):
    return (1.0 + 0.3 * machine + 0.7 * candidate) * (1.0 + model) ** (1.0 + 0.2 * candidate) + 0.05 * (
        (7 * model + 5 * candidate + 3 * machine) % 4
    )


def kernel(component):
    size, mix, smooth, model = component
    s, x = X[:, SIZE], X[:, REST]
    ds = ((s[:, None] - s[None]) ** 2).sum(-1) / LENGTHS[0] ** 2
    dx = ((x[:, None] - x[None]) ** 2).sum(-1) / LENGTHS[1] ** 2
    return (
        size**2 * s @ s.T
        + mix**2 * x @ x.T
        + smooth**2 * np.exp(-0.5 * (ds + dx))
        + model**2 * np.eye(MODELS)
    )


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


def learn(prior, machines, rounds=8, nu=10.0, nu_own=10.0, kappa=0.3):
    _, shared0, own0 = prior
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
        means = np.array(means)
        mean = means.sum(0) / (len(machines) + kappa)
        apart = means - mean
        shared = (nu * shared0 + rest + apart.T @ apart + kappa * np.outer(mean, mean)) / (
            nu + len(machines) + 1
        )
        own = [s / n for s, n in zip(own_sum, own_count)]
    return mean, shared, own


def show(name, pairs):
    print(name, ", ".join(f"({float(a)!r}, {float(b)!r})" for a, b in pairs))


print("numpy", np.__version__)
FACTS = of_facts()
LEARNED = learn(FACTS, [(1, ()), (2, {(0, 3), (2, 1)})])
for name, prior in [("facts", FACTS), ("learned", LEARNED)]:
    show(f"{name} one model:", left_out(prior, 0, {(0, 2), (1, 2), (2, 2)}))
    show(f"{name} one time:", left_out(prior, 0, {(2, 4)}))
