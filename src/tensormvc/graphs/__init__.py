"""Graphs over the samples, and anchors."""

from ._anchors import anchor_graph, bkhk, two_means
from ._gmc import GMCGraph, GMCResult, gmc, probabilistic_graph
from ._ideal import ideal_graph
from ._knn import SampleGraph, SimGraph, SumGraph, knn_graph
from ._laplacian import check_sample_graph, normalised_adjacency

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
    "knn_graph",
    "normalised_adjacency",
    "probabilistic_graph",
    "two_means",
]
