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
