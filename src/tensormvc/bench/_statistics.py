"""Average ranks over several cases, with the Friedman test and the critical difference of the Nemenyi test."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats


@dataclass(frozen=True)
class Ranking:
    """Average ranks of candidates over cases; rank 1 is the best.

    `p_value` belongs to the Friedman test that all candidates are equal. Two average ranks that differ by less than
    `critical_difference` do not differ significantly at the 5 % level.
    """

    names: tuple[str, ...]
    ranks: tuple[float, ...]
    n_cases: int
    p_value: float
    critical_difference: float


def rank(names: Sequence[str], scores: NDArray[np.float64]) -> Ranking:
    """Rank candidates by their scores; higher scores are better.

    Parameters
    ----------
    names : sequence of str
        Names of the candidates, at least two.
    scores : ndarray of shape (n_cases, n_candidates)
        Ties share their ranks.

    Returns
    -------
    Ranking
        With the chi-squared form of the Friedman test, corrected for ties; see J. Demšar, "Statistical Comparisons of
        Classifiers over Multiple Data Sets", JMLR 7, 2006.

    Examples
    --------
    >>> import numpy as np
    >>> ranking = rank(["a", "b", "c"], np.array([[3.0, 2.0, 1.0], [3.0, 1.0, 2.0], [3.0, 2.0, 1.0]]))
    >>> [round(rank, 2) for rank in ranking.ranks], round(ranking.critical_difference, 2)
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
    return Ranking(tuple(names), tuple(float(mean) for mean in means), n, p_value, difference)
