"""Ways to scale all views (looks): which scalings belong together, and the weight of each view.

Views describe the same samples: neighbours in one view that are neighbours in another one are hardly an accident.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..backend.arrays import is_sparse
from ..backend.threads import cached_property, parallel_map
from ..graphs._fuzzy import Neighbours, find_neighbours
from ..views import Views
from ..views._order import unit_rows
from ._evidence import NEIGHBOURS, Evidence, directed_graphs, neighbours_of, spread
from ._scaling import RECIPES, Scaling, fit_and_scale, lean, refuse_negative, suitable_scalings, usual_scaling

# Number of samples that scalings are compared on.
_COMPARED_SAMPLES = 600
# A view that agrees with no other one keeps this share of the largest weight.
_LEAST_WEIGHT = 0.02
# Views are unrelated if no share of common neighbours exceeds chance by this many standard deviations. Of n lists of k
# neighbours, n·k²/(n − 1) are common by chance, with a deviation of about k: 1/n of all.
_DEVIATIONS = 4
# Candidates for the view-by-view choice, and scalings that are applied to all views alike. Where values do not allow
# one, the next one is taken, and the one chosen view by view at last.
_PLAIN = ("none", "unit", "centred", "z-score", "z-score-unit", "range", "root", "tf-idf")
_COMMON = {
    "unit length": ("unit",),
    "whitened": ("whitened",),
    "standardised and whitened": ("z-score-whitened",),
    "roots, whitened": ("root-whitened", "z-score-whitened"),
    "counts": ("log-ratio", "log-counts"),
    "latent semantics": ("lsi",),
}


@dataclass(frozen=True)
class ChosenScaling:
    """The scaling of one view in the scheme with the most weight, and why it was chosen.

    Attributes
    ----------
    view : str
        Name of the view.
    name : str
        Name of the scaling, as a value of `normalisation`.
    shared : float or None
        Share of its nearest neighbours that are neighbours in the other views, too, beyond chance; None if there is no
        other view.
    n_missing : int
        Number of samples that lack the view.
    """

    view: str
    name: str
    shared: float | None
    n_missing: int

    @property
    def meaning(self) -> str:
        """The scaling as text."""
        return RECIPES[self.name].meaning


@dataclass(frozen=True)
class _Option:
    """A view in one scaling: its number, the fitted scaling, the scaled samples, which have it, where to search."""

    view: int
    scaling: Scaling
    part: Any
    rows: NDArray[np.intp]
    device: Any

    @cached_property
    def neighbours(self) -> Neighbours:
        """The nearest neighbours of the samples that have the view, among these."""
        return neighbours_of(self.part, self.rows, self.device)

    def links(self, n_samples: int, columns: Any = slice(None)) -> sp.csr_array:
        """Return the graph from each of the first samples to its nearest neighbours among them."""
        rows = self.rows[self.rows < n_samples]
        if len(rows) < 2:
            return sp.csr_array((n_samples, n_samples))
        graph = find_neighbours([self.part[rows][:, columns]], min(NEIGHBOURS[0], len(rows) - 1)).graph()
        return spread(graph, np.isin(np.arange(n_samples), rows))


class Options:
    """The views in all scalings that are considered; each is fitted once, when it is needed.

    Parameters
    ----------
    views : Views
        Unscaled views in NumPy or CSR arrays; rows of missing samples are zero.
    normalisation : str, sequence or mapping
        As in `MultiViewClustering`.
    device : torch.device, optional
        Where neighbours are searched for.
    """

    def __init__(self, views: Views, normalisation: Any, device: Any = None) -> None:
        self.views, self.device = views, device
        self.arrays = [lean(array) for array in views.arrays]
        self.requested = _requested(normalisation, views)
        self.rows = [np.flatnonzero(~missing) for missing in views.missing.T]
        for array, name, view, rows in zip(self.arrays, self.requested, views.names, self.rows, strict=True):
            if len(rows) < 2:
                raise ValueError(
                    f"{view} has values for {len(rows)} of the {views.n_samples:,} samples compared: leave this "
                    "view out (at least 2 of them must have it)"
                )
            if name != "auto":
                refuse_negative(array, name, view)
        self.n_gaps = views.n_gaps or (0,) * views.n_views
        self.suitable = [
            suitable_scalings(array[rows], gaps) if name == "auto" else [name]
            for array, rows, name, gaps in zip(self.arrays, self.rows, self.requested, self.n_gaps, strict=True)
        ]
        self._fitted: dict[tuple[int, str], _Option] = {}

    def __getitem__(self, key: tuple[int, str]) -> _Option:
        if key not in self._fitted:
            v, name = key
            array, rows = self.arrays[v], self.rows[v]
            scaling, scaled = fit_and_scale(array[rows], name, self.device)
            self._fitted[key] = _Option(v, scaling, _with_zeros(scaled, rows, array.shape[0]), rows, self.device)
        return self._fitted[key]

    def prepare(self, names: Iterable[Sequence[str]]) -> None:
        """Find the neighbours in several scalings of all views at once."""
        keys = dict.fromkeys((v, name) for scalings in names for v, name in enumerate(scalings))
        parallel_map(lambda key: self[key].neighbours, list(keys))

    @cached_property
    def working_views(self) -> Views:
        """The unscaled samples at unit length, in working order, which counts as the order given."""
        arrays = tuple(unit_rows(array, None) for array in self.arrays)
        order = np.arange(self.views.n_samples)
        return replace(self.views, arrays=arrays, order=order, sample_ids=None, as_given=(None,) * len(arrays))


def scaled_rows(scaling: Scaling, view: Any, rows: NDArray[np.intp], *, one_by_one: bool = False) -> Any:
    """Return a view scaled, with zeros for samples other than the `rows`; see `Scaling.apply`."""
    if len(rows) == view.shape[0]:
        return scaling.apply(view, one_by_one=one_by_one)
    if not len(rows):
        return np.zeros((view.shape[0], view.shape[1] if scaling.components is None else scaling.components.shape[1]))
    return _with_zeros(scaling.apply(view[rows], one_by_one=one_by_one), rows, view.shape[0])


def _with_zeros(scaled: Any, rows: NDArray[np.intp], n_samples: int) -> Any:
    """Return scaled samples, which are these rows, with zeros for all others."""
    if len(rows) == n_samples:
        return scaled
    entries = np.ones(len(rows)), (rows, np.arange(len(rows)))
    whole = sp.csr_array(entries, shape=(n_samples, len(rows))) @ scaled
    if not is_sparse(scaled):
        return np.asarray(whole)
    whole.sort_indices()  # sums over a row depend on their order
    return sp.csr_array(whole)


def gather_looks(
    views: Views, normalisation: Any = "auto", view_weights: Any = "auto", device: Any = None
) -> list[Evidence]:
    """Return the ways to look at the views: first the one chosen view by view, then common scalings.

    Parameters
    ----------
    views : Views
        Unscaled views in NumPy or CSR arrays; rows of missing samples are zero.
    normalisation : str, sequence or mapping, default="auto"
        As in `MultiViewClustering`.
    view_weights : "auto", sequence or mapping, default="auto"
        As in `MultiViewClustering`.
    device : torch.device, optional
        Where neighbours and frequencies are computed.

    Returns
    -------
    list of Evidence
    """
    options = Options(views, normalisation, device)
    first = _view_by_view(options)
    chosen = {"chosen view by view": first}
    for look, names in _COMMON.items():
        chosen[look] = [
            next((name for name in names if name in suitable), fallback)
            for suitable, fallback in zip(options.suitable, first, strict=True)
        ]
    asked = asked_weights(view_weights, views)
    options.prepare(chosen.values())
    looks: dict[tuple[str, ...], str] = {}
    for look, scalings in chosen.items():
        looks.setdefault(tuple(scalings), look)
    return parallel_map(lambda item: _evidence(item[1], options, list(item[0]), asked), list(looks.items()))


def gather_evidence(views: Views, normalisation: Any = "auto") -> Evidence:
    """Return the way to look at the views that is chosen view by view."""
    options = Options(views, normalisation)
    return _evidence("chosen view by view", options, _view_by_view(options), [None] * views.n_views)


def _view_by_view(options: Options) -> list[str]:
    """Return the scaling of each view whose neighbours agree best with those of the other views."""
    m, n = options.views.n_views, min(options.views.n_samples, _COMPARED_SAMPLES)
    plain = [[name for name in names if name in _PLAIN] or names for names in options.suitable]
    if m == 1 or n <= 2:
        triples = zip(options.arrays, plain, options.n_gaps, strict=True)
        return [names[0] if len(names) == 1 else usual_scaling(array, gaps) for array, names, gaps in triples]
    tried = [(v, name) for v in range(m) for name in plain[v]]
    view_of = np.array([v for v, _ in tried])
    links = parallel_map(lambda key: options[key].links(n), tried)
    shared = _shared_links(links, view_of, options.views.missing[:n])
    overlaps = _overlaps(options.views.missing[:n])
    # First compared with all scalings of the other views, then with the chosen ones.
    compared = np.arange(len(tried))
    for _ in range(2):
        by_view = np.column_stack([shared[:, compared[view_of[compared] == v]].mean(axis=1) for v in range(m)])
        agreement = _mean_over_others(by_view, view_of, overlaps)
        best = [int(np.argmax(np.where(view_of == v, agreement, -np.inf))) for v in range(m)]
        compared = np.array(best)
    return [tried[i][1] for i in best]


def _evidence(look: str, options: Options, names: list[str], asked: list[float | None]) -> Evidence:
    """Return the views in these scalings, each weighted by how well its neighbours agree with those of the others."""
    views = options.views
    m, n = views.n_views, min(views.n_samples, _COMPARED_SAMPLES)
    chosen = [options[v, name] for v, name in enumerate(names)]
    parts = [option.part for option in chosen]
    neighbours = [option.neighbours for option in chosen]
    shared: list[float | None] = [None] * m
    weights = np.ones(m)
    related = True
    if m > 1:
        common = _shared_links(directed_graphs(neighbours, views.missing), np.arange(m), views.missing)
        overlaps = _overlaps(views.missing)
        agreement = _mean_over_others(common, np.arange(m), overlaps)
        shared = agreement.tolist()
        deviation = _mean_over_others(1 / np.sqrt(overlaps), np.arange(m), overlaps) / views.n_samples
        related = bool((agreement > _DEVIATIONS * deviation).any())
        weights = agreement if related else np.array([_reliability(option, n) for option in chosen])
    weights = np.maximum(weights, max(_LEAST_WEIGHT * weights.max(), np.finfo(np.float64).tiny))
    weights /= weights.mean()
    weights = np.array([used if number is None else number for used, number in zip(weights, asked, strict=True)])
    counts = views.missing.sum(axis=0).tolist()
    return Evidence(
        name=look,
        views=options.working_views,
        scalings=[option.scaling for option in chosen],
        parts=parts,
        neighbours=neighbours,
        weights=weights / weights.mean(),
        choices=list(map(ChosenScaling, views.names, names, shared, counts)),
        related=related,
        device=options.device,
    )


def _shared_links(
    links: list[sp.csr_array], view_of: NDArray[np.intp], missing: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return the share of neighbours that each two graphs have in common, beyond chance, on samples in both views."""
    n = len(missing)
    present = (~missing).astype(np.float64)
    first = np.arange(0, n * n, n)
    pairs = np.concatenate([np.repeat(first, np.diff(graph.indptr)) + graph.indices for graph in links])
    # Numbered without gaps: most pairs of samples are linked nowhere.
    order = np.argsort(pairs, kind="stable")
    number = np.empty_like(pairs)
    number[order] = np.cumsum(np.diff(pairs[order], prepend=-1) > 0) - 1
    starts = np.cumsum([0, *(graph.nnz for graph in links)])
    flat = sp.csr_array((np.ones(len(pairs)), number, starts), shape=(len(links), max(len(pairs), 1)))
    common = (flat @ flat.T).toarray()
    # Links of each graph among the samples that have the view of another one.
    counts = np.array([np.einsum("iv,iv->v", present, graph @ present) for graph in links])[:, view_of]
    sizes = np.sqrt(counts * counts.T)
    both = (present.T @ present)[np.ix_(view_of, view_of)]
    chance = sizes / np.maximum(both * (both - 1), 1)
    return np.asarray(np.divide(common, sizes, out=chance.copy(), where=sizes > 0) - chance)


def _overlaps(missing: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the share of the pairs of samples that have both of two views, (m, m); at least that of one sample."""
    present = (~missing).astype(np.float64)
    return np.square(np.maximum(present.T @ present, 1) / len(missing))


def _mean_over_others(
    values: NDArray[np.float64], view_of: NDArray[np.intp], overlaps: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the means of rows of values, (r, m), over the other views than their own.

    Views count by the pairs of samples that they were compared on: the fewer, the more of their agreement is chance.
    """
    others = view_of[:, None] != np.arange(values.shape[1])
    weights = overlaps[view_of]
    return np.asarray(np.mean(weights * values, axis=1, where=others) / np.mean(weights, axis=1, where=others))


def _reliability(option: _Option, n_samples: int) -> float:
    """Return the share of neighbours that two halves of the features have in common, 0 if it may be chance.

    It tells structure from noise where no other view confirms it. A single feature, which has no halves, counts less
    than any structure, and more than noise.
    """
    width, chance = option.part.shape[1], _DEVIATIONS / n_samples
    halves = np.random.default_rng(20260101).permutation(width) < width // 2
    if width < 2:
        values = option.part[option.rows]
        return _LEAST_WEIGHT * chance if values.max() > values.min() else 0.0
    graphs = [option.links(n_samples, np.flatnonzero(half)) for half in (halves, ~halves)]
    missing = np.ones((n_samples, 1), dtype=bool)
    missing[option.rows[option.rows < n_samples]] = False
    shared = float(_shared_links(graphs, np.zeros(2, dtype=np.intp), missing)[0, 1])
    return shared if shared > chance else 0.0


def _requested(normalisation: Any, views: Views) -> list[str]:
    """Return the scaling requested for each view, in working order."""
    requested = _by_view("normalisation", normalisation, views)
    if unknown := [name for name in requested if name not in ("auto", *RECIPES)]:
        raise ValueError(f"unknown normalisation {unknown[0]!r}; choose from auto, {', '.join(RECIPES)}")
    return requested


def asked_weights(view_weights: Any, views: Views) -> list[float | None]:
    """Return the weight asked for each view, in working order; None to let the data decide."""
    asked = [None if weight == "auto" else weight for weight in _by_view("view_weights", view_weights, views)]
    numbers = [weight for weight in asked if weight is not None]
    valid = [isinstance(number, int | float | np.number) and 0 <= number < np.inf for number in numbers]
    if not all(valid):
        wrong = numbers[valid.index(False)]
        raise ValueError(f"view_weights has {wrong!r}: a weight is 'auto' or a finite number that is not negative")
    if len(numbers) == views.n_views and not any(numbers):
        raise ValueError("view_weights are all 0: at least one view must count")
    return asked


def _by_view(parameter: str, value: Any, views: Views) -> list[Any]:
    """Return the value of a parameter for each view, in working order: "auto" where it is left open."""
    if isinstance(value, str):
        return [value] * views.n_views
    if isinstance(value, Mapping):
        if unknown := sorted(set(value) - set(views.names)):
            raise ValueError(f"{parameter} has no view named {unknown[0]!r}; the views are {', '.join(views.names)}")
        return [value.get(name, "auto") for name in views.names]
    if isinstance(value, Sequence | np.ndarray) and len(value) == views.n_views:
        return [value[v] for v in views.view_order]
    raise ValueError(f"{parameter}={value!r}: pass one value, or one for each of the {views.n_views} views")
