import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from tensormvc.bench._statistics import rank


def test_by_hand():
    """Four cases, three candidates; the ranks can be counted."""
    scores = np.array([[90.0, 80.0, 70.0], [85.0, 85.0, 60.0], [50.0, 70.0, 60.0], [99.0, 98.0, 97.0]])
    ranks, p_value, _ = rank(scores)
    assert ranks == pytest.approx((6.5 / 4, 6.5 / 4, 11 / 4))
    # χ² = 12·4/(3·4) Σ(R − 2)² / (1 − 6/(4·3·8)), with one tie of two.
    statistic = 4 * (2 * 0.375**2 + 0.75**2) / (1 - 6 / 96)
    assert p_value == pytest.approx(np.exp(-statistic / 2))  # χ² with two degrees of freedom


@pytest.mark.parametrize(("k", "q"), [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (6, 2.850), (10, 3.164)])
def test_critical_difference_of_the_printed_table(k, q):
    """Demšar, JMLR 2006, table 5a: q at 0.05, and his example: 4 classifiers on 14 data sets, 1.25."""
    n = 14
    *_, difference = rank(np.tile(np.arange(k, dtype=float), (n, 1)))
    assert difference == pytest.approx(q * np.sqrt(k * (k + 1) / (6 * n)), rel=4e-4)
    if k == 4:
        assert difference == pytest.approx(1.25, abs=0.005)


@given(arrays(np.float64, st.tuples(st.integers(2, 8), st.integers(3, 6)), elements=st.integers(0, 5).map(float)))
def test_as_scipy(scores):
    ranks, p_value, _ = rank(scores)
    if (scores == scores[:, :1]).all():
        assert p_value == 1
        return
    assert p_value == pytest.approx(stats.friedmanchisquare(*scores.T).pvalue, abs=1e-12)
    assert sum(ranks) == pytest.approx(scores.shape[1] * (scores.shape[1] + 1) / 2)
