"""Plot results with matplotlib.

Every function draws one figure, in the given axes or in a new figure, and returns the axes. The figures are legible in
a column of a paper, 3.5 inches wide, and do not rely on telling red from green. The settings of matplotlib do not
change.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from itertools import compress, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .bases import ViewFFT
from .datasets._errors import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_affinity", "plot_audit", "plot_basis", "plot_cluster_features", "plot_cluster_number"]
__all__ += ["plot_convergence", "plot_embedding", "plot_energy_ratio", "plot_map", "plot_sample_votes"]
__all__ += ["plot_shuffle_by_basis", "plot_shuffle_sweep", "plot_spectrum", "plot_tree"]

# The colour-blind safe palette of Okabe and Ito; yellow, which is faint on white, comes last.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
_GREY = "#666666"
_MARKERS = "os^DvPX*<>"
_FIGURE_SIZE = (4.8, 3.5)
# In points; papers print figures at their original size.
_TEXT, _SMALL = 8, 7
# Labels of the quality axis of a sweep without and with classes.
_QUALITY = ("ARI with rate 0", "accuracy (labels used)")
# Largest width and height of an image of samples × samples, in pixels.
_MOST_PIXELS = 1000
# Lines between more groups than this would cover the groups.
_MOST_PARTED = 30
# A legend with more names would be larger than its figure.
_MOST_NAMED = 20


def plot_shuffle_sweep(sweep: Any, *, ax: Axes | None = None) -> Axes:
    """Plot accuracy and circular total variation against the fraction of shuffled samples.

    The circular total variation (CTV) is divided by its maximum. Lines are means over the repeats, bands reach from the
    minimum to the maximum.

    Parameters
    ----------
    sweep : ShuffleSweep
        The result of `tensormvc.shuffle_sweep`. Without classes there is no accuracy, and the agreement (ARI) with the
        clustering of the unshuffled samples is plotted instead.
    ax : matplotlib Axes, optional
        Axes to draw in; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(60, class_sorted=True)
    >>> sweep = tm.shuffle_sweep(tm.ESTMC(10, basis="fft", random_state=0), views, y, rates=(0, 1), n_repeats=2)
    >>> ax = tm.plotting.plot_shuffle_sweep(sweep)
    >>> ax.get_ylabel()
    'ratio'
    """
    ax = _start(ax)
    labelled = sweep.accuracy is not None
    _draw_repeats(ax, sweep.rates, sweep.accuracy if labelled else sweep.ari, 0, _QUALITY[labelled])
    _draw_repeats(ax, sweep.rates, sweep.ctv / max(sweep.ctv.max(), np.finfo(float).tiny), 1, "CTV / its maximum")
    _legend(ax)
    return _label(ax, _rate_label(sweep), "ratio")


def plot_shuffle_by_basis(sweeps: Mapping[str, Any], *, ax: Axes | None = None) -> Axes:
    """Plot accuracy against the fraction of shuffled samples, with one line per basis.

    Parameters
    ----------
    sweeps : dict of str to ShuffleSweep
        The result of `tensormvc.shuffle_sweep` for each basis. If one of them has no classes, the agreement (ARI) with
        the clustering of the unshuffled samples is plotted instead of the accuracy.
    ax : matplotlib Axes, optional
        Axes to draw in; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(60, class_sorted=True)
    >>> sweep = tm.shuffle_sweep(tm.ESTMC(10, basis="fft", random_state=0), views, y, rates=(0, 1), n_repeats=2)
    >>> ax = tm.plotting.plot_shuffle_by_basis({"fft": sweep})
    >>> [line.get_label() for line in ax.lines]
    ['fft']
    """
    ax = _start(ax)
    labelled = all(sweep.accuracy is not None for sweep in sweeps.values())
    for number, (name, sweep) in enumerate(sweeps.items()):
        _draw_repeats(ax, sweep.rates, sweep.accuracy if labelled else sweep.ari, number, name)
    _legend(ax)
    return _label(ax, _rate_label(sweep), _QUALITY[labelled])


def plot_spectrum(energies: ArrayLike | Mapping[Any, ArrayLike], *, n_slices: int = 50, ax: Axes | None = None) -> Axes:
    """Plot the norms of the spectral slices of a tensor.

    The first slice, which is the mean over the samples under the FFT, is left out.

    Parameters
    ----------
    energies : array of shape (K,), or dict of name to array
        Squared norms of all slices, see `tensormvc.diagnostics.slice_energies`.
    n_slices : int, default=50
        Number of slices to plot, from the lowest frequency.
    ax : matplotlib Axes, optional
        Axes to draw in; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import tensormvc as tm
    >>> ax = tm.plotting.plot_spectrum({"smooth": [9, 4, 1, 0, 1, 4], "rough": [9, 1, 1, 6, 1, 1]})
    >>> [float(norm) for norm in ax.lines[0].get_ydata()]
    [2.0, 1.0, 0.0, 1.0, 2.0]
    """
    ax = _start(ax)
    lines = energies if isinstance(energies, Mapping) else {"": energies}
    for number, (name, values) in enumerate(lines.items()):
        norms = np.sqrt(np.asarray(values, dtype=float))[1 : n_slices + 1]
        frequencies = np.arange(1, len(norms) + 1)
        ax.plot(frequencies, norms, label=str(name), **_line(number, len(norms)))
    ax.set_ylim(bottom=0)
    if isinstance(energies, Mapping):
        _legend(ax)
    total = max(len(np.asarray(values)) for values in lines.values()) - 1
    return _label(ax, f"frequency k (of {total}; k = 0 left out)", "Frobenius norm of slice k")


def plot_energy_ratio(ratios: Mapping[str, Mapping[float, ArrayLike]], *, ax: Axes | None = None) -> Axes:
    """Plot the fraction of the energy in the first K slices, for several bases and shuffle rates.

    Every basis has its colour. Higher shuffle rates have darker and thinner lines, so that equal curves remain visible
    on top of each other.

    Parameters
    ----------
    ratios : dict of basis name to dict of shuffle rate to array
        The arrays are results of `tensormvc.diagnostics.cumulative_energy_ratio`.
    ax : matplotlib Axes, optional
        Axes to draw in; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import tensormvc as tm
    >>> ax = tm.plotting.plot_energy_ratio({"fft": {0.0: [0.6, 0.9, 1.0], 1.0: [0.3, 0.7, 1.0]}})
    >>> len(ax.lines)
    2
    """
    ax = _start(ax)
    from matplotlib.lines import Line2D

    rates = sorted({rate for by_rate in ratios.values() for rate in by_rate})
    depth = dict(zip(rates, np.linspace(0.4, 1, len(rates)) if len(rates) > 1 else [1.0], strict=True))
    width = dict(zip(rates, np.linspace(3.6, 1, len(rates)) if len(rates) > 1 else [1.4], strict=True))
    for number, by_rate in enumerate(ratios.values()):
        for rate, values in sorted(by_rate.items()):
            values = np.asarray(values, dtype=float)
            components = np.arange(1, len(values) + 1)
            ax.plot(components, values, color=_shade(_colour(number), depth[rate]), lw=width[rate])
    ax.set_ylim(0, 1.02)
    names = [Line2D([], [], color=_colour(number), lw=2, label=name) for number, name in enumerate(ratios)]
    greys = [Line2D([], [], color=_shade("black", depth[r]), lw=width[r], label=f"shuffle rate {r:g}") for r in rates]
    shorter = min(names, greys, key=len)
    shorter += [Line2D([], [], ls="none", label=" ")] * abs(len(names) - len(greys))
    _legend(ax, names + greys, ncols=2)
    total = max(len(np.asarray(values)) for by_rate in ratios.values() for values in by_rate.values())
    return _label(ax, f"number of components K (of {total})", "cumulative energy ratio CER(K)")


def plot_basis(basis: Any, labels: ArrayLike | None = None, *, n_components: int = 30, ax: Axes | None = None) -> Axes:
    """Plot the first components of a basis as an image, with one row per sample and one column per component.

    Parameters
    ----------
    basis : fitted basis, or array of shape (n_samples, K)
        For the FFT, the real parts (cosines) are shown.
    labels : array of shape (n_samples,), optional
        Classes to sort the rows by, for display only; by default the samples keep their order.
    n_components : int, default=30
        Number of components to show, from the lowest frequency.
    ax : matplotlib Axes, optional
        Axes to draw in; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(60)
    >>> ax = tm.plotting.plot_basis(tm.GFT("sum").fit(views), y)
    >>> ax.images[0].get_array().shape
    (60, 30)
    """
    ax = _start(ax)
    columns = _columns(basis, n_components)
    n = len(columns)
    columns = columns / np.maximum(np.abs(columns).max(axis=0), np.finfo(float).tiny)
    rows = f"{n} samples"
    if labels is not None:
        order, edges, names = _sorted_by(labels, n)
        columns = columns[order]
        _mark_groups(ax.yaxis, ax.hlines, columns.shape[1] - 0.5, edges, names, "black")
        rows = f"{n} samples by class\n(labels used for display only)"
    image = ax.imshow(columns, cmap="PuOr", vmin=-1, vmax=1, aspect="auto", interpolation="nearest")
    _colourbar(ax, image, "entry / largest of its column", ticks=[-1, 0, 1])
    return _label(ax, "component, lowest frequency first", rows)


def plot_cluster_number(found: Any, *, ax: Axes | None = None) -> Axes:
    """Plot how well clusterings of different graphs agree for each number of clusters, and the eigengaps.

    Parameters
    ----------
    found : ClusterNumber
        The result of `tensormvc.estimate_n_clusters`.
    ax : matplotlib Axes, optional
        Axes to draw in; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.make_multiview(120, n_clusters=3, random_state=0)
    >>> ax = tm.plotting.plot_cluster_number(tm.estimate_n_clusters(views))
    >>> ax.get_xlabel()
    'number of clusters (chosen: 3, of 23 tried)'
    """
    ax = _start(ax)
    size = len(found.candidates)
    ax.plot(found.candidates, found.stability, label="agreement of the graphs", **_line(0, size))
    largest = max(float(found.eigengaps.max()), np.finfo(np.float64).tiny)
    ax.plot(found.candidates, found.eigengaps / largest, label="eigengap, largest 1", **_line(1, size))
    ax.axvline(found.n_clusters, color=_GREY, lw=0.8, ls=(0, (4, 2)))
    _legend(ax)
    label = f"number of clusters (chosen: {found.n_clusters}, of {size} tried)"
    return _label(ax, label, "adjusted Rand index")


def plot_convergence(fitted: Any, *, ax: Axes | None = None) -> Axes:
    """Plot the residuals of a fit against its iterations.

    Parameters
    ----------
    fitted : fitted estimator, or its ``history_``
        For an estimator, its tolerance is shown as well.
    ax : matplotlib Axes, optional
        Axes to draw in; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(60)
    >>> model = tm.ESTMC(n_clusters=10, basis="agft", random_state=0).fit(views)
    >>> ax = tm.plotting.plot_convergence(model)
    >>> ax.get_yscale()
    'log'
    """
    ax = _start(ax)
    history = getattr(fitted, "history_", fitted)
    if not isinstance(history, Sequence) or not history:
        raise ValueError(f"{fitted!r} has no history_: pass a fitted estimator that iterates, or its history_")
    iterations = [record.iteration for record in history]
    for number, name in enumerate(history[0].residuals):
        # A residual of exactly 0 has no logarithm.
        values = [record.residuals[name] or np.nan for record in history]
        ax.plot(iterations, values, label=name.replace("_", " "), **_line(number, len(iterations)))
    if hasattr(fitted, "tol"):
        ax.axhline(fitted.tol, color=_GREY, lw=0.8, ls=(0, (4, 2)), label=f"tolerance {fitted.tol:.0e}")
    ax.set_yscale("log")
    ax.xaxis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]
    _legend(ax)
    seconds = sum(record.seconds for record in history)
    samples = f" for {len(fitted.labels_)} samples" if hasattr(fitted, "labels_") else ""
    return _label(ax, f"iteration (of {len(history)}; {seconds:.2g} s in total{samples})", "residual")


def plot_embedding(embedding: ArrayLike, labels: ArrayLike, *, ax: Axes | None = None) -> Axes:
    """Plot an embedding in the plane in which its clusters differ most.

    The axes are the first two principal components of the cluster centres, weighted by cluster size. (Principal
    components of the samples would be arbitrary for an embedding with orthonormal columns, whose variance is the same
    in all directions.) The axis labels state the fraction of the variance of the samples along each axis; clusters that
    overlap in this plane may differ in other dimensions.

    Parameters
    ----------
    embedding : array of shape (n_samples, n_dimensions)
        An embedding with at least 2 dimensions, such as ``embedding_`` of a fitted estimator.
    labels : array of shape (n_samples,)
        Clusters or classes. A legend names up to 20 of them.
    ax : matplotlib Axes, optional
        Axes to draw in; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import numpy as np, tensormvc as tm
    >>> ax = tm.plotting.plot_embedding(np.array([[0.0, 0], [0, 1], [5, 0], [5, 1]]), [0, 0, 1, 1])
    >>> print(ax.get_xlabel())
    direction 1 between clusters (96 % of variance)
    4 samples in 2 dimensions
    """
    ax = _start(ax)
    embedding = np.asarray(embedding, dtype=float)
    points, shares = _plane_between(embedding, labels)
    order, edges, names = _sorted_by(labels, len(points))
    for number, (name, start, stop) in enumerate(zip(names, edges, edges[1:], strict=False)):
        group = points[order[start:stop]]
        look: dict[str, Any] = {"color": _colour(number), "marker": _marker(number), "rasterized": len(points) > 5000}
        ax.scatter(group[:, 0], group[:, 1], s=14, edgecolors="black", linewidths=0.2, label=str(name), **look)
    first, second = (f"{100 * share:.0f} %" for share in shares)
    if 1 < len(names) <= _MOST_NAMED:
        _legend(ax, title="cluster")
    sizes = f"{len(points)} samples in {embedding.shape[1]} dimensions"
    return _label(ax, f"direction 1 between clusters ({first} of variance)\n{sizes}", f"direction 2 ({second})")


def plot_map(model: Any, *, labels: ArrayLike | None = None, ax: Axes | None = None) -> Axes:
    """Plot the map of a fitted model: one dot per sample, close to its nearest neighbours in all views.

    Each cluster is numbered at the median of its samples, where the numbers do not cover each other. Samples that the
    model is less sure of are paler; samples with label −1, which are in no cluster, are grey. Distances between far
    clusters mean little, and the axes have no units.

    Parameters
    ----------
    model : fitted MultiViewClustering
        Its ``map_``, ``labels_`` and, if there is one, ``confidence_`` are shown.
    labels : array of shape (n_samples,), optional
        Classes or other clusters to colour the samples by, instead of those of the model. A legend names up to 20 of
        them.
    ax : matplotlib Axes, optional
        Axes to draw in; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import tensormvc as tm
    >>> from types import SimpleNamespace
    >>> model = SimpleNamespace(map_=[[0.0, 0], [1, 0], [9, 5], [9, 6]], labels_=[0, 0, 1, 1])
    >>> ax = tm.plotting.plot_map(model)
    >>> [text.get_text() for text in ax.texts]
    ['0', '1']
    """
    if (points := getattr(model, "map_", None)) is None:
        raise ValueError(f"{model!r} has no map_: pass a fitted MultiViewClustering")
    ax = _start(ax)
    points = np.asarray(points, dtype=float)
    n = len(points)
    order, edges, names = _sorted_by(model.labels_ if labels is None else labels, n)
    medians = np.array([np.nanmedian(points[order[i:j]], axis=0) for i, j in pairwise(edges)])
    grouped = [name != -1 for name in names]
    colours = np.full(len(names), _GREY)
    colours[grouped] = _far_apart_colours(medians[grouped])
    opacity = np.full(n, 0.8)
    if labels is None and (confidence := getattr(model, "confidence_", None)) is not None:
        opacity = 0.15 + 0.75 * np.asarray(confidence, dtype=float)
    look: dict[str, Any] = {"c": np.repeat(colours, np.diff(edges)), "alpha": opacity[order], "linewidths": 0}
    x, y = points[order].T
    ax.scatter(x, y, s=float(np.clip(15_000 / n, 2, 20)), rasterized=n > 5000, **look)
    ax.set_aspect("equal", adjustable="datalim")
    ax.set(xticks=[], yticks=[])
    if 1 < len(names) <= _MOST_NAMED:
        from matplotlib.lines import Line2D

        look = {"marker": "o", "ms": 4, "ls": "none"}
        dots = [Line2D([], [], color=c, label=str(name), **look) for name, c in zip(names, colours, strict=True)]
        _legend(ax, dots, title="cluster")
    if len(names) > 1:
        _write_apart(ax, [str(name) for name in compress(names, grouped)], medians[grouped])
    ax.spines[:].set_visible(False)
    return _label(ax, f"map of {n} samples", "")


def plot_tree(tree: Any, *, ax: Axes | None = None) -> Axes:
    """Plot nested clusterings as a dendrogram: how clusters split, from one at the top to the finest at the bottom.

    A horizontal line at k on the axis crosses k branches, the clusters of level k. The dashed line is the final level,
    below which its clusters are numbered. Splits are coloured by their stability.

    Parameters
    ----------
    tree : ClusterTree
        ``tree_`` of a fitted `MultiViewClustering`.
    ax : matplotlib Axes, optional
        Axes to draw in; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.make_multiview(90, n_clusters=3, random_state=0)
    >>> model = tm.MultiViewClustering(n_clusters=3, random_state=0).fit(views)
    >>> ax = tm.plotting.plot_tree(model.tree_)
    >>> [text.get_text() for text in ax.texts]
    ['0', '1', '2']
    """
    ax = _start(ax)
    from matplotlib.collections import LineCollection
    from matplotlib.colors import LinearSegmentedColormap

    most, k = tree.most, tree.n_clusters
    leaves = [[leaf] for leaf in range(most)]
    for left, right in tree.merges.tolist():
        leaves.append(leaves[left] + leaves[right])
    x = np.argsort(leaves[-1]).astype(float).tolist()
    # A split is drawn halfway between its levels, on an axis with equal steps for equal ratios.
    heights = [np.sqrt(most * (most + 1))] * most
    brackets = []
    for level, (left, right) in zip(range(most - 1, 0, -1), tree.merges.tolist(), strict=True):
        top = np.sqrt(level * (level + 1))
        brackets.append([(x[left], heights[left]), (x[left], top), (x[right], top), (x[right], heights[right])])
        x.append((x[left] + x[right]) / 2)
        heights.append(top)
    colours = LinearSegmentedColormap.from_list("stability", [_COLOURS[1], "#999999", _COLOURS[0]])
    splits = LineCollection(brackets, array=tree.stability, cmap=colours, clim=(0, 1), linewidths=1.3)
    ax.add_collection(splits)
    ax.axhline(k, color=_GREY, lw=0.8, ls=(0, (4, 2)))
    ax.set(xlim=(-0.7, most - 0.3), xticks=[], yscale="log", ylim=(1.15 * most, 1))
    ticks = [level for level in (1, 2, 5, 10, 20, 50, 100) if level <= most]
    ax.set_yticks(ticks, map(str, ticks))
    ax.set_yticks([], minor=True)
    nodes = [node for node in range(2 * most - k) if node not in tree.merges[: most - k]]
    order = sorted(nodes, key=lambda node: int(tree.leaf_labels[leaves[node][0]]))
    names = [str(tree.leaf_labels[leaves[node][0]]) for node in order]
    _write_apart(ax, names, np.array([(x[node], k * (most / k) ** 0.1) for node in order]))
    _colourbar(ax, splits, "stability of the split", ticks=[0, 0.5, 1])
    return _label(ax, f"level {k} (dashed line) of {most} is the final one", "number of clusters")


def plot_affinity(affinity: Any, labels: ArrayLike, *, ax: Axes | None = None) -> Axes:
    """Plot similarities between samples as an image, with rows and columns sorted by cluster.

    Beyond 1000 samples, blocks of neighbouring rows and columns are averaged. The colour scale ends at the 99 %
    quantile of the positive values outside the diagonal. Up to 30 clusters are separated by lines.

    Parameters
    ----------
    affinity : array or sparse matrix of shape (n_samples, n_samples)
        Similarities, such as ``affinity_`` of an estimator with ``keep="all"`` or ``graph_`` of a graph.
    labels : array of shape (n_samples,)
        Clusters or classes.
    ax : matplotlib Axes, optional
        Axes to draw in; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(60)
    >>> ax = tm.plotting.plot_affinity(tm.SimGraph().fit(views).graph_, y)
    >>> ax.images[0].get_array().shape
    (60, 60)
    """
    ax = _start(ax)
    affinity = affinity if hasattr(affinity, "tocoo") else np.asarray(affinity)
    n = affinity.shape[0]
    if affinity.shape != (n, n):
        raise ValueError(f"affinity has shape {affinity.shape}; expected a square matrix (n_samples, n_samples)")
    order, edges, names = _sorted_by(labels, n)
    size = -(-n // _MOST_PIXELS)
    picture = _block_means(affinity, order, size)
    outside = picture[(picture > 0) & ~np.eye(len(picture), dtype=bool)]
    highest = np.quantile(outside, 0.99) if len(outside) else 1.0
    # In units of samples; the last block may extend beyond the last sample.
    end = len(picture) * size - 0.5
    limits: dict[str, Any] = {"vmin": min(0.0, picture.min()), "vmax": highest, "extent": (-0.5, end, end, -0.5)}
    image = ax.imshow(picture, cmap="cividis", interpolation="nearest", **limits)
    ax.set(xlim=(-0.5, n - 0.5), ylim=(n - 0.5, -0.5))
    for axis, draw_lines in ((ax.xaxis, ax.vlines), (ax.yaxis, ax.hlines)):
        _mark_groups(axis, draw_lines, n - 0.5, edges, names, "white")
    blocks = "" if size == 1 else f", means of {size} × {size}"
    _colourbar(ax, image, f"affinity{blocks}", extend="max" if picture.max() > highest else "neither")
    return _label(ax, f"{n} samples by cluster", "samples by cluster")


def plot_audit(audit: Any, *, ax: Axes | None = None) -> Axes:
    """Plot how well clusterings of the same samples agree between orders, between seeds, and for each sample.

    In the upper rows, every dot is the adjusted Rand index (ARI) of two clusterings. In the lowest row, every dot is a
    sample: the mean Jaccard index of its clusters in two orders. 1 is perfect agreement.

    Parameters
    ----------
    audit : OrderAudit
        The result of `tensormvc.audit_order`.
    ax : matplotlib Axes, optional
        Axes to draw in; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import tensormvc as tm
    >>> from sklearn.cluster import AgglomerativeClustering
    >>> views, y = tm.datasets.load_digits_views(100)
    >>> ax = tm.plotting.plot_audit(tm.audit_order(AgglomerativeClustering(10), views, n_permutations=3))
    >>> ax.get_title(loc="left")
    'AgglomerativeClustering: the same partition in all orders'
    """
    ax = _start(ax)
    n_orders, n_samples = audit.labels.shape
    company = 1 - audit.sample_instability
    rows = [
        ("orders\n(ARI, same seed)", _pairs(audit.order_aris), audit.order_ari, audit.order_ari_interval),
        ("seeds\n(ARI, same order)", _pairs(audit.seed_aris), audit.seed_ari, audit.seed_ari_interval),
        ("samples\n(Jaccard, orders)", company, company.mean(), ()),
    ]
    if not len(audit.seed_aris):
        del rows[1]
    for number, (_, values, mean, interval) in enumerate(rows):
        # Spread the dots vertically by multiples of the golden ratio: even, and without random numbers.
        heights = -number + 0.1 + 0.3 * (np.arange(len(values)) * 0.6180339887 % 1)
        many, colour = len(values) > 200, _colour(number)
        ax.scatter(values, heights, s=4 if many else 10, color=colour, alpha=0.5, linewidths=0, rasterized=many)
        ax.plot(interval, [-number] * len(interval), color=colour, lw=1.4, marker="|", ms=6)
        ax.plot(mean, -number, color=colour, marker=_marker(number), ms=5)
    ax.axvline(1, color=_GREY, lw=0.8, ls=(0, (4, 2)), zorder=0)
    ax.set_yticks([-number for number in range(len(rows))], [name for name, *_ in rows])
    ax.set_ylim(0.3 - len(rows), 0.6)
    ax.set_xlim(min(0, audit.order_aris.min(), audit.seed_aris.min(initial=0)), 1.04)
    verdict = "the same partition in all orders"
    if audit.order_dependent:
        verdict = f"depends on the order of the rows ({audit.severity})"
    ax.set_title(textwrap.fill(f"{audit.name}: {verdict}", _letters(ax, _TEXT) - 8), fontsize=_TEXT, loc="left")
    return _label(ax, f"agreement; means with 95 % intervals\n{n_orders} orders of {n_samples} samples", "")


def plot_cluster_features(explanation: Any, cluster: int, *, n_features: int = 8, ax: Axes | None = None) -> Axes:
    """Plot the features that set a cluster apart, as bars with confidence intervals, coloured by view.

    The bars end at the area under the ROC curve (AUC) of the cluster against all other samples: to the right of 0.5 for
    features with higher values in the cluster, to the left for those with lower values.

    Parameters
    ----------
    explanation : Explanation
        The result of `tensormvc.explain.explain_clusters`.
    cluster : int
        The cluster.
    n_features : int, default=8
        Number of features, the leading one on top.
    ax : matplotlib Axes, optional
        Axes to draw in; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.make_multiview(120, n_clusters=3, random_state=0)
    >>> ax = tm.plotting.plot_cluster_features(tm.explain.explain_clusters(views, y), 0)
    >>> print(ax.get_xlabel())
    AUC with 95 % intervals
    cluster 0 (40 of 120 samples)
    """
    ax = _start(ax)
    rows = [row for row in explanation.top(n_features) if row.cluster == cluster]
    if not rows:
        known = ", ".join(str(summary.cluster) for summary in explanation.clusters)
        raise ValueError(f"there is no cluster {cluster!r}; the clusters are {known}")
    longest = _letters(ax, _SMALL) // 3
    for number, name in enumerate(explanation.view_names):
        own = [row for row in rows if row.view == name]
        lengths = [row.effect - 0.5 for row in own]
        look: dict[str, Any] = {"color": _colour(number), "label": _plain(shortened(name, longest))}
        ax.barh([-row.rank for row in own], lengths, left=0.5, height=0.7, **look)
    heights = [-row.rank for row in rows]
    ax.hlines(heights, [row.low for row in rows], [row.high for row in rows], color="black", lw=1)
    ax.axvline(0.5, color=_GREY, lw=0.8)
    ax.set_yticks(heights, [_plain(shortened(row.feature, longest)) for row in rows])
    ax.set_xlim(-0.02, 1.02)
    _legend(ax)
    size = next(summary.size for summary in explanation.clusters if summary.cluster == cluster)
    group = f"cluster {cluster} ({size} of {explanation.n_samples} samples)"
    return _label(ax, f"AUC with 95 % intervals\n{group}", "")


def plot_sample_votes(explained: Any, *, ax: Axes | None = None) -> Axes:
    r"""Plot how the landmarks nearest to a sample vote in each view: for its cluster, the runner-up, or others.

    Parameters
    ----------
    explained : SampleExplanation
        Why a sample is in its cluster.
    ax : matplotlib Axes, optional
        Axes to draw in; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import tensormvc as tm
    >>> votes = {"text": {0: 0.9, 1: 0.1}, "image": {0: 0.4, 1: 0.6}}
    >>> weights = {"text": 1.2, "image": 0.8}
    >>> why = tm.explain.SampleExplanation("s7", 0, 0.3, {0: 0.65, 1: 0.35}, weights, votes, ())
    >>> ax = tm.plotting.plot_sample_votes(why)
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['text\n(weight 1.20)', 'image\n(weight 0.80)']
    """
    ax = _start(ax)
    groups = {f"cluster {explained.cluster}": explained.cluster}
    if explained.runner_up is not None:
        groups[f"cluster {explained.runner_up} (runner-up)"] = explained.runner_up
    # Of a sample that is no landmark, only the votes of all views together are known.
    weights = {} if explained.votes.keys() - explained.view_weights.keys() else explained.view_weights
    shown = [*(weights or explained.votes)]
    heights = [-number for number in range(len(shown))]
    votes = [explained.votes.get(view, {}) for view in shown]
    left = np.zeros(len(votes))
    for number, (name, cluster) in enumerate(groups.items()):
        shares = np.array([shares.get(cluster, 0.0) for shares in votes])
        ax.barh(heights, shares, left=left, height=0.7, color=_colour(number), label=name)
        left += shares
    others = np.array([sum(shares.values()) for shares in votes]) - left
    ax.barh(heights, others, left=left, height=0.7, color="#CCCCCC", label="other clusters")
    names = [
        _plain(shortened(view, 16)) + (f"\n(weight {weights[view]:.2f})" if view in weights else "") for view in shown
    ]
    ax.set_yticks(heights, names)
    ax.set_xlim(0, 1)
    _legend(ax)
    sample = _plain(shortened(str(explained.sample), 16))
    outcome = f"sample {sample}: cluster {explained.cluster} (of {len(explained.membership)})"
    return _label(ax, f"share of the nearest landmarks\n{outcome}", "")


def grid_of_axes(count: int, n_rows: int) -> NDArray[Any]:
    """Return axes for small multiples in a new figure, each high enough for some rows of text."""
    n_columns = min(count, 3)
    lines = -(-count // n_columns)
    size = (_FIGURE_SIZE[0] * 0.8 * n_columns, (0.9 + 0.18 * n_rows) * lines + 0.3)
    figure = require("matplotlib.pyplot", "plotting", "plot").figure(figsize=size, layout="constrained")
    axes = figure.subplots(lines, n_columns, squeeze=False).ravel()
    for ax in axes[count:]:
        ax.remove()
    return np.asarray(axes[:count])


def shortened(name: str, most: int) -> str:
    """Return the start of a name that is longer than `most` letters."""
    return name if len(name) <= most else name[: most - 1] + "…"


def _plain(name: str) -> str:
    """Return a name that matplotlib does not take for mathematics."""
    return name.replace("$", r"\$")


def _pairs(square: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the entries above the diagonal."""
    return np.asarray(square[np.triu_indices(len(square), 1)])


def _start(ax: Axes | None) -> Axes:
    """Return the given axes, or those of a new figure."""
    if ax is not None:
        return ax
    new: Axes = require("matplotlib.pyplot", "plotting", "plot").subplots(figsize=_FIGURE_SIZE, layout="constrained")[1]
    return new


def _label(ax: Axes, xlabel: str, ylabel: str) -> Axes:
    """Label the axes, with font sizes for print."""
    ax.set_xlabel(xlabel, fontsize=_TEXT)
    ax.set_ylabel(ylabel, fontsize=_TEXT)
    ax.tick_params(labelsize=_SMALL)
    if not ax.images:
        ax.spines[["top", "right"]].set_visible(False)
    return ax


def _legend(ax: Axes, handles: Sequence[Any] = (), *, ncols: int = 0, title: str = "") -> None:
    """Add a legend above the axes, or beside them if it has a title, where it hides nothing."""
    handles = handles or ax.get_legend_handles_labels()[0]
    style: dict[str, Any] = {"frameon": False, "handletextpad": 0.5, "columnspacing": 1.2, "fontsize": _SMALL}
    if title:
        style |= {"loc": "center left", "bbox_to_anchor": (1, 0.5), "title": title, "title_fontsize": _SMALL}
        ncols = 1 + (len(handles) > 10)
    else:
        style |= {"loc": "lower left", "bbox_to_anchor": (0, 1)}
    ax.legend(handles=handles, ncols=ncols or _columns_above(ax, handles), **style)


def _columns_above(ax: Axes, handles: Sequence[Any]) -> int:
    """Return how many columns of a legend fit the width of the axes."""
    # The handle and the space around it are about as wide as 7 letters.
    lengths = [7 + len(str(handle.get_label())) for handle in handles]
    room = _letters(ax, _SMALL)
    return len(handles) if sum(lengths) <= room else max(1, min(room // max(lengths), len(handles)))


def _letters(ax: Axes, size: float) -> int:
    """Return about how many letters of a font size, in points, fit the width of the axes."""
    return int(ax.get_window_extent().width / ax.figure.dpi * 72 / (0.5 * size))


def _colourbar(ax: Axes, image: Any, text: str, **options: Any) -> None:
    bar = ax.figure.colorbar(image, ax=ax, **options)
    bar.set_label(text, fontsize=_TEXT)
    bar.ax.tick_params(labelsize=_SMALL)


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]


def _marker(number: int) -> str:
    return _MARKERS[number % len(_MARKERS)]


def _far_apart_colours(places: NDArray[np.float64]) -> list[str]:
    """Return colours of groups at these places (k, 2), such that groups of the same colour are far from each other."""
    apart = np.linalg.norm(places[:, None] - places, axis=2)
    chosen = np.full(len(places), -1)
    for i, distances in enumerate(apart):
        nearest = [distances[chosen == number].min(initial=np.inf) for number in range(len(_COLOURS))]
        chosen[i] = int(np.argmax(nearest))
    return [_COLOURS[number] for number in chosen]


def _write_apart(ax: Axes, texts: Sequence[str], places: NDArray[np.float64]) -> None:
    """Write texts at places (k, 2), or above them if there are many, except for those that would touch another one."""
    from matplotlib.patheffects import withStroke

    # A legend beside the axes, which comes later, may take a third of their width.
    letter = 1.5 * np.ptp(ax.get_xlim()) / _letters(ax, _TEXT)
    style: dict[str, Any] = {"path_effects": [withStroke(linewidth=2, foreground="white")], "fontsize": _TEXT}
    # Of many groups, each is small: the text must not cover it.
    above, weight = (0, "bold") if len(texts) <= _MOST_NAMED else (6, "normal")
    style |= {"textcoords": "offset points", "ha": "center", "va": "center", "weight": weight}
    written: list[tuple[float, float, int]] = []
    for text, (x, y) in zip(texts, places.tolist(), strict=True):
        if all(abs(x - x0) > letter * (len(text) + size) / 2 or abs(y - y0) > 2.5 * letter for x0, y0, size in written):
            written.append((x, y, len(text) + 1))
            ax.annotate(text, (x, y), (0, above), **style)


def _shade(colour: str, depth: float) -> Any:
    """Mix a colour with white."""
    from matplotlib.colors import to_rgb

    return tuple(1 - depth * (1 - part) for part in to_rgb(colour))


def _line(number: int, n_points: int) -> dict[str, Any]:
    """Return the style of line number `number`; markers only if the points are not too dense."""
    marker = _marker(number) if n_points <= 25 else ""
    return {"color": _colour(number), "marker": marker, "ms": 3.5, "lw": 1.3}


def _draw_repeats(ax: Axes, rates: ArrayLike, values: NDArray[np.float64], number: int, name: str) -> None:
    """Plot the mean of values (rates, repeats) over the repeats, with a band from the minimum to the maximum."""
    rates = np.asarray(rates, dtype=float)
    ax.fill_between(rates, values.min(axis=1), values.max(axis=1), color=_colour(number), alpha=0.2, lw=0)
    ax.plot(rates, values.mean(axis=1), label=name, **_line(number, len(rates)))
    # The axis starts at a multiple of 0.1 below all values.
    lowest = np.floor(10 * values.min() - 0.2) / 10
    ax.set_ylim(min(lowest, ax.get_ylim()[0]) if number else lowest, 1.02)


def _rate_label(sweep: Any) -> str:
    repeats = sweep.ctv.shape[1]
    bands = f"\nmeans and ranges of {repeats} shuffles" if repeats > 1 else ""
    return f"shuffle rate (share of {sweep.n_samples} samples){bands}"


def _sorted_by(labels: ArrayLike, n: int) -> tuple[NDArray[np.intp], NDArray[np.intp], list[Any]]:
    """Return the order that sorts the samples by label, the edges of the groups in it, and the names of the groups."""
    labels = np.asarray(labels)
    if labels.shape != (n,):
        raise ValueError(f"labels have shape {labels.shape}; expected one label per sample, shape ({n},)")
    names, counts = np.unique(labels, return_counts=True)
    return np.argsort(labels, kind="stable"), np.concatenate([[0], np.cumsum(counts)]), names.tolist()


def _mark_groups(axis: Any, draw: Any, end: float, edges: NDArray[np.intp], names: list[Any], colour: str) -> None:
    """Separate the groups of an image by lines, unless there are too many, and label them if all labels fit."""
    parted = edges[1:-1] if len(names) <= _MOST_PARTED else edges[:0]
    draw(parted - 0.5, -0.5, end, color=colour, lw=0.4)
    middles = (edges[1:] + edges[:-1] - 1) / 2
    if len(names) == 1 or np.diff(middles).min() * 16 >= edges[-1]:
        axis.set_ticks(middles, [str(name) for name in names])
        axis.set_tick_params(length=0)


def _columns(basis: Any, count: int) -> NDArray[np.float64]:
    """Return the first columns of a basis, which are the inverse transforms of unit slices."""
    if not hasattr(basis, "inverse"):
        return np.asarray(basis, dtype=float)[:, :count]
    if isinstance(basis, ViewFFT):
        raise ValueError("ViewFFT transforms along the views; pass a basis that transforms along the samples")
    n_slices = len(basis.slice_weights_)
    return np.asarray(basis.inverse(np.eye(n_slices, min(count, n_slices))[:, :, None])[:, :, 0])


def _plane_between(points: NDArray[np.float64], labels: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Project points onto the plane in which their groups differ most; return also the variance along its axes."""
    if points.ndim != 2 or points.shape[1] < 2:
        raise ValueError(f"embedding has shape {points.shape}; expected (n_samples, d) with at least 2 dimensions d")
    order, edges, _ = _sorted_by(labels, len(points))
    centred = points - points.mean(axis=0)
    centres = np.add.reduceat(centred[order], edges[:-1], axis=0) / np.sqrt(np.diff(edges))[:, None]
    scatter = centred.T @ centred
    # The centres alone do not determine a plane if there are two clusters; a little of the points' scatter does.
    _, directions = np.linalg.eigh(centres.T @ centres + 1e-3 * scatter)
    directions = directions[:, :-3:-1]
    # The sign of an eigenvector is arbitrary: make its largest entry positive.
    directions = directions * np.sign(directions[np.abs(directions).argmax(axis=0), [0, 1]])
    total = max(float(np.trace(scatter)), np.finfo(float).tiny)
    return centred @ directions, np.sum((centred @ directions) ** 2, axis=0) / total


def _block_means(matrix: Any, order: NDArray[np.intp], size: int) -> NDArray[np.float64]:
    """Return the means of size × size blocks of a matrix, after reordering its rows and columns."""
    n = len(order)
    starts = np.arange(0, n, size)
    counts = np.diff(np.append(starts, n))
    if hasattr(matrix, "tocoo"):
        entries, place = matrix.tocoo(), np.argsort(order) // size
        pixels = place[entries.row] * len(starts) + place[entries.col]
        sums = np.bincount(pixels, entries.data, len(starts) ** 2).reshape(len(starts), -1)
    else:
        # Block by block, because a reordered copy of the matrix may not fit in memory.
        rows = np.stack([matrix[order[start : start + size]].sum(axis=0, dtype=float) for start in starts])
        sums = np.add.reduceat(rows[:, order], starts, axis=1)
    return np.asarray(sums / np.outer(counts, counts))
