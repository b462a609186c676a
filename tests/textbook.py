"""The mathematics as literal loops, slow and plain: what random data are compared with.

Tensors are sample-first, (n, d, m). Nothing here shares code with the package.
"""

import numpy as np


def dft_matrix(n):
    return np.array([[np.exp(-2j * np.pi * j * k / n) for k in range(n)] for j in range(n)])


def dct_matrix(n):
    matrix = np.empty((n, n))
    for k in range(n):
        scale = np.sqrt((1 if k == 0 else 2) / n)
        for t in range(n):
            matrix[k, t] = scale * np.cos(np.pi * k * (2 * t + 1) / (2 * n))
    return matrix


def haar_vector(x):
    """The Haar transform of one vector, by recursion."""
    x = list(x)
    if len(x) == 1:
        return x
    sums, differences = [], []
    for i in range(len(x) // 2):
        sums.append((x[2 * i] + x[2 * i + 1]) / np.sqrt(2))
        differences.append((x[2 * i] - x[2 * i + 1]) / np.sqrt(2))
    if len(x) % 2:
        sums.append(x[-1])
    return haar_vector(sums) + differences


def haar_matrix(n):
    return np.array([haar_vector(column) for column in np.eye(n)]).T


def along_samples(matrix, tensor):
    """matrix times every tube tensor[:, i, j]."""
    out = np.empty((matrix.shape[0], *tensor.shape[1:]), dtype=np.result_type(matrix, tensor))
    for i in range(tensor.shape[1]):
        for j in range(tensor.shape[2]):
            out[:, i, j] = matrix @ tensor[:, i, j]
    return out


def along_views(matrix, tensor):
    """Slices (m, n, d) of the transform of every tensor[i, j, :]."""
    out = np.empty((matrix.shape[0], *tensor.shape[:2]), dtype=np.result_type(matrix, tensor))
    for i in range(tensor.shape[0]):
        for j in range(tensor.shape[1]):
            out[:, i, j] = matrix @ tensor[i, j, :]
    return out


def shrink_matrix(matrix, prox):
    """SVD, proximal map on each singular value, matrix again."""
    left, s, right = np.linalg.svd(matrix, full_matrices=False)
    return left @ np.diag([prox(value) for value in s]) @ right


def shrink_tensor(tensor, matrix, prox):
    """Algorithms 1 and 2 of the paper over all n slices of an invertible transform."""
    slices = along_samples(matrix, tensor)
    shrunk = np.array([shrink_matrix(slices[k], prox) for k in range(len(slices))])
    return along_samples(np.linalg.inv(matrix), shrunk).real


def prox_by_search(value, s, threshold):
    """The minimiser over x >= 0 of (x - s)²/2 + threshold·value(x): a grid, then finer grids around the best."""
    low, high = 0.0, s
    best = 0.0
    for _ in range(12):
        grid = np.concatenate([[best], np.linspace(low, high, 2001)])
        objective = (grid - s) ** 2 / 2 + threshold * np.array([value(x) for x in grid])
        best = grid[np.argmin(objective)]
        width = (high - low) / 2000
        low, high = max(0.0, best - 2 * width), min(s, best + 2 * width)
    return best


def penalty_values():
    """ψ of the table, at the default parameters, as scalar functions."""

    def mcp(x, gamma=2.0):
        return x - x * x / (2 * gamma) if x <= gamma else gamma / 2

    def scad(x, gamma=3.7):
        if x <= 1:
            return x
        if x <= gamma:
            return (-x * x + 2 * gamma * x - 1) / (2 * (gamma - 1))
        return (gamma + 1) / 2

    return {
        "nuclear": lambda x: x,
        "log": lambda x: np.log(1 + x),
        "etr": lambda x: np.exp(0.01**2) * x / (0.01 + x),
        "laplace": lambda x: 1 - np.exp(-x / 0.1),
        "geman": lambda x: x / (x + 0.1),
        "etp": lambda x: (1 - np.exp(-x)) / (1 - np.exp(-1)),
        "schatten-p": lambda x: x**0.5,
        "mcp": mcp,
        "scad": scad,
        "gamma-norm": lambda x: 1.1 * x / (0.1 + x),
    }


def unit_rows(matrix):
    out = np.array(matrix, dtype=float)
    for i in range(len(out)):
        length = np.sqrt(np.sum(out[i] ** 2))
        if length > 0:
            out[i] = out[i] / length
    return out


def squared_distances(a, b):
    return np.array([[np.sum((x - y) ** 2) for y in b] for x in a])


def knn_graph(points, k):
    """Link i and j if one is among the k nearest of the other; all that tie with the k-th, to 2e-6 of it, are."""
    n = len(points)
    distances = squared_distances(points, points)
    graph = np.zeros((n, n))
    for i in range(n):
        others = [j for j in range(n) if j != i]
        kth = sorted(distances[i, j] for j in others)[k - 1]
        for j in others:
            if distances[i, j] <= (1 + 2e-6) * kth + 1e-9:
                graph[i, j] = graph[j, i] = 1
    return graph


def probabilistic_neighbours(points, k):
    """Row i: (d_{i,k+1} − d_ij) / (k d_{i,k+1} − Σ d_ih + ε) for the k nearest others of i."""
    n = len(points)
    distances = squared_distances(points, points)
    weights = np.zeros((n, n))
    order = []
    for i in range(n):
        near = sorted((j for j in range(n) if j != i), key=lambda j: distances[i, j])[: k + 1]
        edge = distances[i, near[k]]
        total = k * edge - sum(distances[i, j] for j in near[:k])
        for j in near[:k]:
            weights[i, j] = (edge - distances[i, j]) / (total + np.finfo(float).eps)
        order.append(near)
    return weights, order, distances


def project_to_simplex(v):
    u = np.sort(v)[::-1]
    for count in range(len(v), 0, -1):
        level = (np.sum(u[:count]) - 1) / count
        if u[count - 1] > level:
            return np.maximum(v - level, 0)
    raise AssertionError


def laplacian_eigen(affinity):
    graph = (affinity + affinity.T) / 2
    return np.linalg.eigh(np.diag(graph.sum(axis=1)) - graph)


def gmc(views, c, k=15, rounds=20):
    """GMC, every matrix n × n; returns U and the number of rounds."""
    eps = np.finfo(float).eps
    n, m = len(views[0]), len(views)
    starts = [probabilistic_neighbours(view, k) for view in views]
    s = [start[0] for start in starts]
    u = sum(s) / m
    u = u / u.sum(axis=1, keepdims=True)
    weights = [1 / m] * m
    _, vectors = laplacian_eigen(u)
    f = vectors[:, :c]
    lam = 1.0
    t = 0
    while t < rounds:
        t += 1
        for v in range(m):
            _, order, distances = starts[v]
            s[v] = np.zeros((n, n))
            for i in range(n):
                near, last = order[i][:k], order[i][k]
                total = k * distances[i, last] - sum(distances[i, j] for j in near)
                total += 2 * weights[v] * (sum(u[i, j] for j in near) - k * u[i, last]) + eps
                for j in near:
                    top = distances[i, last] - distances[i, j] + 2 * weights[v] * (u[i, j] - u[i, last])
                    s[v][i, j] = max(0.0, top / total)
        weights = [1 / (2 * np.linalg.norm(u - s[v])) for v in range(m)]
        new = np.zeros((n, n))
        for i in range(n):
            support = [j for j in range(n) if any(s[v][i, j] > 0 for v in range(m))]
            gaps = np.array([np.sum((f[i] - f[j]) ** 2) for j in support])
            target = sum(s[v][i, support] - lam / (2 * m * weights[v]) * gaps for v in range(m)) / m
            new[i, support] = project_to_simplex(target)
        u = new
        values, vectors = laplacian_eigen(u)
        if values[:c].sum() > 1e-10:
            lam *= 2
            f = vectors[:, :c]
        elif values[: c + 1].sum() < 1e-10:
            lam /= 2
        else:
            break
    return u, t


def two_means(points, balanced):
    """One split: who goes to side 1, and the centres that the last assignment was made with."""
    n = len(points)
    centres = [np.mean(points, axis=0), np.zeros(points.shape[1])]
    for _ in range(10):
        used = centres
        q = [np.sum((x - used[0]) ** 2) - np.sum((x - used[1]) ** 2) for x in points]
        ranked = sorted(range(n), key=lambda i: q[i])
        count = n // 2 if balanced else min(max(sum(value < 0 for value in q), 1), n - 1)
        first, second = ranked[:count], ranked[count:]
        centres = [np.mean(points[first], axis=0), np.mean(points[second], axis=0)]
    return first, second, used


def bkhk(points, depth):
    first, second, centres = two_means(points, balanced=depth > 1)
    if depth == 1:
        return list(centres)
    return bkhk(points[first], depth - 1) + bkhk(points[second], depth - 1)


def anchor_graph(points, anchors, k):
    distances = squared_distances(points, anchors)
    graph = np.zeros(distances.shape)
    for i in range(len(points)):
        order = np.argsort(distances[i])
        edge = distances[i, order[k]]
        total = k * edge - sum(distances[i, order[h]] for h in range(k)) + np.finfo(float).eps
        for h in range(k):
            graph[i, order[h]] = (edge - distances[i, order[h]]) / total
    return graph


def anchor_basis(graph):
    """U of D^{-1/2} S Δ^{-1/2} by a plain SVD, zero singular values dropped."""
    normalised = np.diag(graph.sum(axis=1) ** -0.5) @ graph @ np.diag(graph.sum(axis=0) ** -0.5)
    left, s, _ = np.linalg.svd(normalised, full_matrices=False)
    return left[:, s > 1e-5], s[s > 1e-5]


def shrink_columns(matrices, threshold):
    """Scale every column, stacked over the matrices, by max(0, 1 − τ/length)."""
    out = [np.array(matrix) for matrix in matrices]
    for j in range(out[0].shape[1]):
        length = np.sqrt(sum(np.sum(matrix[:, j] ** 2) for matrix in matrices))
        scale = max(0.0, 1 - threshold / length) if length > 0 else 0.0
        for matrix in out:
            matrix[:, j] = scale * matrix[:, j]
    return out


def shrink_with(tensor, forward, inverse, prox):
    """Algorithm 2 under any real, orthonormal transform."""
    slices = forward(tensor)
    return inverse(np.array([shrink_matrix(s, prox) for s in slices]))


def self_representation(views, shrink, lam, rounds, mu, rho, stacked):
    """t-SVD-MVC (stacked errors, ρ by itself) or TLSpNM (ρ = None), in the d × n convention; returns Z and G."""
    x = [view.T for view in views]
    m, n = len(x), x[0].shape[1]
    z = [np.zeros((n, n)) for _ in x]
    g, w = [np.zeros((n, n)) for _ in x], [np.zeros((n, n)) for _ in x]
    e, y = [np.zeros(a.shape) for a in x], [np.zeros(a.shape) for a in x]
    for _ in range(rounds):
        r = mu if rho is None else rho
        for v in range(m):
            k = x[v].T @ x[v]
            right = (x[v].T @ (y[v] - mu * e[v]) + mu * k - w[v]) / r + g[v]
            z[v] = np.linalg.solve(np.eye(n) + mu / r * k, right)
        residuals = [x[v] - x[v] @ z[v] for v in range(m)]
        targets = [residuals[v] + y[v] / mu for v in range(m)]
        if stacked:
            e = shrink_columns(targets, lam / mu)
        else:
            e = [shrink_columns([target], lam / mu)[0] for target in targets]
        for v in range(m):
            y[v] = y[v] + mu * (residuals[v] - e[v])
        tensor = np.stack([z[v] + w[v] / r for v in range(m)], axis=2)
        low = shrink(tensor, 1 / r)
        g = [low[:, :, v] for v in range(m)]
        for v in range(m):
            w[v] = w[v] + r * (z[v] - g[v])
        mu, rho = 2 * mu, None if rho is None else 2 * rho
    return np.stack(z, axis=2), np.stack(g, axis=2)


def anchor_representation(views, anchors, shrink, alpha, gamma, rounds, mu, rho):
    """ASR-ETR with the identity for a Laplacian (ESTMC: γ = 0), samples in rows; returns Z, J and A."""
    m, n, latent = len(views), len(views[0]), len(anchors[0])
    a = [np.array(anchor) for anchor in anchors]
    z, j, w = ([np.zeros((n, latent)) for _ in views] for _ in range(3))
    e, y = [np.zeros(x.shape) for x in views], [np.zeros(x.shape) for x in views]
    for _ in range(rounds):
        for v in range(m):
            z[v] = ((y[v] + mu * (views[v] - e[v])) @ a[v].T + rho * j[v] - w[v]) / (2 * gamma + mu + rho)
        residuals = [views[v] - z[v] @ a[v] for v in range(m)]
        e = [part.T for part in shrink_columns([(residuals[v] + y[v] / mu).T for v in range(m)], alpha / mu)]
        for v in range(m):
            y[v] = y[v] + mu * (residuals[v] - e[v])
        low = shrink(np.stack([z[v] + w[v] / rho for v in range(m)], axis=2), 1 / rho)
        j = [low[:, :, v] for v in range(m)]
        for v in range(m):
            w[v] = w[v] + rho * (z[v] - j[v])
            left, _, right = np.linalg.svd(z[v].T @ (y[v] + mu * (views[v] - e[v])), full_matrices=False)
            a[v] = left @ right
        mu, rho = 2 * mu, 2 * rho
    return np.stack(z, axis=2), np.stack(j, axis=2), a


def kernel_features(points, anchors):
    distances = squared_distances(points, anchors)
    sigma = 2 * np.mean([np.sqrt(min(row)) for row in distances])
    kernel = np.array([[np.exp(-value / (2 * sigma**2)) for value in row] for row in distances])
    return kernel - np.mean(kernel, axis=0), sigma


def low_frequency_round(state, features, f, matrix, lam, gamma, beta1, beta2, beta3):
    """One round of TLRLF4MVC: every projection an n × n matrix; returns the new state and the four residuals."""
    b, b_hat, c, y, q1, q2, q3 = state
    n, d, m = b.shape
    new = np.empty_like(b)
    for v in range(m):
        p = features[v]
        ridge = p @ np.linalg.inv(p.T @ p + lam * np.eye(p.shape[1])) @ p.T
        for i in range(n):
            for j in range(d):
                pulls = beta1 * b_hat[i, j] - q1[i, j, v] + beta2 * c[i, j, v] - q2[i, j, v]
                pulls += beta3 * y[i, j, v] - q3[i, j, v]
                new[i, j, v] = (pulls + ridge[i] @ b[:, j, v]) / (beta1 + beta2 + beta3 + 1)
    b_hat = sum(new[:, :, v] + q1[:, :, v] / beta1 for v in range(m)) / m
    c = shrink_tensor(new + q2 / beta2, matrix, lambda s: max(0.0, s - gamma / beta2))
    y = np.stack([f @ f.T @ (new[:, :, v] + q3[:, :, v] / beta3) for v in range(m)], axis=2)
    q1 = np.stack([q1[:, :, v] + 1.5 * beta1 * (new[:, :, v] - b_hat) for v in range(m)], axis=2)
    q2 = q2 + 1.5 * beta2 * (new - c)
    q3 = q3 + 1.5 * beta3 * (new - y)
    residuals = {
        "consensus": max(np.linalg.norm(new[:, :, v] - b_hat) for v in range(m)),
        "low_rank": max(np.linalg.norm(new[:, :, v] - c[:, :, v]) for v in range(m)),
        "low_frequency": max(np.linalg.norm(new[:, :, v] - y[:, :, v]) for v in range(m)),
        "change": max(np.linalg.norm(new[:, :, v] - b[:, :, v]) for v in range(m)),
    }
    return (new, b_hat, c, y, q1, q2, q3), residuals


def low_frequency_labels(b_hat, labels, n_clusters):
    """The label loop of TLRLF4MVC from labels 0, 1, …"""

    def standardise(columns):
        out = np.ones_like(columns)
        for j in range(columns.shape[1]):
            mean = sum(columns[:, j]) / len(columns)
            variance = sum((value - mean) ** 2 for value in columns[:, j]) / (len(columns) - 1)
            if variance > 0:
                out[:, j] = (columns[:, j] - mean) / np.sqrt(variance)
        return out

    for _ in range(10):
        g = np.array([[float(label == j) for j in range(n_clusters)] for label in labels])
        d = standardise(b_hat.T @ g)
        for _ in range(3):
            d = standardise(d + 100 * b_hat.T @ g)
        labels = [int(np.argmax(row)) for row in b_hat @ d]
    return np.array(labels)


def circular_total_variation(tensor):
    """Sum over samples of the distance to the next, the first coming after the last."""
    n, d, m = tensor.shape
    total = 0.0
    for t in range(n):
        square = 0.0
        for i in range(d):
            for j in range(m):
                square += (tensor[(t + 1) % n, i, j] - tensor[t, i, j]) ** 2
        total += np.sqrt(square)
    return total


def slice_energies(tensor, matrix):
    slices = along_samples(matrix, tensor)
    return np.array([sum(abs(entry) ** 2 for entry in piece.ravel()) for piece in slices])


def instability(partitions):
    """Mean Jaccard distance, over pairs of partitions, of the two clusters of each sample, as sets."""
    n = len(partitions[0])
    total, pairs = np.zeros(n), 0
    for a in range(len(partitions)):
        for b in range(a):
            pairs += 1
            for i in range(n):
                one = {j for j in range(n) if partitions[a][j] == partitions[a][i]}
                other = {j for j in range(n) if partitions[b][j] == partitions[b][i]}
                total[i] += 1 - len(one & other) / len(one | other)
    return total / pairs
