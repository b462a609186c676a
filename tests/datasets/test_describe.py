import numpy as np
import pytest
import scipy.sparse

from tensormvc.datasets import describe, load_views, save_views

RNG = np.random.default_rng(0)
DENSE = RNG.normal(size=(60, 5))
COUNTS = RNG.poisson(0.1, size=(60, 300))


def one(view, y=None):
    return describe([view], y).views[0]


def test_sizes_types_and_flaws():
    view = DENSE.copy()
    view[:, 1] = 7
    view[10] = view[3]
    view[20] = np.nan
    view[30, 0] = np.inf
    found = one(view)
    assert (found.n_features, found.dtype, found.storage) == (5, "float64", "dense")
    assert (found.n_duplicates, found.n_constant, found.n_missing, found.n_nonfinite) == (1, 1, 1, 1)
    assert found.minimum == np.min(view[np.isfinite(view)])
    assert found.maximum == 7


def test_sparse_and_dense_agree():
    dense, sparse = one(COUNTS), one(scipy.sparse.coo_array(COUNTS))
    assert sparse.storage == "sparse"
    for name in ("density", "minimum", "maximum", "n_duplicates", "n_constant"):
        assert getattr(dense, name) == getattr(sparse, name)


def test_empty_rows_are_those_that_others_are_not():
    view = COUNTS.copy()
    view[[4, 9]] = 0
    n_empty = int((view.sum(axis=1) == 0).sum())
    assert n_empty >= 2
    assert one(view).n_empty == one(scipy.sparse.csr_array(view)).n_empty == n_empty
    assert f"{n_empty} empty rows" in str(one(view))
    assert one(np.zeros((4, 2))).n_empty == 0
    assert one(np.array([[0.0, 0], [np.nan, np.nan]])).n_empty == 0


def test_duplicates_are_exact():
    """Rows of few small whole numbers, which a weak hash would confuse, counted by NumPy."""
    view = RNG.integers(0, 3, size=(3000, 6)).astype(float)
    assert one(view).n_duplicates == len(view) - len(np.unique(view, axis=0))
    assert one(view - 0.0).n_duplicates == one(np.where(view == 0, -0.0, view)).n_duplicates
    both = describe([view, np.arange(3000.0)[:, None]])
    assert both.n_duplicates == 0
    assert both.views[1].n_duplicates == 0
    assert describe([view, view]).n_duplicates == one(view).n_duplicates


def test_classes_and_their_order():
    y = np.repeat(["b", "a", "c"], 20)
    found = describe([DENSE], y)
    assert found.class_counts == {"a": 20, "b": 20, "c": 20}
    assert found.class_sorted is True
    assert describe([DENSE], np.arange(60) % 3).class_sorted is False
    assert describe([DENSE]).class_sorted is None
    assert "sorted by class: shuffle first" in str(found)


def test_kinds_of_input(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    save_views(tmp_path / "views", [DENSE])
    source = load_views(tmp_path / "views", lazy=True)[0][0]
    found = describe({"frame": pandas.DataFrame(DENSE), "disk": source})
    assert [view.name for view in found.views] == ["frame", "disk"]
    assert found.views[1].storage == "on disk"
    assert found.views[0].maximum == found.views[1].maximum == DENSE.max()
    table = pandas.DataFrame(found.to_dict())
    assert list(table["n_features"]) == [5, 5]
    assert describe(DENSE).n_samples == 60
    assert repr(found) == str(found)


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_extreme_values_do_not_warn(scale):
    one(DENSE * scale)
    one(np.full((4, 2), np.nan))


def test_wrong_arguments():
    with pytest.raises(ValueError, match="same number of samples"):
        describe([DENSE, DENSE[:3]])
    with pytest.raises(ValueError, match=r"must be a matrix .* shape \(4,\)"):
        describe(np.ones(4))
    with pytest.raises(ValueError, match="matrix of real numbers"):
        describe(DENSE * 1j)


def test_gaps_in_every_row_do_not_hide_the_values():
    view = DENSE.copy()
    view[np.arange(60), np.arange(60) % 5] = np.nan
    view[10:15] = np.nan
    found = one(view)
    assert (found.n_constant, found.n_duplicates, found.n_missing) == (0, 0, 5)
    assert (found.minimum, found.maximum) == (np.nanmin(view), np.nanmax(view))
