"""The report of `MultiViewClustering`: what was chosen, and why, as data and as text."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..backend.arrays import is_sparse
from ..backend.linalg import one_hot
from ..backend.threads import parallel_map
from ..graphs._distances import row_squares
from ..views import Views
from ._evidence import Evidence
from ._looks import ChosenScaling, asked_weights
from ._members import FOLLOWS_PRESENCE, Look, Member, follows_presence
from ._number import ClusterNumber
from ._samples import Presence

# Agreement of the clusterings from which a result is called clear, and below which it is called weak.
_CLEAR = 0.8
_WEAK = 0.5
# Share of samples half-way between clusters: from the first value on, clusters may be parts of a continuum; the second
# is expected without any gaps.
_CONTINUOUS = 1 / 6
_WITHOUT_GAPS = 1 / 4
# The same for small clusters, whose centres are further apart by chance, and the mean size up to which they are small.
_CONTINUOUS_IF_SMALL = 1 / 8
_SMALL = 8


@dataclass(frozen=True)
class LookSummary:
    """One way to scale the views: its name, how well its clusterings agree with all, and its share in the consensus."""

    name: str
    agreement: float
    weight: float


@dataclass(frozen=True)
class AutoReport:
    """What `MultiViewClustering` chose, and why; ``print`` shows it as text.

    Attributes
    ----------
    normalisations : list of ChosenScaling
        The scaling of each view, in the order given, in the way of scaling with the most weight.
    view_weights : dict of str to float
        Weights of the views in that scaling, with mean 1.
    asked_weights : dict of str to float
        Weights that were set by `view_weights`.
    looks : list of LookSummary
        The ways of scaling that were combined, most weight first.
    agreement : float
        Mean adjusted Rand index between the clusterings, by weight: how clear the clusters are.
    halfway : float
        Share of the samples that lie half-way between neighbouring clusters: 0 if clusters are far apart, about 0.25 if
        they are parts of a continuum.
    related : bool
        Whether the views agree on neighbours beyond chance.
    n_clusters : int
        Number of clusters.
    cluster_number : ClusterNumber or None
        How the number of clusters was estimated; None if it was set.
    members : list of Member
        The clusterings that were combined, most weight first.
    n_samples : int
        Number of samples.
    effort : str
        Level of effort: "low", "medium", "high" or "full".
    n_landmarks : int
        Number of samples that were clustered; the others got the labels of their nearest landmarks.
    n_gaps : dict of str to int
        Number of single missing values in each view, which were imputed.
    follows_presence : float
        Adjusted mutual information between the clusters and which views samples have: about 0 if the two are
        independent.
    n_single : int
        Number of samples that have only one view.
    n_empty : int
        Number of samples without any value, which were left out.
    left_out : list of str
        Parts that were skipped because the time budget was too short.
    seconds : float
        Duration of the fit.
    """

    normalisations: list[ChosenScaling]
    view_weights: dict[str, float]
    asked_weights: dict[str, float]
    looks: list[LookSummary]
    agreement: float
    halfway: float
    related: bool
    n_clusters: int
    cluster_number: ClusterNumber | None
    members: list[Member]
    n_samples: int
    effort: str
    n_landmarks: int
    n_gaps: dict[str, int]
    follows_presence: float
    n_single: int
    n_empty: int
    left_out: list[str]
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, without the labels of the members."""
        members = [{"name": m.name, "look": m.look, "score": m.score, "weight": m.weight} for m in self.members]
        number = None if self.cluster_number is None else self.cluster_number.statement
        levels = [] if self.cluster_number is None else [asdict(level) for level in self.cluster_number.levels]
        plain = asdict(replace(self, members=[], cluster_number=None))
        return {**plain, "members": members, "cluster_number": number, "levels": levels, "certainty": self.certainty}

    @property
    def certainty(self) -> str:
        """How clear the clusters are, and what to do about it."""
        found = f"clusterings from different graphs agree with a mean adjusted Rand index of {self.agreement:.2f}"
        if self.agreement >= _CLEAR and self.related and not self._is_continuous:
            return f"clear: {found}"
        if self.agreement >= _WEAK:
            if self._is_continuous:
                found += f", but {self._between}"
            elif not self.related:
                found += ", but no view confirms another"
            return f"moderate: {found}; check samples with a low confidence"
        return f"weak: {found}; try another number of clusters; there may also be no clusters in the data"

    @property
    def _is_continuous(self) -> bool:
        are_small = self.n_landmarks < _SMALL * self.n_clusters
        return self.halfway >= (_CONTINUOUS_IF_SMALL if are_small else _CONTINUOUS)

    @property
    def _between(self) -> str:
        usual = f"{100 * _WITHOUT_GAPS:.0f} % would if there were no gaps"
        return f"{100 * self.halfway:.0f} % of the samples lie half-way between clusters ({usual})"

    @property
    def warnings(self) -> list[str]:
        """What a user should know before trusting the result."""
        found = []
        if not self.related:
            found.append(
                "no view confirms another: their nearest neighbours agree no more often than by chance; check that the "
                "rows of all views are the same samples (views were weighted by how reproducible each is by itself)"
            )
        if self.follows_presence > FOLLOWS_PRESENCE:
            found.append(
                "the clusters follow which views samples have (adjusted mutual information "
                f"{self.follows_presence:.2f}): expected if some clusters lack certain views, otherwise an artefact"
            )
        if self.n_empty:
            left_out = f"{self.n_empty} samples have no value in any view"
            found.append(f"{left_out}: they were left out, and got label 0 with confidence 0")
        if self.agreement < _WEAK:
            found.append(f"the clusters are {self.certainty}")
        elif self._is_continuous:
            found.append(f"the clusters may be parts of a continuum: {self._between}")
        return found

    def __str__(self) -> str:
        why = "set by n_clusters" if self.cluster_number is None else self.cluster_number.statement
        lines = ["Views", *(f"  {choice.view}: {self.about_view(choice)}" for choice in self.normalisations)]
        if self.n_single and len(self.normalisations) > 1:
            lines.append(f"  {self.n_single:,} samples have only one view")
        lines += [f"Clusters: {self.n_clusters} ({why})", f"Certainty: {self.certainty}"]
        lines += [f"Note: {warning}" for warning in self.warnings]
        if self.n_landmarks < self.n_samples - self.n_empty:
            share = f"{self.n_landmarks:,} of {self.n_samples:,} samples"
            lines.append(f"Landmarks: {share} were clustered; the others got the labels of their nearest landmarks")
        lines.append(f"Effort: {self.effort}")
        lines.append(f"Consensus of {len(self.members)} clusterings, by the scaling of the views (agreement; weight)")
        lines += [f"  {look.name}: {look.agreement:.2f}; {100 * look.weight:.0f} %" for look in self.looks]
        if self.left_out:
            lines.append(f"Left out for lack of time: {', '.join(self.left_out)}")
        return "\n".join(lines)

    def about_view(self, choice: ChosenScaling) -> str:
        """Return the weight of a view, its scaling, and what it lacks."""
        parts = [f"weight {self.view_weights[choice.view]:.2f}"]
        if choice.view in self.asked_weights:
            parts[0] += f" (set to {self.asked_weights[choice.view]:g} by view_weights)"
        parts.append(choice.meaning)
        if choice.shared is not None:
            parts.append(f"{100 * max(choice.shared, 0):.0f} % of its nearest neighbours are shared, beyond chance")
        if choice.n_missing:
            parts.append(f"{choice.n_missing:,} samples lack it")
        if gaps := self.n_gaps.get(choice.view):
            parts.append(f"{gaps:,} single values were missing and were imputed")
        return "; ".join(parts)


def report_on(
    looks: list[Look], views: Views, presence: Presence, view_weights: Any, labels: NDArray[np.intp], **others: Any
) -> AutoReport:
    """Return the report on a fit: what the looks and the counts of samples tell, and other attributes as they are."""
    evidence = looks[0].evidence
    members = [member for look in looks for member in look.members]
    asked = zip(views.names, asked_weights(view_weights, views), strict=True)
    given = np.argsort(views.view_order)
    halfway = parallel_map(lambda look: share_halfway(look.evidence, labels), looks)
    return AutoReport(
        # Count missing samples among all samples, not only among the landmarks on which scalings were chosen.
        normalisations=[replace(evidence.choices[v], n_missing=int(presence.n_missing[v])) for v in given],
        view_weights={views.names[v]: float(evidence.weights[v]) for v in given},
        asked_weights={name: float(weight) for name, weight in asked if weight is not None},
        looks=[LookSummary(look.evidence.name, look.agreement, look.weight) for look in looks],
        agreement=sum(look.weight * look.agreement for look in looks),
        halfway=float(np.dot([look.weight for look in looks], halfway)),
        related=evidence.related,
        members=sorted(members, key=lambda member: -member.weight),
        n_samples=presence.n_samples,
        n_gaps={name: count for name, count in zip(views.names, views.n_gaps, strict=True) if count},
        follows_presence=follows_presence(evidence.views.missing, labels),
        n_single=presence.n_single,
        n_empty=presence.n_empty,
        **others,
    )


def share_halfway(evidence: Evidence, labels: NDArray[np.intp]) -> float:
    """Return the share of the samples that lie half-way between their cluster and its neighbour.

    On the line through the centres of two clusters, at 0 and at 1, these are between ¼ and ¾: a quarter of the samples
    if they are spread evenly, 31 % if a normal distribution is cut in half, 16 % of two normal distributions whose
    centres are four standard deviations apart. Clusters are compared with the one of the nearest centre, and count by
    their size. A sample does not count for the centre of its own cluster, and is compared in the views that it has.

    Parameters
    ----------
    evidence : Evidence
        The scaled views.
    labels : ndarray of int of shape (n,)
        The clusters; all numbers from 0 occur.
    """
    k = int(labels.max()) + 1
    if k == 1:
        return 0.0
    near, apart, distances = np.zeros((len(labels), k)), np.zeros((len(labels), k)), np.zeros((k, k))
    for part, lacking in zip(evidence.joint_parts, evidence.views.missing.T, strict=True):
        rows = np.flatnonzero(~lacking)
        values, own, at = part[rows], labels[rows], np.arange(len(rows))
        members, sizes = one_hot(own, k), np.bincount(own, minlength=k)
        sums = members.T @ values
        products = np.asarray(values @ (sums.toarray() if is_sparse(sums) else sums).T, dtype=np.float64)
        several = sizes[own] > 1
        products[at, own] -= np.where(several, row_squares(values), 0)
        # The mean product with the other samples of each cluster, whose means are the squared lengths of the centres.
        products /= np.maximum(sizes - (several[:, None] & (own[:, None] == np.arange(k))), 1)
        between = (members.T @ products) / np.maximum(sizes, 1)[:, None]
        lengths = np.diagonal(between)
        squared = lengths[:, None] + lengths - between - between.T
        near[rows] += products - lengths / 2
        apart[rows] += squared[own]
        distances += squared
    np.fill_diagonal(distances, np.inf)
    sizes, found = np.bincount(labels), 0.0
    for cluster, other in enumerate(np.argmin(distances, axis=1)):
        pair = np.flatnonzero((labels == cluster) | (labels == other))
        opposite = np.where(labels[pair] == cluster, other, cluster)
        offset, gap = np.abs(near[pair, opposite] - near[pair, labels[pair]]), apart[pair, opposite]
        found += sizes[cluster] * float(np.mean((offset <= gap / 4) | (gap <= 0)))
    return found / len(labels)
