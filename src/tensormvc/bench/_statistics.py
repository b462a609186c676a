"""Average ranks over several cases, with the Friedman test and the critical difference of the Nemenyi test."""

import numpy as np
from numpy.typing import NDArray
from scipy import stats


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
