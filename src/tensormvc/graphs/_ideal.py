"""The oracle: a graph that knows the answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..backend.checks import check_memory


def ideal_graph(y: Any) -> sp.csr_array:
    """Return the graph that links the samples with equal labels: an oracle, for reference only.

    It reaches a method only where it is passed on purpose, as ``fit(views, sample_graph=ideal_graph(y))``; what
    comes out has seen the labels.

    Parameters
    ----------
    y : array of shape (n_samples,)
        Labels of any type.

    Returns
    -------
    csr_array of shape (n_samples, n_samples)
        1 where labels agree, on the diagonal too. It has one entry for each such pair.

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
        raise ValueError(f"labels have shape {labels.shape}; expected one label a sample")
    _, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    pairs = int(np.sum(counts.astype(np.int64) ** 2))
    check_memory(12 * pairs, f"the ideal graph of {len(labels)} samples", "use fewer samples")
    membership = sp.csr_array((np.ones(len(labels)), (np.arange(len(labels)), codes)))
    return sp.csr_array(membership @ membership.T)
