import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from tensormvc.bench._statistics import compare, holm, rank, signed_rank


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


def test_holm_by_hand():
    """Holm's own steps: the smallest times 4, the next times 3, and never less than the one before."""
    assert holm([0.005, 0.03, 0.011, 0.02]) == pytest.approx([0.02, 0.04, 0.033, 0.04])
    assert holm([0.5, 0.9]) == [1.0, 1.0]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_rejects_what_the_sequential_rule_rejects(p_values):
    corrected = holm(p_values)
    for level in (0.01, 0.05, 0.5):
        rejected = 0
        for steps, value in enumerate(sorted(p_values)):
            if value * (len(p_values) - steps) > level:
                break
            rejected += 1
        assert sum(value <= level for value in corrected) == rejected
    assert all(ours >= theirs for ours, theirs in zip(corrected, p_values, strict=True))


@pytest.mark.parametrize("n", range(1, 11))
def test_signed_rank_of_one_sided_cases(n):
    """All n differences have one sign: of the 2ⁿ equally likely signs, two are as extreme."""
    worse = np.zeros(n)
    assert signed_rank(worse + np.arange(1.0, n + 1), worse) == pytest.approx(2 / 2**n)


@given(arrays(np.float64, st.tuples(st.integers(3, 7), st.just(2)), elements=st.integers(0, 50).map(float)))
def test_signed_rank_as_scipy(scores):
    first, second = scores.T
    gaps = (first - second)[first != second]
    assert signed_rank(first, second) == (stats.wilcoxon(gaps).pvalue if len(gaps) else 1.0)
    assert signed_rank(first + 1e-12, second) == signed_rank(first, second)


def test_comparison_and_its_groups():
    """Three candidates: two that take turns, and one that always loses by far."""
    turns = np.tile([1.0, -1.0], 10) * np.arange(1, 21) / 10
    scores = np.column_stack([np.full(20, 50.0), 90 + turns, np.full(20, 90.1)])
    found = compare(["low", "turns", "even"], scores)
    assert found.names[2] == "low"
    assert [found.scores[0, i] for i in range(3)] == [
        dict(zip(["low", "turns", "even"], scores[0], strict=True))[n] for n in found.names
    ]
    assert list(found.groups()) == [(0, 1)]
    worst = [pair for pair in found.pairs if pair.second == "low"]
    assert [(pair.wins, pair.losses) for pair in worst] == [(20, 0), (20, 0)]
    assert max(pair.corrected for pair in worst) < 0.05
    assert sum(pair.difference for pair in worst) == pytest.approx(80.1 + turns.mean())
    # Three that cannot be told apart are one group, and with a level of 1 almost everything differs.
    same = compare(["a", "b", "c"], np.ones((4, 3)))
    assert list(same.groups()) == [(0, 2)]
    assert same.p_value == 1


def test_scores_that_differ_by_rounding_are_equal():
    scores = np.array([[0.1 + 0.2, 0.3, 0.2], [0.3, 0.1 + 0.2, 0.1], [0.5, 0.5, 0.4]])
    found = compare(["a", "b", "c"], scores)
    assert found.ranks == [1.5, 1.5, 3.0]
    assert (found.pairs[0].wins, found.pairs[0].losses) == (0, 0)
