"""The heads that use a graph or a subspace, written out in NumPy."""

import numpy as np

from tests.methods.heads_reference import (
    equal_sinkhorn,
    information_loss,
    one_hot,
    separately_centred,
    sinkhorn,
    softmax,
    unit,
    weighted_means,
)
from tests.methods.reference import distance, prototypes


def normalised(W):
    degrees = W.sum(1)
    return W / np.sqrt(np.outer(degrees, degrees))


def full_graph(points):
    distances = np.array([[distance(one, other) for other in points] for one in points]) / np.sqrt(points.shape[1])
    W = np.exp(-distances / distances.std(ddof=1))
    np.fill_diagonal(W, 0)
    return normalised(W)


def epnet(support, labels, query, way):
    points, identity = np.concatenate([support, query]), np.eye(len(support) + len(query))
    smooth = np.linalg.inv(identity - 0.5 * full_graph(points)) @ points
    P = np.linalg.inv(identity - 0.2 * full_graph(smooth))
    P /= P.sum(1, keepdims=True)
    return np.log(P[len(support) :, : len(support)] @ one_hot(labels, way))


def ilpc(support, labels, query, way, k=4, rounds=2):
    points = unit(np.concatenate([support, query]))
    n, m = len(support), len(query)
    A = np.maximum(points @ points.T, 0) ** 3
    np.fill_diagonal(A, 0)
    kept = np.zeros_like(A, bool)
    for row, order in zip(kept, (-A).argsort(1), strict=True):
        row[order[:k]] = True
    W = np.where(kept | kept.T, A, 0)
    propagator = np.linalg.inv(np.eye(n + m) - 0.8 * normalised(W))
    known, scores = {i: int(label) for i, label in enumerate(labels)}, np.zeros((m, way))
    for round_ in range(rounds + 1):
        Y = np.zeros((n + m, way))
        for i, label in known.items():
            Y[i, label] = 1
        waiting = [i for i in range(n, n + m) if i not in known]
        left = np.maximum(m / way - Y[n:].sum(0), 0)
        Z = (propagator @ Y)[waiting] ** 3
        P = sinkhorn(Z, left * len(waiting) / left.sum(), np.ones(len(waiting))) if waiting else np.zeros((0, way))
        for i, row in zip(waiting, P, strict=True):
            scores[i - n] = np.log(np.maximum(row, 1e-150))
        if round_ == rounds or not waiting:
            return scores
        targets = Y.copy()
        targets[waiting] = one_hot(P.argmax(1), way)
        w, losses = np.zeros((way, points.shape[1])), np.zeros(n + m)
        for _ in range(50):
            p = np.array([softmax(row) for row in points @ w.T])
            losses -= np.log((p * targets).sum(1))
            w = w - 2 * (p - targets).T @ points / (n + m)
        for label in range(way):
            own = [i for i in waiting if targets[i, label]]
            for i in sorted(own, key=lambda i: losses[i])[: -(-m // (way * rounds))]:
                known[i] = label
    raise AssertionError


def main_directions(points, dimensions):
    values, vectors = np.linalg.eigh(np.cov(points.T))
    return points @ vectors[:, values.argsort()[::-1][:dimensions]]


def tafssl(support, labels, query, way):
    points = main_directions(np.concatenate(separately_centred(support, query)), 5)
    support, query, centres = points[: len(support)], points[len(support) :], None
    centres = prototypes(support, labels, way)
    for _ in range(4):
        p = np.array([softmax(10 * row) for row in unit(query) @ unit(centres).T])
        moved = []
        for k in range(way):
            own = [i for i in range(len(query)) if p[i].argmax() == k]
            surest = sorted(own, key=lambda i, k=k: -p[i, k])[: int(np.ceil(0.5 * len(own)))]
            moved.append(np.concatenate([support[labels == k], query[surest]]).mean(0))
        centres = np.array(moved)
    return 10 * unit(query) @ unit(centres).T


def proto_lp(support, labels, query, way):
    points = main_directions(np.concatenate(separately_centred(support, query)), 6)
    n, Y = len(support), one_hot(labels, way)
    centres = prototypes(points[:n], labels, way)

    def spread():
        near = np.exp([[-10 * distance(one, centre) for centre in centres] for one in points[n:]])
        Z = np.concatenate([Y, equal_sinkhorn(near)])
        W = Z @ np.diag(1 / Z.sum(0)) @ Z.T
        laplacian = Z.T @ (np.eye(len(Z)) - W) @ Z
        A = np.linalg.inv(Z[:n].T @ Z[:n] + laplacian) @ Z[:n].T @ Y
        return equal_sinkhorn(Z[n:] @ A)

    for _ in range(10):
        centres = centres + 0.2 * (weighted_means(points, np.concatenate([Y, spread()])) - centres)
    return np.log(spread())


def propagated_prototypes(support, labels, query, way, k=4):
    points = unit(np.concatenate([support, query]))
    points = unit(points - points.mean(0))
    n, m, Y = len(support), len(query), one_hot(labels, way)
    distances = np.array([[distance(one, other) for other in points] for one in points])
    local = np.sort(distances, axis=1)[:, k]  # the first is the point itself
    W = np.exp(-distances / np.sqrt(np.outer(local, local)))
    np.fill_diagonal(W, 0)
    kept = np.zeros_like(W, bool)
    np.put_along_axis(kept, (-W).argsort(1)[:, :k], True, axis=1)
    propagator = np.linalg.inv(np.eye(n + m) - 0.6 * normalised(np.where(kept | kept.T, W, 0)))
    means = prototypes(points[:n], labels, way)

    def spread():
        prior = np.array([softmax([-15 * distance(one, mean) for mean in means]) for one in points[n:]])
        labels_of = (propagator @ np.concatenate([Y, prior]))[n:]
        labels_of /= labels_of.sum(1, keepdims=True)
        proportions = (labels_of.sum(0) + 5) / (m + 5 * way)
        labels_of = labels_of * proportions**0.3
        return labels_of / labels_of.sum(1, keepdims=True)

    for _ in range(5):
        means = means + 0.3 * (weighted_means(points, np.concatenate([1.5 * Y, spread()])) - means)
    return np.log(spread())


def transductive_fine_tuning(support, labels, query, way):
    """The two losses share Adam's moments, so it is written out here."""
    w = unit(prototypes(support, labels, way))
    mean, square, entries = np.zeros_like(w), np.zeros((way, 1)), w.shape[1]

    def on_support(w):
        return -np.mean([np.log(softmax(10 * w @ x)[label]) for x, label in zip(support, labels, strict=True)])

    def on_query(w):
        return np.mean([-np.sum(p * np.log(p)) for p in (softmax(10 * w @ x) for x in query)])

    for step, loss in enumerate((on_support, on_query) * 3, 1):
        slope = np.zeros_like(w)
        for place in np.ndindex(w.shape):
            shift = np.zeros_like(w)
            shift[place] = 1e-6
            slope[place] = (loss(w + shift) - loss(w - shift)) / 2e-6
        mean, square = 0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * (slope**2).sum(1, keepdims=True) / entries
        w = w - 1e-2 * mean / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
    return 10 * query @ w.T


def adaptive_manifold(support, labels, query, way, k=5):
    """One value of all parameters at a time: prototypes, exponents and weights as rows of their own Adam."""
    points, n = np.concatenate([support, query]), len(support)
    nodes, features = way + len(points), points.shape[1]

    def neighbours(centres):
        everything = np.concatenate([centres, points])
        distances = ((everything[:, None] - everything) ** 2).mean(-1)
        kept = np.zeros((nodes, nodes), bool)
        np.put_along_axis(kept, distances.argsort(1)[:, : k + 1], True, axis=1)
        return distances, (kept | kept.T) & ~np.eye(nodes, dtype=bool)

    def mean_near(centres):
        distances, kept = neighbours(centres)
        return distances[kept].mean()

    def logits(centres, exponents, weights, scale):
        distances, kept = neighbours(centres)
        exponents, weights = (exponents + exponents.T) / 2, (weights + weights.T) / 2
        W = np.where(kept, weights * np.exp(-exponents * distances / scale), 0)
        spread = np.linalg.solve(np.eye(nodes) - 0.8 * normalised(W), np.eye(nodes)[:, :way])[way:]
        return 15 * spread / spread.sum(1, keepdims=True)

    parameters = [prototypes(support, labels, way), np.ones((nodes, nodes)), np.ones((nodes, nodes))]
    moments = [[np.zeros_like(one), 0.0] for one in parameters]
    for step in (1,):  # gradients by differences take long
        scale = mean_near(parameters[0])  # no gradient flows through it
        slopes = []
        for number, values in enumerate(parameters):
            slope = np.zeros_like(values)
            for place in np.ndindex(values.shape):
                losses = []
                for sign in (1, -1):
                    moved = [one.copy() for one in parameters]
                    moved[number][place] += sign * 1e-6
                    losses.append(information_loss(logits(*moved, scale), labels, (1, 1, 1), 7))
                slope[place] = (losses[0] - losses[1]) / 2e-6
            slopes.append(slope)
        for number, slope in enumerate(slopes):
            mean, square = moments[number]
            squares = (slope**2).sum(1, keepdims=True) / features if number == 0 else slope**2
            moments[number] = [0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * squares]
            mean, square = moments[number]
            update = mean / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
            parameters[number] = parameters[number] - 1e-2 * update
    return logits(*parameters, mean_near(parameters[0]))[n:]
