"""Comparison of several candidates over several cases.

Average ranks with the Friedman test and the critical difference of the Nemenyi test (J. Demšar, "Statistical
Comparisons of Classifiers over Multiple Data Sets", JMLR 7, 2006), and paired Wilcoxon signed-rank tests with Holm's
correction, which, unlike differences of average ranks, do not depend on the other candidates (A. Benavoli, G. Corani,
F. Mangili, "Should We Really Use Post-Hoc Tests Based on Mean-Ranks?", JMLR 17, 2016).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

# Scores that differ by rounding only are equal.
_DIGITS = 9


def rank(scores: NDArray[np.float64]) -> tuple[list[float], float, float]:
    """Rank candidates by their scores; higher scores are better.

    Parameters
    ----------
    scores : ndarray of shape (n_cases, n_candidates)
        Scores of at least two candidates. Ties share their ranks.

    Returns
    -------
    ranks : list of float
        The average rank of each candidate over the cases; rank 1 is the best.
    p_value : float
        Of the Friedman test that all candidates are equal, in its chi-squared form and corrected for ties; see
        J. Demšar, "Statistical Comparisons of Classifiers over Multiple Data Sets", JMLR 7, 2006.
    critical_difference : float
        Average ranks that differ by less do not differ significantly at the 5 % level (Nemenyi test).

    Examples
    --------
    >>> import numpy as np
    >>> ranks, p_value, difference = rank(np.array([[3.0, 2.0, 1.0], [3.0, 1.0, 2.0], [3.0, 2.0, 1.0]]))
    >>> [round(rank, 2) for rank in ranks], round(difference, 2)
    ([1.0, 2.33, 2.67], 1.91)
    """
    n, k = scores.shape
    ranks = stats.rankdata(-scores, axis=1)
    means = ranks.mean(axis=0)
    correction = float(np.mean([stats.tiecorrect(row) for row in ranks]))
    p_value = 1.0
    if correction > 0:  # not all candidates are tied in every case
        statistic = 12 * n / (k * (k + 1)) * float(np.sum((means - (k + 1) / 2) ** 2)) / correction
        p_value = float(stats.chi2.sf(statistic, k - 1))
    studentized = float(stats.studentized_range.ppf(0.95, k, np.inf)) / np.sqrt(2)
    difference = float(studentized * np.sqrt(k * (k + 1) / (6 * n)))
    return means.tolist(), p_value, difference


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number (S. Holm, Scandinavian Journal of Statistics 6, 1979).

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    weighted = np.asarray(p_values)[order] * np.arange(len(p_values), 0, -1)
    corrected = np.empty(len(p_values))
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(weighted))
    return corrected.tolist()


def signed_rank(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return the two-sided p-value of the Wilcoxon signed-rank test; equal pairs are left out."""
    # Differences that are equal but for rounding share their rank.
    differences = np.round(first - second, _DIGITS)
    differences = differences[differences != 0]
    return float(stats.wilcoxon(differences).pvalue) if len(differences) else 1.0


class Pair(NamedTuple):
    """Two candidates, the first of which has the better average rank."""

    first: str
    second: str
    wins: int
    losses: int
    difference: float
    p_value: float
    corrected: float


@dataclass(frozen=True)
class Comparison:
    """Candidates over the same cases, in the order of their average ranks.

    Parameters
    ----------
    names : list of str
        The candidates, the best first.
    scores : ndarray of shape (n_cases, n_candidates)
        Their scores, in this order.
    ranks : list of float
        Average ranks.
    p_value : float
        Of the Friedman test.
    critical_difference : float
        Of the Nemenyi test; see `rank`.
    """

    names: list[str]
    scores: NDArray[np.float64]
    ranks: list[float]
    p_value: float
    critical_difference: float

    @cached_property
    def pairs(self) -> list[Pair]:
        """All pairs of candidates with their Wilcoxon tests, corrected for the number of pairs."""
        columns = list(combinations(range(len(self.names)), 2))
        p_values = [signed_rank(self.scores[:, i], self.scores[:, j]) for i, j in columns]
        return [
            Pair(
                self.names[i],
                self.names[j],
                wins=int(np.sum(gaps > 0)),
                losses=int(np.sum(gaps < 0)),
                difference=float(gaps.mean()),
                p_value=p_value,
                corrected=corrected,
            )
            for (i, j), p_value, corrected in zip(columns, p_values, holm(p_values), strict=True)
            for gaps in [self.scores[:, i] - self.scores[:, j]]
        ]

    def groups(self, level: float = 0.05) -> Iterator[tuple[int, int]]:
        """Yield the first and the last of candidates in a row of which no pair differs significantly.

        These are the bars of a critical-difference diagram; those within another one are left out.
        """
        unlike = {(pair.first, pair.second) for pair in self.pairs if pair.corrected < level}
        end = 0
        for start in range(len(self.names)):
            last = start
            while last + 1 < len(self.names) and not any(
                (name, self.names[last + 1]) in unlike for name in self.names[start : last + 1]
            ):
                last += 1
            if last > max(start, end):
                yield start, last
                end = last


def compare(names: Sequence[str], scores: NDArray[np.float64]) -> Comparison:
    """Compare candidates by their scores (n_cases, n_candidates); higher scores are better.

    Examples
    --------
    >>> import numpy as np
    >>> found = compare(["a", "b"], np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0], [8.0, 9.0], [1.0, 5.0], [2.0, 4.5]]))
    >>> found.names, found.pairs[0].wins, round(found.pairs[0].p_value, 5)
    (['b', 'a'], 6, 0.03125)
    """
    scores = np.round(scores, _DIGITS)
    ranks, p_value, difference = rank(scores)
    order = np.argsort(ranks, kind="stable")
    return Comparison([names[i] for i in order], scores[:, order], [ranks[i] for i in order], p_value, difference)
