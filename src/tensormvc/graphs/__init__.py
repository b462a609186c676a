"""Graphs over the samples, and graphs from samples to anchors."""

from ._anchors import anchor_graph, bkhk
from ._bkhk_rows import bkhk_of_rows
from ._gmc import GMCGraph, gmc
from ._ideal import ideal_graph
from ._knn import SampleGraph, SimGraph, SumGraph, knn_graph
from ._laplacian import check_sample_graph, inverse_root_degrees, normalised_adjacency, permuted_graph

__all__ = ["GMCGraph", "SampleGraph", "SimGraph", "SumGraph", "anchor_graph", "bkhk", "bkhk_of_rows"]
__all__ += ["check_sample_graph", "gmc", "ideal_graph", "inverse_root_degrees", "knn_graph", "normalised_adjacency"]
__all__ += ["permuted_graph"]
