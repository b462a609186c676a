"""The ideal graph, made of known classes: an upper bound for comparison."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..backend.checks import check_memory


def ideal_graph(y: Any) -> sp.csr_array:
    """Return the graph that links all samples of a class: an oracle, for comparison only.

    W_ij = 1 if y_i = y_j, otherwise 0. A method uses it only if it is passed explicitly, as ``fit(views,
    sample_graph=ideal_graph(y))``; the result then depends on the labels, and shows how much a better graph could gain.

    Parameters
    ----------
    y : array of shape (n_samples,)
        Labels of any type.

    Returns
    -------
    csr_array of shape (n_samples, n_samples)
        W, with Σ_c n_c² entries for classes of n_c samples.

    Examples
    --------
    >>> import tensormvc as tm
    >>> tm.ideal_graph(["a", "b", "a"]).toarray()
    array([[1., 0., 1.],
           [0., 1., 0.],
           [1., 0., 1.]])
    """
    labels = np.asarray(y)
    if labels.ndim != 1 or labels.size == 0:
        raise ValueError(f"y has shape {labels.shape}: pass a one-dimensional array with one label per sample")
    _, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    pairs = int(np.sum(counts.astype(np.int64) ** 2))
    check_memory(12 * pairs, f"the ideal graph of {len(labels)} samples", "use fewer samples")
    membership = sp.csr_array((np.ones(len(labels)), (np.arange(len(labels)), codes)))
    return sp.csr_array(membership @ membership.T)
