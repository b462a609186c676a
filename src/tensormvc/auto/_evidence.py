"""What several views say together about which samples are alike, found without labels.

Views describe the same samples, so neighbours in one view that are neighbours in another too are hardly an accident.
That agreement decides two things that nothing else tells: which normalisation suits a view, and what weight it gets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..graphs._fuzzy import Neighbours, find_neighbours
from ..views import Views
from ._scaling import (
    MEANINGS,
    NORMALISATIONS,
    lean,
    normalised,
    suitable_normalisations,
    usual_normalisation,
)

# Neighbours of each sample in each view: few and many, of which either may be right.
NEIGHBOURS = (10, 20)
# Samples that normalisations are compared on.
_COMPARED = 2500
_ROUNDS = 2
# A view that no other confirms keeps this share of the weight of the best one.
_LEAST_WEIGHT = 0.05


@dataclass(frozen=True)
class ChosenNormalisation:
    """How one view is scaled, and why.

    Attributes
    ----------
    view : str
        Name of the view.
    name : str
        Name of the normalisation.
    confirmed : float or None
        Share of its neighbour pairs that the other views confirm, beyond chance; None where nothing was compared.
    reason : str
        In words.
    """

    view: str
    name: str
    confirmed: float | None
    reason: str


@dataclass(frozen=True)
class Evidence:
    """Normalised views, their weights, and who is near to whom.

    Attributes
    ----------
    views : Views
        The normalised views at unit length, in working order; they count as given in that order.
    parts : list of arrays (n, d_v)
        The normalised views, each with a mean squared length of 1.
    weights : ndarray of shape (m,)
        Of the views, with mean 1.
    normalisations : list of ChosenNormalisation
        One a view.
    """

    views: Views
    parts: list[Any]
    weights: NDArray[np.float64]
    normalisations: list[ChosenNormalisation]

    def rows(self, selected: slice) -> Evidence:
        """Return the evidence of some of the samples."""
        views = replace(
            self.views,
            arrays=tuple(array[selected] for array in self.views.arrays),
            order=np.arange(len(self.views.order[selected])),
            row_keys=self.views.row_keys[selected],
            missing=self.views.missing[selected],
        )
        return replace(self, views=views, parts=[part[selected] for part in self.parts])

    def joint_parts(self) -> list[Any]:
        """Return the views scaled so that side by side they count by their weights."""
        return [part * np.sqrt(weight) for part, weight in zip(self.parts, self.weights, strict=True)]


class NeighbourGraphs:
    """The graphs that the evidence gives for a number of neighbours, each computed when first asked for.

    Parameters
    ----------
    evidence : Evidence
        Of the samples to link.
    """

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        n = evidence.views.n_samples
        self.sizes = tuple(dict.fromkeys(min(k, n - 1) for k in NEIGHBOURS))
        self._lists: list[Neighbours] | None = None
        self._joint: Neighbours | None = None

    @property
    def lists(self) -> list[Neighbours]:
        """Neighbours of the samples in each view."""
        if self._lists is None:
            self._lists = [find_neighbours([part], self.sizes[-1]) for part in self.evidence.parts]
        return self._lists

    def view_graphs(self, n_neighbors: int) -> list[sp.csr_array]:
        """Return the 0/1 graph of each view."""
        return [lists.nearest(n_neighbors).link_graph() for lists in self.lists]

    def fused(self, kind: str, n_neighbors: int) -> sp.csr_array:
        """Return one graph of all views.

        Parameters
        ----------
        kind : {"sum", "agreement", "joint"}
            The weighted sum of the views' fuzzy graphs, in which one view is enough for a link; the squared weighted
            number of views that have a link, in which several are needed; or the fuzzy graph of the weighted views side
            by side.
        n_neighbors : int
            One of ``sizes``.
        """
        weights = self.evidence.weights
        if kind == "joint":
            if self._joint is None:
                self._joint = find_neighbours(self.evidence.joint_parts(), self.sizes[-1])
            return self._joint.nearest(n_neighbors).fuzzy_graph()
        if kind == "agreement":
            graphs = self.view_graphs(n_neighbors)
            total = sum(weight * graph for weight, graph in zip(weights, graphs, strict=True))
            return sp.csr_array(total.power(2))
        fuzzy = [lists.nearest(n_neighbors).fuzzy_graph() for lists in self.lists]
        return sp.csr_array(sum(weight / graph.sum() * graph for weight, graph in zip(weights, fuzzy, strict=True)))


def gather_evidence(views: Views, normalisation: Any = "auto") -> Evidence:
    """Normalise the views and weigh them.

    Parameters
    ----------
    views : Views
        Raw values, on the host, in working order.
    normalisation : "auto", a name, or one of both for each view (a sequence in the order given, or a mapping by name)
        How to scale the views.

    Returns
    -------
    Evidence
    """
    raw = [lean(array) for array in views.arrays]
    asked = _asked(normalisation, views)
    few = [part[: min(_COMPARED, views.n_samples)] for part in raw]
    chosen, confirmed = _choose(few, asked)
    parts = [normalised(part, name) for part, name in zip(raw, chosen, strict=True)]
    choices = [
        ChosenNormalisation(view, name, score, _reason(name, wish, score))
        for view, name, wish, score in zip(views.names, chosen, asked, confirmed, strict=True)
    ]
    unit = tuple(NORMALISATIONS["unit"](part) for part in parts)
    working = replace(
        views, arrays=unit, order=np.arange(views.n_samples), sample_ids=None, as_given=(None,) * views.n_views
    )
    return Evidence(working, parts, _weights(confirmed), choices)


def _asked(normalisation: Any, views: Views) -> list[str]:
    """Return what is asked for each view in working order."""
    if isinstance(normalisation, str):
        asked = [normalisation] * views.n_views
    elif isinstance(normalisation, Mapping):
        if unknown := sorted(set(normalisation) - set(views.names)):
            raise ValueError(f"normalisation has no view named {unknown[0]!r}; there are {', '.join(views.names)}")
        asked = [normalisation.get(name, "auto") for name in views.names]
    elif isinstance(normalisation, Sequence) and len(normalisation) == views.n_views:
        asked = [normalisation[v] for v in views.view_order]
    else:
        raise ValueError(
            f"normalisation={normalisation!r}: expected a name, or one for each of the {views.n_views} views"
        )
    for name in asked:
        if name != "auto" and name not in NORMALISATIONS:
            raise ValueError(f"unknown normalisation {name!r}; there are auto, {', '.join(NORMALISATIONS)}")
    return asked


def _choose(raw: list[Any], asked: list[str]) -> tuple[list[str], list[float | None]]:
    """Return for each view the normalisation whose neighbours the other views confirm most, and that share."""
    n = raw[0].shape[0]
    k = min(NEIGHBOURS[0], n - 1)
    allowed = [
        suitable_normalisations(part) if wish == "auto" else [wish] for part, wish in zip(raw, asked, strict=True)
    ]
    if len(raw) == 1 or n <= 2:
        usual = [usual_normalisation(part) if wish == "auto" else wish for part, wish in zip(raw, asked, strict=True)]
        return usual, [None] * len(raw)
    graphs = [
        {name: find_neighbours([normalised(part, name)], k).graph() for name in names}
        for part, names in zip(raw, allowed, strict=True)
    ]
    # At first every normalisation of the other views has a say, then the chosen ones.
    speakers = [list(names) for names in allowed]
    for _ in range(_ROUNDS):
        scores = [
            {name: _confirmed(graphs, speakers, v, name) for name in candidates} for v, candidates in enumerate(graphs)
        ]
        chosen = [max(score, key=lambda name, score=score: score[name]) for score in scores]  # type: ignore[misc]
        speakers = [[name] for name in chosen]
    return chosen, [score[name] for score, name in zip(scores, chosen, strict=True)]


def _confirmed(graphs: list[dict[str, sp.csr_array]], speakers: list[list[str]], view: int, name: str) -> float:
    """Return the mean share of links that a view has in common with the others, beyond chance."""
    mine = graphs[view][name]
    shares = [
        np.mean([_shared(mine, graphs[other][spoken]) for spoken in names])
        for other, names in enumerate(speakers)
        if other != view
    ]
    return float(np.mean(shares))


def _shared(one: sp.csr_array, other: sp.csr_array) -> float:
    """Return how many links two graphs share, as a share of the (geometric) mean number, less what chance gives."""
    n = one.shape[0]
    size = np.sqrt(float(one.nnz) * other.nnz)
    return float(one.multiply(other).sum() / size - size / (n * (n - 1)))


def _weights(confirmed: list[float | None]) -> NDArray[np.float64]:
    scores = np.array([1.0 if score is None else score for score in confirmed])
    best = scores.max()
    if best <= 0:
        return np.ones(len(scores))
    weights = np.maximum(scores, _LEAST_WEIGHT * best)
    return np.asarray(weights / weights.mean())


def _reason(name: str, wish: str, score: float | None) -> str:
    why = "asked for" if wish != "auto" else "by the look of its values, as there is no other view to ask"
    if wish == "auto" and score is not None:
        why = f"the other views confirm {100 * score:.1f} % of its neighbours beyond chance, more than under any other"
    return f"{MEANINGS[name]}: {why}"
