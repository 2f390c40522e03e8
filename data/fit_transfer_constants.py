"""Fits the constants of core::transfer to measured boards and tries them on boards and networks left out.

Usage: fit_transfer_constants.py boards.csv board_models.csv, with numpy and scipy. An implementation of its own,
apart from the program: the constants make the times of each network on a board most probable given those of the
board's other networks, under broad log-normal priors.
"""

import csv
import sys
from collections import defaultdict

import numpy as np
from scipy.optimize import minimize

LEAST_MODELS = 8
LEVEL, NOISE = 100.0, 0.05**2
TYPICAL_SQUARE = 0.52
# How much of a share of work counts for any window or pack, and for sorts of half and twice the length and the size.
ANY_WINDOW, ANY_PACK, TO_NEXT_LENGTH, TO_NEXT_SIZE = 0.2, 0.5, 0.5, 1.0
# Machines that the fleet's priors count as, of what kinds of chips have in common and of their contrast; the same of
# their means; and candidates that the prior of a candidate's own part counts as.
OF_SHARED, OF_MEAN, OF_OWN = (5.0, 20.0), (0.3, 8.0), 30.0
# Where the search starts: size, work, smooth, model of all candidates, each kind, and a candidate of each kind.
START = np.log([[0.6, 0.1, 0.15, 0.1], *[[share, 0.1, 0.15, 0.1] for share in (0.2, 0.1, 0.15, 0.05)]])
START_LENGTHS = np.log([3.0, 3.0])


def load_facts(path):
    """Names, scaled traits, and likeness of the work of all networks."""
    rows = list(csv.DictReader(open(path, encoding="utf-8")))
    column = lambda name: np.array([float(row[name]) for row in rows])
    logarithms = [("gmacs", 1e9, 20.0, 1.5), ("params_m", 1e6, 15.0, 1.7), ("activations_m", 1e6, 16.3, 0.75)]
    shares = [("depthwise_share", 0.05, 0.05), ("matrix_share", 0.0, 0.2), ("movement_share", 0.1, 0.12)]
    shares += [("element_wise_share", 0.4, 0.13), ("normalisation_share", 0.015, 0.025)]
    traits = [(np.log(column(name) * unit) - centre) / scale for name, unit, centre, scale in logarithms]
    traits += [(np.log(column("nodes")) - 4.7) / 0.6]
    traits += [(column(name) - centre) / scale for name, centre, scale in shares]
    mixtures = [spread(row["work"]) for row in rows]
    sorts = list(dict.fromkeys(sort for mixture in mixtures for sort in mixture))
    dense = np.array([[mixture.get(sort, 0.0) for sort in sorts] for mixture in mixtures])
    dense = dense - dense.mean(0)
    return [row["model"] for row in rows], np.array(traits).T, dense @ dense.T / TYPICAL_SQUARE


def spread(work):
    """Shares of the reference's time by sort, with parts of them for the neighbouring sorts."""
    sorts = [entry.split(":") for entry in work.split()]
    times = [max(float(entry[5]) / 8.0, float(entry[6])) for entry in sorts]
    apart = lambda own, any_of_them: ((None, any_of_them**0.5), (own, (1.0 - any_of_them) ** 0.5))
    mixture = defaultdict(float)
    for (kind, window, pack, length, size, *_), time in zip(sorts, times):
        for wide, by_window in apart(window != "1", ANY_WINDOW):
            for filled, by_pack in apart(pack, ANY_PACK):
                for longer, by_length in ((-1, TO_NEXT_LENGTH), (0, 1.0), (1, TO_NEXT_LENGTH)):
                    for larger, by_size in ((-1, TO_NEXT_SIZE), (0, 1.0), (1, TO_NEXT_SIZE)):
                        sort = kind, wide, filled, int(length) + longer, int(size) + larger
                        mixture[sort] += time / sum(times) * by_window * by_pack * by_length * by_size
    return mixture


class Board:
    """Kinds of candidates, the networks that all of them have, and every time as (candidate, network, ln ms)."""

    def __init__(self, times, names):
        self.kinds = np.array([0 if candidate.startswith("cpu/") else 1 for candidate in times])
        self.networks = [m for m, name in enumerate(names) if all(name in of for of in times.values())]
        self.times = np.array([[of[names[m]] for m in self.networks] for of in times.values()])
        ln = np.log
        self.all = [(c, names.index(m), ln(t)) for c, of in enumerate(times.values()) for m, t in of.items()]

    def rows(self, whole=False, networks=None):
        """Candidates, networks and logarithms; those of networks that all candidates have unless `whole`."""
        keep = lambda m: (whole or m in self.networks) and (networks is None or m in networks)
        # By candidate and then as in `networks`.
        rows = sorted(row for row in self.all if keep(row[1]))
        candidates, of_network, ln = map(np.array, zip(*rows))
        # The level's prior is centred on 10 ms.
        return candidates.astype(int), of_network.astype(int), ln - np.log(10.0)


def load_boards(path, names):
    table = defaultdict(lambda: defaultdict(dict))
    for row in csv.DictReader(open(path, encoding="utf-8")):
        table[row["board"]][row["candidate"]][row["model"]] = float(row["mean_ms"])
    enough = [{c: of for c, of in board.items() if len(of) >= LEAST_MODELS} for board in table.values()]
    return [Board(board, names) for board in enough if len(board) > 1]


class Facts:
    """Covariances from facts, and the constants that make left-out networks most probable."""

    def __init__(self, traits, work):
        size, rest = traits[:, :1], traits[:, 1:]
        square = lambda x: ((x[:, None] - x[None]) ** 2).sum(-1)
        self.distances = [square(size), square(rest)]
        self.linear = [size @ size.T, work]
        self.count = len(traits)

    def smooth(self, lengths):
        return np.exp(-0.5 * sum(d / length**2 for d, length in zip(self.distances, lengths)))

    def prior(self, constants):
        deviations, lengths = np.exp(constants[:-2]).reshape(5, 4), np.exp(constants[-2:])
        parts = [*self.linear, self.smooth(lengths), np.eye(self.count)]
        shared, *rest = [sum(s * s * part for s, part in zip(row, parts)) for row in deviations]
        by_kind = [np.kron(np.diag(kind), k) for kind, k in zip(([1.0, 0.0], [0.0, 1.0]), rest[:2])]
        return np.zeros(2 * self.count), np.kron(np.ones((2, 2)), shared) + sum(by_kind), rest[2:]

    def fit(self, boards, networks=None, steps=40):
        start = np.concatenate([START.ravel(), START_LENGTHS])
        rows = [(board, *board.rows(networks=networks)) for board in boards]

        def loss(constants):
            prior = self.prior(constants)
            deviations, lengths = np.exp(constants[:-2]).reshape(5, 4), np.exp(constants[-2:])
            value, slopes = 0.0, np.zeros((5, self.count, self.count))
            for board, c, m, y in rows:
                left_out, slope = leave_out(covariance(prior, board, c, m), m, y)
                value, of = value + left_out, np.eye(self.count)[m]
                groups = [(0, c >= 0), *[(1 + kind, board.kinds[c] == kind) for kind in (0, 1)]]
                groups += [(3 + kind, c == candidate) for candidate, kind in enumerate(board.kinds)]
                for part, mask in groups:
                    slopes[part] += of[mask].T @ slope[np.ix_(mask, mask)] @ of[mask]
            smooth = self.smooth(lengths)
            parts = [*self.linear, smooth, np.eye(self.count)]
            by_deviation = [
                2 * s * s * (slope * part).sum()
                for row, slope in zip(deviations, slopes)
                for s, part in zip(row, parts)
            ]
            by_length = [
                sum((slope * smooth * d).sum() * row[2] ** 2 for row, slope in zip(deviations, slopes)) / length**2
                for d, length in zip(self.distances, lengths)
            ]
            away = constants - start
            return value + 0.5 * away @ away, np.array([*by_deviation, *by_length]) + away

        return minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": steps}).x


def covariance(prior, board, c, m):
    _, shared, own = prior
    z, kind = board.kinds[c] * (len(shared) // 2) + m, board.kinds[c]
    apart = np.where(kind[:, None] == 0, own[0][np.ix_(m, m)], own[1][np.ix_(m, m)]) + LEVEL
    return shared[np.ix_(z, z)] + (c[:, None] == c[None]) * apart + NOISE * np.eye(len(c))


def leave_out(matrix, m, y):
    """Minus the logarithm of the density of each network's times given all others, summed, and its slope by `matrix`.

    With `P` the inverse and `w = P·y`, the left-out times are off by `e = P_mm⁻¹·w_m` with the precision `P_mm`.
    """
    inverse = np.linalg.inv(matrix)
    weights, value = inverse @ y, 0.0
    off, each, blocks = np.zeros(len(y)), [], np.zeros_like(matrix)
    for network in np.unique(m):
        i = np.flatnonzero(m == network)
        block = inverse[np.ix_(i, i)]
        off[i] = np.linalg.solve(block, weights[i])
        value += 0.5 * (off[i] @ weights[i] - np.linalg.slogdet(block)[1])
        blocks[np.ix_(i, i)] = np.linalg.inv(block)
        each.append(inverse[:, i] @ off[i])
    each = np.array(each).T
    across = np.outer(inverse @ off, weights)
    return value, 0.5 * (each @ each.T + inverse @ blocks @ inverse - across - across.T)


def learn(prior, boards, rounds=8):
    """The prior changed by other boards, by expectation and maximisation."""
    (mean, shared, own), (_, shared0, own0) = prior, prior
    # Turned from the two kinds of chips to what they have in common and what is between them, and back.
    turn = np.kron(np.array([[1.0, 1.0], [1.0, -1.0]]) / np.sqrt(2.0), np.eye(len(own0[0])))
    of_shared, of_mean = (np.repeat(weight, len(own0[0])) for weight in (OF_SHARED, OF_MEAN))
    start = np.sqrt(np.outer(of_shared, of_shared)) * (turn @ shared0 @ turn)
    for _ in range(rounds):
        means, rest = [], np.zeros_like(shared)
        sums, counts = [OF_OWN * k for k in own0], [OF_OWN] * 2
        for board in boards:
            c, m, y = board.rows(whole=True)
            z = board.kinds[c] * len(own0[0]) + m
            inverse = np.linalg.inv(covariance((mean, shared, own), board, c, m))
            weights, across = inverse @ (y - mean[z]), shared[:, z]
            means.append(mean + across @ weights)
            rest += shared - across @ inverse @ across.T
            for candidate, kind in enumerate(board.kinds):
                i = np.flatnonzero(c == candidate)
                across = own[kind][:, m[i]]
                part = across @ weights[i]
                sums[kind] = sums[kind] + np.outer(part, part) + own[kind] - across @ inverse[np.ix_(i, i)] @ across.T
                counts[kind] += 1
        apart = np.array(means) @ turn
        mean = apart.sum(0) / (len(boards) + of_mean)
        apart, rest = apart - mean, turn @ rest @ turn
        of_the_mean = np.sqrt(of_mean) * mean
        scale = np.sqrt(of_shared + len(boards))
        shared = (start + rest + apart.T @ apart + np.outer(of_the_mean, of_the_mean)) / np.outer(scale, scale)
        mean, shared, own = turn @ mean, turn @ shared @ turn, [k / n for k, n in zip(sums, counts)]
    # The mean of the machines is not known exactly either.
    scale = np.sqrt(1.0 + 1.0 / (len(boards) + of_mean))
    return mean, turn @ (np.outer(scale, scale) * (turn @ shared @ turn)) @ turn, own


def predict(prior, board, granted):
    """For each network of the board: whether each candidate's time is known, and mean and deviation of ln ms."""
    c, m, y = board.rows()
    inverse = np.linalg.inv(covariance(prior, board, c, m))
    weights = inverse @ (y - prior[0][board.kinds[c] * (len(prior[1]) // 2) + m])
    for position, network in enumerate(board.networks):
        truth = np.log(board.times[:, position])
        known = np.zeros(len(truth), bool)
        if granted:
            others = np.delete(np.log(board.times), position, 1).mean(1)
            known[np.argmin(np.where(board.kinds == 0, others, np.inf))] = True
        out = [int(np.flatnonzero((c == k) & (m == network))[0]) for k in np.flatnonzero(~known)]
        left = np.linalg.inv(inverse[np.ix_(out, out)])
        mean, deviation = truth.copy(), np.zeros(len(truth))
        mean[~known] -= left @ weights[out]
        deviation[~known] = np.sqrt(np.diag(left))
        yield network, truth, known, mean, deviation


def score(predictions):
    """Choices within 2 %, mean regret, median error with what was granted, truths inside the interval; in percent."""
    regrets, errors, inside = [], [], []
    for _, truth, known, mean, deviation in predictions:
        chosen = np.argmin(mean + 0.5 * deviation**2)
        regrets.append(np.exp(truth[chosen] - truth.min()) - 1)
        errors.extend(abs(np.exp(mean - truth) - 1))
        inside.extend(abs(truth - mean)[~known] < 1.959964 * deviation[~known])
    return 100 * np.array([np.mean(np.array(regrets) <= 0.02), np.mean(regrets), np.median(errors), np.mean(inside)])


def tasks(prior, boards, tried):
    """Predictions of each task for the boards at the positions `tried`."""
    found = {"zero-shot": [], "one-shot": [], "fleet": []}
    for position in tried:
        board = boards[position]
        found["zero-shot"] += predict(prior, board, False)
        found["one-shot"] += predict(prior, board, True)
        others = boards[:position] + boards[position + 1 :]
        found["fleet"] += predict(learn(prior, others), board, False)
    return found


def show(name, scores):
    scores = np.atleast_2d(scores)
    cells = [f"{a:6.2f} ({b:5.2f}-{c:5.2f})" for a, b, c in zip(scores.mean(0), scores.min(0), scores.max(0))]
    print(f"{name:36}", *cells, flush=True)


def main(boards_path, models_path, divisions=5):
    names, traits, work = load_facts(models_path)
    boards, facts = load_boards(boards_path, names), Facts(traits, work)
    constants = facts.fit(boards, steps=60)
    print(np.round(np.exp(constants[:-2]).reshape(5, 4), 3), np.round(np.exp(constants[-2:]), 1))
    print("within 2 %, mean regret, median error, inside the interval: mean (least-largest) of the divisions")
    for task, found in tasks(facts.prior(constants), boards, range(len(boards))).items():
        show(f"all boards, {task}", score(found))
    scores = defaultdict(list)
    for division in range(divisions):
        random = np.random.default_rng(100 + division)
        order, networks = random.permutation(len(boards)), random.permutation(len(names))
        found = defaultdict(list)
        for fold in range(4):
            tried = order[fold::4]
            kept = [board for position, board in enumerate(boards) if position not in tried]
            for task, predictions in tasks(facts.prior(facts.fit(kept, steps=30)), boards, tried).items():
                found[f"other boards, {task}"] += predictions
            for part in range(3):
                apart = set(networks[part::3])
                prior = facts.prior(facts.fit(kept, set(networks) - apart, steps=20))
                for position in tried:
                    for granted, task in ((False, "zero-shot"), (True, "one-shot")):
                        predictions = predict(prior, boards[position], granted)
                        of_task = found[f"other boards and networks, {task}"]
                        of_task += [it for it in predictions if it[0] in apart]
        for name, predictions in found.items():
            scores[name].append(score(predictions))
    for name, of_name in scores.items():
        show(name, of_name)


if __name__ == "__main__":
    main(*sys.argv[1:])
