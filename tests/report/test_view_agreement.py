"""Agreement of views with a clustering, against brute force."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import silhouette_score

import tensormvc as tm
from tensormvc.report import _view_agreement
from tensormvc.report._view_agreement import agreement


def brute_force(view, labels, k):
    """The share of the links in a cluster, by loops over a matrix of distances."""
    unit = view / np.linalg.norm(view, axis=1, keepdims=True)
    distances = np.linalg.norm(unit[:, None] - unit[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    links = np.zeros(distances.shape, bool)
    for i, row in enumerate(distances):
        links[i, np.argsort(row)[:k]] = True
    links |= links.T
    same = labels[:, None] == labels[None]
    return (links & same).sum() / links.sum(), links


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 60)
    centres = 3 * np.eye(3, 5)
    return [centres[labels] + rng.normal(size=(60, 5)), rng.normal(size=(60, 4))], labels


def test_numbers_against_brute_force(data):
    views, labels = data
    found = agreement(views, labels)
    assert sorted(found.rows) == list(range(60))
    total = np.zeros((60, 60))
    for view, within, silhouette in zip(views, found.within, found.silhouette, strict=True):
        share, links = brute_force(view, labels, found.n_neighbors)
        total += links
        assert within == pytest.approx(share, abs=1e-15)
        unit = view / np.linalg.norm(view, axis=1, keepdims=True)
        assert silhouette == pytest.approx(silhouette_score(unit, labels), abs=1e-12)
    assert np.array_equal(found.graph.toarray(), total[np.ix_(found.rows, found.rows)])
    same = labels[:, None] == labels[None]
    assert found.chance == pytest.approx((same.sum() - 60) / (60 * 59))
    assert found.within[0] > 0.7 > found.chance + 0.2 > found.within[1]


def test_storage_does_not_matter(data):
    pandas = pytest.importorskip("pandas")
    views, labels = data
    expected = agreement(views, labels)
    for other in ([sp.csc_array(view) for view in views], [pandas.DataFrame(view) for view in views]):
        found = agreement(other, labels)
        assert found.within == expected.within
        np.testing.assert_allclose(found.silhouette, expected.silhouette, atol=1e-12)


def test_views_on_disk(data, tmp_path):
    views, labels = data
    pytest.importorskip("pyarrow")
    tm.datasets.save_views(tmp_path / "data", views)
    on_disk, _ = tm.datasets.load_views(tmp_path / "data", lazy=True)
    assert isinstance(on_disk[0], tm.datasets.RowSource)
    assert agreement(on_disk, labels).within == agreement(views, labels).within


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array])
def test_missing_samples_do_not_count(data, store):
    views, labels = data
    holes = views[0].copy()
    holes[::4] = np.nan
    present = np.flatnonzero(~np.isnan(holes[:, 0]))
    found, other = agreement([store(holes), views[1]], labels), agreement(views[1:], labels)
    share, _ = brute_force(holes[present], labels[present], found.n_neighbors)
    assert found.within == pytest.approx([share, other.within[0]], abs=1e-15)
    links = [part.graph.sum(axis=1)[np.argsort(part.rows)] for part in (found, other)]
    assert np.array_equal(np.flatnonzero(links[0] > links[1]), present)


def test_a_view_without_samples_says_nothing(data):
    views, labels = data
    empty = np.full((60, 3), np.nan)
    empty[0] = 1
    found = agreement([views[0], empty], labels)
    assert np.isnan([found.within[1], found.silhouette[1]]).all()
    assert found.within[0] == agreement(views[:1], labels).within[0]


@pytest.mark.parametrize("labels", [[0, 0, 0], [0, 1, 2]])
def test_few_samples_and_no_silhouette(labels):
    found = agreement([np.eye(3)], np.array(labels))
    assert found.n_neighbors == 2
    assert np.isnan(found.silhouette[0])
    assert found.within == [float(labels[0] == labels[1])] == [found.chance]


def test_many_samples_are_drawn_from(data, monkeypatch):
    views, labels = data
    monkeypatch.setattr(_view_agreement, "MOST_SAMPLES", 40)
    found = agreement(views, labels)
    assert len(set(found.rows.tolist())) == len(found.rows) == 40
    share, _ = brute_force(views[0][found.rows], labels[found.rows], found.n_neighbors)
    assert found.within[0] == pytest.approx(share, abs=1e-15)


@pytest.mark.parametrize("most", [40, 2000])
def test_the_order_of_the_rows_changes_nothing(data, monkeypatch, most):
    """The same samples are drawn, in the same order, so that every number is equal to the last bit."""
    views, labels = data
    monkeypatch.setattr(_view_agreement, "MOST_SAMPLES", most)
    found = agreement(views, labels)
    order = np.random.default_rng(1).permutation(60)
    moved = agreement([view[order] for view in views], labels[order])
    np.testing.assert_array_equal(order[moved.rows], found.rows)
    np.testing.assert_array_equal(moved.graph.toarray(), found.graph.toarray())
    assert (moved.within, moved.silhouette, moved.chance) == (found.within, found.silhouette, found.chance)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_empty_rows_count_as_missing(kind):
    rng = np.random.default_rng(0)
    first, second, labels = rng.normal(size=(40, 3)), rng.normal(size=(40, 2)), np.arange(40) % 3
    first[:8] = 0
    alone = agreement([kind(first[8:])], labels[8:])
    found = agreement([kind(first), second], labels)
    assert found.within[0] == alone.within[0]
    assert found.silhouette[0] == pytest.approx(alone.silhouette[0])
    assert np.isfinite(agreement([np.zeros((40, 2)), second], labels).within[0]), "a view of zeros alone is constant"


def test_samples_with_gaps_count(tmp_path):
    views, y = tm.datasets.make_multiview(120, n_clusters=3, random_state=0)
    complete = agreement(views, y)
    gaps = np.random.default_rng(0).integers(views[0].shape[1], size=120)
    views[0][np.arange(120), gaps] = np.nan
    found = agreement(views, y)
    assert found.within[0] == pytest.approx(complete.within[0], abs=0.1)
    views[0][:, 0] = np.nan  # the fit ignores a feature that nobody has
    assert np.isfinite(agreement(views, y).within).all()
