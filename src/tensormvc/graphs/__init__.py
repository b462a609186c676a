"""Graphs over the samples, and graphs from samples to anchors."""

from ._anchors import anchor_graph, bkhk, two_means
from ._distances import refuse_missing
from ._gmc import GMCGraph, GMCResult, gmc, probabilistic_graph
from ._ideal import ideal_graph
from ._knn import SampleGraph, SimGraph, SumGraph, knn_graph
from ._laplacian import (
    check_sample_graph,
    inverse_root_degrees,
    lowest_eigenpairs,
    normalised_adjacency,
    permuted_graph,
)

__all__ = [
    "GMCGraph",
    "GMCResult",
    "SampleGraph",
    "SimGraph",
    "SumGraph",
    "anchor_graph",
    "bkhk",
    "check_sample_graph",
    "gmc",
    "ideal_graph",
    "inverse_root_degrees",
    "knn_graph",
    "lowest_eigenpairs",
    "normalised_adjacency",
    "permuted_graph",
    "probabilistic_graph",
    "refuse_missing",
    "two_means",
]
