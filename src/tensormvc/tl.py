"""Clustering of AnnData and MuData objects in place, following the conventions of scanpy's ``tl``."""

from collections.abc import Mapping, Sequence
from numbers import Number
from typing import Any

import numpy as np
import scipy.sparse as sp

from .auto import MultiViewClustering
from .datasets._errors import require
from .methods import SILENT_PARAMETERS

__all__ = ["cluster"]

Keys = str | Sequence[str] | Mapping[str, str] | None


def cluster(
    data: Any,
    n_clusters: int | str = "auto",
    *,
    use_rep: Keys = None,
    layer: Keys = None,
    key_added: str = "tensormvc",
    copy: bool = False,
    **parameters: Any,
) -> Any:
    """Cluster the cells of a MuData or AnnData object with `MultiViewClustering`, and write the results into it.

    The views are the modalities of a MuData object, or several ``obsm`` and ``layers`` of an AnnData object. A cell
    that is absent from a modality is missing in that view.

    The fused graph is stored in the same way as that of `scanpy.pp.neighbors`, so that scanpy's tools run on it, for
    AnnData and MuData alike: ``sc.tl.umap(data, neighbors_key="tensormvc")``, and likewise ``sc.tl.leiden``,
    ``sc.tl.paga`` and ``sc.tl.diffmap``. (Use scanpy's UMAP for MuData, too: muon's accepts only the graphs of
    `muon.pp.neighbors`.)

    Parameters
    ----------
    data : MuData or AnnData
        The cells.
    n_clusters : int or "auto", default="auto"
        Number of clusters; "auto" estimates it.
    use_rep : str, sequence or mapping of str, optional
        For MuData, a mapping from modalities to keys of their ``obsm``, such as ``{"rna": "X_pca"}``, or one key for
        all; the other modalities are represented by ``X``. For AnnData, the keys of ``obsm`` that are the views, as a
        sequence or as a mapping from names of views.
    layer : str, sequence or mapping of str, optional
        The same for keys of ``layers``. For AnnData, the views of `layer` are added to those of `use_rep`; without
        either, ``X`` is the only view.
    key_added : str, default="tensormvc"
        Name under which the results are stored; existing results of that name are replaced.
    copy : bool, default=False
        Whether to return a copy with the results instead of writing them into `data`.
    **parameters : dict
        Other parameters of `MultiViewClustering`, such as ``random_state=0``.

    Returns
    -------
    MuData, AnnData or None
        The copy if ``copy=True``, otherwise None. It, or `data`, gets the following fields:

        ``obs[key_added]``
            Cluster of each cell: a categorical of strings, numbered by size from "0".
        ``obs[key_added + "_confidence"]``
            Confidence of each cell's label, between 0 and 1.
        ``obsm["X_" + key_added]``
            Embedding of the cells.
        ``obsp[key_added + "_connectivities"]``
            Fused neighbour graph of the views: symmetric, with weights in (0, 1].
        ``obsp[key_added + "_distances"]``
            The reciprocals of these weights, so that cells with the strongest link are at distance 1.
        ``uns[key_added]``
            The keys of the two matrices ("connectivities_key", "distances_key"); the parameters of the clustering and
            those that scanpy looks for ("params"), where "n_neighbors" is the median number of neighbours in the graph;
            and the report as text ("report").

    See Also
    --------
    MultiViewClustering : The estimator; its `fit` accepts the same objects.

    Examples
    --------
    >>> import anndata
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(200)
    >>> adata = anndata.AnnData(obsm={"pixels": views[0], "shape": views[1]}, shape=(200, 0))
    >>> tm.tl.cluster(adata, n_clusters=10, use_rep=["pixels", "shape"], random_state=0)
    >>> adata.obs["tensormvc"].nunique(), adata.uns["tensormvc"]["connectivities_key"]
    (10, 'tensormvc_connectivities')
    """
    anndata = require("anndata", "tensormvc.tl.cluster", "mudata")
    from pandas import Index

    data = data.copy() if copy else data
    model = MultiViewClustering(n_clusters=n_clusters, **parameters)
    if isinstance(data, anndata.AnnData):
        rows: Any = slice(None)
        model.fit(_views_of_anndata(data, use_rep, layer))
    elif hasattr(data, "mod") and hasattr(data, "obs_names"):  # DataFrames have an operator mod
        model.fit(_views_of_mudata(data, use_rep, layer))
        rows = Index(model.sample_ids_).get_indexer(data.obs_names)
    else:
        raise TypeError(
            f"data is a {type(data).__name__}: expected a MuData or AnnData object; "
            "cluster arrays and tables with MultiViewClustering"
        )
    _write(data, model, rows, key_added)
    return data if copy else None


def _views_of_anndata(data: Any, use_rep: Keys, layer: Keys) -> dict[str, Any]:
    """Return the views that the keys name, or ``X`` alone."""
    views: dict[str, Any] = {}
    for argument, keys in (("use_rep", use_rep), ("layer", layer)):
        if isinstance(keys, str):
            keys = [keys]
        by_name = keys if isinstance(keys, Mapping) else {key: key for key in keys or ()}
        if repeated := [name for name in by_name if name in views]:
            raise ValueError(f"use_rep and layer both have a view {repeated[0]!r}: name the views with a mapping")
        views |= {name: _matrix(data, "the AnnData object", argument, key) for name, key in by_name.items()}
    return views or {"X": _matrix(data, "the AnnData object")}


def _views_of_mudata(data: Any, use_rep: Keys, layer: Keys) -> dict[str, Any]:
    """Return the representation of each modality, with the names of its cells."""
    from anndata import AnnData
    from pandas import DataFrame

    if not data.obs_names.is_unique:
        repeated = data.obs_names[data.obs_names.duplicated()][0]
        raise ValueError(f"several cells are named {repeated!r}: call obs_names_make_unique() on the MuData object")
    if set(data.obs_names) != {cell for modality in data.mod.values() for cell in modality.obs_names}:
        raise ValueError("the cells of the MuData object are not those of its modalities: call update() on it")
    sources: dict[str, tuple[str, str]] = {}
    for argument, keys in (("use_rep", use_rep), ("layer", layer)):
        if isinstance(keys, str):
            keys = dict.fromkeys(data.mod, keys)
        if not isinstance(keys, Mapping | None):
            raise TypeError(f"{argument}={keys!r}: expected a mapping from modalities to keys, or one key for all")
        for name, key in (keys or {}).items():
            if name not in data.mod:
                raise ValueError(f"{argument} names a modality {name!r}: there are {', '.join(map(repr, data.mod))}")
            if name in sources:
                raise ValueError(f"use_rep and layer both name the modality {name!r}: leave it out of one of them")
            sources[name] = (argument, key)
    views = {}
    for name, modality in data.mod.items():
        values = _matrix(modality, f"modality {name!r}", *sources.get(name, ("use_rep", "X")))
        views[name] = values if isinstance(values, DataFrame) else AnnData(values, obs=modality.obs[[]])
    return views


def _matrix(data: Any, owner: str, argument: str = "use_rep", key: str = "X") -> Any:
    """Return the matrix of an AnnData object that a key stands for, in memory."""
    place = {"use_rep": "obsm", "layer": "layers"}[argument]
    if (argument, key) == ("use_rep", "X"):
        values = (data.to_memory() if data.isbacked else data).X
    elif key in getattr(data, place):
        values = getattr(data, place)[key]
    else:
        raise ValueError(f"{argument}={key!r}: {owner} has no such key in {place}, only {list(getattr(data, place))}")
    if values is None:
        raise ValueError(f"{owner} has no X: name one of its obsm, {list(data.obsm)}, in use_rep")
    return values


def _write(data: Any, model: MultiViewClustering, rows: Any, key: str) -> None:
    from pandas import Categorical

    labels = model.labels_[rows]
    # Not a sparse array, which igraph's interface in scanpy does not know.
    connectivities = sp.csr_matrix(model.graph_)[rows][:, rows]
    distances = connectivities.copy()
    distances.data = 1 / distances.data
    parameters = {
        name: value if isinstance(value, str | Number) else str(value)
        for name, value in model.get_params(deep=False).items()
        if name not in SILENT_PARAMETERS and value is not None
    }
    data.obs[key] = Categorical.from_codes(labels, [str(label) for label in range(labels.max() + 1)])
    data.obs[f"{key}_confidence"] = model.confidence_[rows]
    data.obsm[f"X_{key}"] = model.embedding_[rows]
    data.obsp[f"{key}_connectivities"] = connectivities
    data.obsp[f"{key}_distances"] = distances
    data.uns[key] = {
        "connectivities_key": f"{key}_connectivities",
        "distances_key": f"{key}_distances",
        "params": {
            **parameters,
            "n_neighbors": int(np.median(np.diff(connectivities.indptr))),
            "method": "umap",  # fuzzy weights as in UMAP; scanpy warns of other methods
            "metric": "euclidean",
            # What scanpy's UMAP starts from if the graph is not connected.
            "use_rep": f"X_{key}",
        },
        "report": str(model.report_),
    }
