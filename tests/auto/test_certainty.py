"""How far to trust a result: data without clusters are called that, and separate clusters are not."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import norm

import tensormvc as tm
from tensormvc.auto._report import share_halfway

from .data import blobs, fit


def share(parts, labels, missing=None):
    missing = np.zeros((len(labels), len(parts)), dtype=bool) if missing is None else missing
    return share_halfway(SimpleNamespace(joint_parts=parts, views=SimpleNamespace(missing=missing)), labels)


def textbook_share(part, labels):
    """Centres without the sample itself; squared lengths of centres as means over pairs of different samples."""
    k = labels.max() + 1
    products = part @ part.T

    def mean(rows, columns):
        pairs = [products[i, j] for i in rows for j in columns if i != j]
        return np.mean(pairs) if pairs else products[rows[0], rows[0]]

    own = [np.flatnonzero(labels == c) for c in range(k)]
    squared = [[mean(a, a) + mean(b, b) - 2 * mean(a, b) for b in own] for a in own]
    total = 0
    for a in range(k):
        b = min((c for c in range(k) if c != a), key=lambda c: squared[a][c])
        pair = [(i, a, b) for i in own[a]] + [(i, b, a) for i in own[b]]
        halfway = 0
        for i, x, y in pair:
            towards = [mean([i], own[c]) - mean(own[c], own[c]) / 2 for c in (y, x)]
            halfway += abs(towards[0] - towards[1]) <= squared[a][b] / 4 or squared[a][b] <= 0
        total += len(own[a]) * halfway / len(pair)
    return total / len(labels)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("width", [2, 30])
def test_share_halfway_is_that_of_the_textbook(seed, width):
    rng = np.random.default_rng(seed)
    labels = np.array([0] * 7 + [1] * 5 + [2] * 4 + [3])
    part = rng.normal(size=(17, width)) + 2 * np.eye(4, width)[labels]
    wanted = textbook_share(part, labels)
    assert share([part], labels) == pytest.approx(wanted)
    assert share([sp.csr_array(part)], labels) == pytest.approx(wanted)
    # Views are summed, and so are their features; who lacks a view is compared in the other one.
    assert share([part[:, :1], part[:, 1:]], labels) == pytest.approx(wanted)
    assert share([part, np.zeros((17, 2))], labels, rng.random((17, 2)) < [0, 0.4]) == pytest.approx(wanted)


def test_share_halfway_of_known_distributions():
    """Errors of counting are below 0.02 at 4 000 samples, three standard deviations."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 2000)
    spread = np.sort(rng.random(4000))[:, None]
    assert share([spread], labels) == pytest.approx(0.25, abs=0.02)
    halves = np.sort(rng.normal(size=4000))[:, None]
    centre = np.sqrt(2 / np.pi)
    assert share([halves], labels) == pytest.approx(norm.cdf(centre / 2) - norm.cdf(-centre / 2), abs=0.02)
    for distance in (3, 4, 8):
        pair = rng.normal(size=4000)[:, None] + distance * labels[:, None]
        wanted = norm.cdf(0.75 * distance) - norm.cdf(0.25 * distance)
        assert share([pair], labels) == pytest.approx(wanted, abs=0.02)
        # Features of noise make it larger, but not much: centres are those of other samples.
        wide = np.hstack([pair, rng.normal(size=(4000, 20))])
        assert share([wide], labels) == pytest.approx(wanted, abs=0.02)
    assert share([pair], np.zeros(4000, dtype=int)) == 0


def one_normal_distribution(rng):
    hidden = rng.normal(size=(200, 5))
    return [hidden @ rng.normal(size=(5, 20)) + 0.3 * rng.normal(size=(200, 20)) for _ in range(2)]


def gradient(rng):
    place = rng.random((200, 1))
    return [np.sin(4 * place * rng.random(12) + 6 * rng.random(12)) + 0.05 * rng.normal(size=(200, 12)) for _ in "ab"]


def noise(rng):
    return [rng.normal(size=(200, width)) for width in (3, 10, 40)]


@pytest.mark.parametrize("n_clusters", [2, 5, "auto"])
@pytest.mark.parametrize("make", [one_normal_distribution, gradient, noise])
def test_data_without_clusters_warn(make, n_clusters):
    views = make(np.random.default_rng(0))
    with pytest.warns(UserWarning, match="the clusters are weak|parts of a continuum|no view confirms"):
        model = tm.MultiViewClustering(n_clusters, random_state=0).fit(views)
    assert not model.report_.certainty.startswith("clear")


def test_many_small_clusters_of_noise_warn():
    """With five samples per cluster, clusterings of noise agree; planted clusters of that size do not warn."""
    warned = 0
    for seed in range(6):
        values = np.random.default_rng(seed).normal(size=(120, 2 + 8 * (seed % 2)))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = tm.MultiViewClustering(24, random_state=0).fit([values, values.copy()])
        warned += any("continuum" in str(one.message) or "weak" in str(one.message) for one in caught)
        assert not caught or not model.report_.certainty.startswith("clear")
    assert warned >= 5
    views, y = blobs(120, n_clusters=24, widths=(12, 12))
    assert tm.metrics.ari(y, fit(views, 24).labels_) > 0.9


def test_views_with_clusters_of_their_own_are_never_clear():
    rng = np.random.default_rng(0)
    views = [6 * np.eye(4, 12)[rng.integers(4, size=200)] + rng.normal(size=(200, 12)) for _ in range(2)]
    with pytest.warns(UserWarning, match="no view confirms another"):
        model = tm.MultiViewClustering(4, random_state=0).fit(views)
    assert not model.report_.certainty.startswith("clear")


@pytest.mark.parametrize("n_clusters", [2, 3, 8])
def test_separate_clusters_are_clear(n_clusters):
    """Any warning is an error."""
    report = fit(blobs(160, n_clusters=n_clusters)[0], n_clusters).report_
    assert report.certainty.startswith("clear")
    assert report.halfway < 0.1
