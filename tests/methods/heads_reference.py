"""The heads written out in NumPy, an episode and a query at a time, as a reader of the papers would."""

import numpy as np

from tests.methods.reference import distance, prototypes


def softmax(row):
    powers = np.exp(np.asarray(row) - np.max(row))
    return powers / powers.sum()


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def soft_labels(points, centres, factor):
    return np.array([softmax([-factor * distance(point, centre) for centre in centres]) for point in points])


def one_hot(labels, way):
    return np.eye(way)[labels]


def weighted_means(points, weights):
    return np.array([sum(w * x for w, x in zip(column, points, strict=True)) / column.sum() for column in weights.T])


def sinkhorn(weights, columns, rows, iterations=30):
    weights = weights.copy()
    for _ in range(iterations):
        sums = weights.sum(1)
        weights[sums > 0] *= (rows[sums > 0] / sums[sums > 0])[:, None]
        weights *= columns / np.maximum(weights.sum(0), 1e-300)
    sums = weights.sum(1, keepdims=True)
    return np.divide(weights * rows[:, None], sums, out=np.zeros_like(weights), where=sums > 0)


def equal_sinkhorn(weights):
    return sinkhorn(weights, np.full(weights.shape[1], len(weights) / weights.shape[1]), np.ones(len(weights)))


def separately_centred(support, query):
    return unit(support - support.mean(0)), unit(query - query.mean(0))


def simple_shot(support, labels, query, way):
    centres = prototypes(support, labels, way)
    return np.array([[-distance(one, centre) for centre in centres] for one in query])


def bd_cspn(support, labels, query, way, rectified_only=False):
    query = query + support.mean(0) - query.mean(0)
    points, means = np.concatenate([support, query]), unit(prototypes(support, labels, way))
    cosines = unit(points) @ means.T
    members = np.concatenate([labels, cosines[len(support) :].argmax(1)])
    weights = np.array([softmax(10 * row) for row in cosines]) * one_hot(members, way)
    centres = weighted_means(points, weights)
    return (query, centres) if rectified_only else 10 * unit(query) @ unit(centres).T


def laplacian_shot(support, labels, query, way):
    query, centres = bd_cspn(support, labels, query, way, rectified_only=True)
    a = np.array([[distance(one, centre) for centre in centres] for one in query])
    distances = np.array([[distance(one, other) for other in query] for one in query])
    W = np.zeros_like(distances)
    for row, order in zip(W, distances.argsort(1), strict=True):
        row[order[:3]] = 1
    Y = np.array([softmax(row) for row in -a])
    for _ in range(20):
        logits = -a + 0.3 * W @ Y
        Y = np.array([softmax(row) for row in logits])
    return logits


def information_loss(logits, labels, weights, alpha):
    known, query = logits[: len(labels)], logits[len(labels) :]
    p = np.array([softmax(row) for row in query])

    def entropy(p):
        return -np.sum(p * np.log(p)) if alpha == 1 else (1 - np.sum(p**alpha)) / (alpha - 1)

    cross = -np.mean([np.log(softmax(row)[label]) for row, label in zip(known, labels, strict=True)])
    on_support, marginal, conditional = weights
    return on_support * cross - marginal * entropy(p.mean(0)) + conditional * np.mean([entropy(row) for row in p])


def descend(values, loss, steps, lr, entries):
    """Adam, with a second moment for each row, and gradients by finite differences."""
    mean, square = np.zeros_like(values), np.zeros((len(values), 1))
    for step in range(1, steps + 1):
        slope = np.zeros_like(values)
        for place in np.ndindex(values.shape):
            shift = np.zeros_like(values)
            shift[place] = 1e-6
            slope[place] = (loss(values + shift) - loss(values - shift)) / 2e-6
        mean, square = 0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * (slope**2).sum(1, keepdims=True) / entries
        values = values - lr * mean / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
    return values


def tim(support, labels, query, way, weights=(0.1, 1, 0.1), alpha=1):
    points = np.concatenate([support, query])

    def logits(w):
        return np.array([[-7.5 * distance(one, centre) for centre in w] for one in points])

    def loss(w):
        return information_loss(logits(w), labels, weights, alpha)

    w = descend(prototypes(support, labels, way), loss, steps=4, lr=1e-2, entries=points.shape[1])
    return logits(w)[len(support) :]


def alpha_tim(support, labels, query, way):
    return tim(support, labels, query, way, (1, 1, 1), alpha=3.25)  # between 2 at 1 shot and 7 at 5


def tim_adm(support, labels, query, way):
    w, Y = prototypes(support, labels, way), one_hot(labels, way)
    for _ in range(5):
        p_known, p = soft_labels(support, w, 7.5), soft_labels(query, w, 7.5)
        q = p**1.1 / np.sqrt((p**1.1).sum(0))
        q /= q.sum(1, keepdims=True)
        moved = np.zeros_like(w)
        for k in range(way):
            known = sum(Y[i, k] * x + p_known[i, k] * (w[k] - x) for i, x in enumerate(support))
            unknown = sum(q[i, k] * x + p[i, k] * (w[k] - x) for i, x in enumerate(query))
            share = len(support) / len(query)
            total = 0.1 / 1.1 * Y[:, k].sum() + share * q[:, k].sum()
            moved[k] = (0.1 / 1.1 * known + share * unknown) / total
        w = moved
    return np.array([[-7.5 * distance(one, centre) for centre in w] for one in query])


def pt_map(support, labels, query, way):
    support, query = separately_centred(support, query)
    points, Y, centres = np.concatenate([support, query]), one_hot(labels, way), prototypes(support, labels, way)

    def assigned():
        return equal_sinkhorn(np.exp([[-10 * distance(one, centre) for centre in centres] for one in query]))

    for _ in range(20):
        centres = centres + 0.2 * (weighted_means(points, np.concatenate([Y, assigned()])) - centres)
    return np.log(assigned())


def map_kmeans(support, labels, query, way):
    points = unit(np.concatenate([support, query]))
    points = unit(points - points.mean(0))
    support, query = points[: len(support)], points[len(support) :]
    means = prototypes(support, labels, way)
    for _ in range(30):
        p = soft_labels(query, means, 5)
        means = np.array(
            [
                (support[labels == k].sum(0) + p[:, k] @ query) / ((labels == k).sum() + p[:, k].sum())
                for k in range(way)
            ]
        )
    return np.array([[-5 * distance(one, mean) for mean in means] for one in query])


def paddle(support, labels, query, way):
    w, points, v = prototypes(support, labels, way), np.concatenate([support, query]), np.zeros(way)
    for _ in range(10):
        logits = np.array([[-7.5 * distance(one, centre) for centre in w] for one in query]) + v
        p = np.array([softmax(row) for row in logits])
        w, v = weighted_means(points, np.concatenate([one_hot(labels, way), p])), 1 + np.log(p.mean(0))
    return np.array([[-7.5 * distance(one, centre) for centre in w] for one in query]) + v
