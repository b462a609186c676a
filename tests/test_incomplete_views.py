"""Data as they are measured: single gaps, missing samples, tables of different samples."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import tensormvc as tm
from tensormvc.views import as_views, join_ids, take_rows


def lenient(views, **options):
    return as_views(views, unit=False, lenient=True, **options)


def dense(array):
    return array.toarray() if sp.issparse(array) else np.asarray(array)


def gappy_views(seed, n=20, dims=(4, 3, 1)):
    """Views in which a tenth of the rows and a fifth of the other values are NaN; no sample lacks all views."""
    rng = np.random.default_rng(seed)
    views = [rng.normal(size=(n, d)) for d in dims]
    views[0] = np.round(views[0])
    for view in views:
        view[rng.random(view.shape) < 0.2] = np.nan
        view[rng.random(n) < 0.1] = np.nan
    views[0][np.all([np.isnan(view).all(axis=1) for view in views], axis=0)] = 1
    return views


def assert_same_views(first, second):
    for a, b in zip(first.arrays, second.arrays, strict=True):
        np.testing.assert_array_equal(dense(a), dense(b))
    np.testing.assert_array_equal(first.row_keys, second.row_keys)
    np.testing.assert_array_equal(first.missing, second.missing)
    assert first.n_gaps == second.n_gaps


@given(seed=st.integers(0, 10**6), kind=st.sampled_from([np.asarray, sp.csr_array]))
def test_gaps_stay_and_missing_rows_are_zero(seed, kind):
    views = gappy_views(seed)
    made = lenient([kind(view) for view in views], canonical=False, keep_view_order=True)
    for v, view in enumerate(views):
        lacking = np.isnan(view).all(axis=1)
        np.testing.assert_array_equal(made.missing[:, v], lacking)
        np.testing.assert_array_equal(dense(made.arrays[v]), np.where(lacking[:, None], 0, view))
        assert made.n_gaps[v] == np.isnan(view[~lacking]).sum()


@given(seed=st.integers(0, 10**6))
def test_order_carries_no_information_with_gaps(seed):
    rng = np.random.default_rng(seed)
    views = gappy_views(seed)
    copies = rng.integers(0, 20, size=5)
    views = [np.concatenate([view, view[copies]]) for view in views]
    permutation, view_permutation = rng.permutation(25), rng.permutation(3)
    first, second = lenient(views), lenient([views[v][permutation] for v in view_permutation])
    assert_same_views(first, second)
    np.testing.assert_array_equal(first.to_given_order(first.row_keys)[permutation],
                                  second.to_given_order(second.row_keys))  # fmt: skip
    rows = np.column_stack(views)
    for i in range(25):
        same = ((rows == rows[i]) | (np.isnan(rows) & np.isnan(rows[i]))).all(axis=1)
        np.testing.assert_array_equal(same[first.order], first.row_keys == first.to_given_order(first.row_keys)[i])


def test_every_nan_is_the_same_and_neither_zero_nor_missing():
    payloads = np.array([0x7FF8000000000000, 0xFFF8000000000001, 0x7FF8000000000123], dtype=np.uint64).view(np.float64)
    view = np.column_stack([payloads, np.ones(3)])
    view = np.vstack([view, [0, 1], [np.nan, np.nan]])
    other = np.zeros((5, 1))
    for kind in (np.asarray, sp.csr_array):
        given_ = kind(view)
        made = lenient([given_, other], canonical=False)
        assert len(set(made.row_keys[:3])) == 1
        assert len(set(made.row_keys)) == 3
        np.testing.assert_array_equal(dense(given_).view(np.uint64), view.view(np.uint64))
    single = view.astype(np.float32)
    assert len(set(lenient([single, other], canonical=False).row_keys)) == 3


def test_gaps_on_every_backend(backend):
    views = gappy_views(3)
    expected = lenient(views)
    made = lenient([backend.array(view) for view in views])
    np.testing.assert_array_equal(made.row_keys, expected.row_keys)
    for a, b in zip(made.arrays, expected.arrays, strict=True):
        np.testing.assert_array_equal(backend.numpy(a), b)


def test_gaps_are_refused_unless_asked_for_and_infinity_always():
    view = np.ones((4, 3))
    view[2, 1] = np.nan
    for kind in (np.asarray, sp.csr_array):
        with pytest.raises(ValueError, match=r"view 0 .*row 2, column 1 \(nan\).*impute_views"):
            as_views([kind(view)])
        assert lenient([kind(view)]).n_gaps == (1,)
        infinite = np.where(np.isnan(view), -np.inf, view)
        infinite[1, 0] = np.nan
        with pytest.raises(ValueError, match=r"row 2, column 1 \(-inf\), and 0 more"):
            lenient([kind(infinite)])


def test_large_values_are_no_gaps():
    view = np.full((3, 2), 1e308)
    np.testing.assert_array_equal(as_views([view], unit=False).arrays[0], view)
    np.testing.assert_array_equal(as_views([sp.csr_array(view)], unit=False).arrays[0].toarray(), view)


@pytest.mark.parametrize(
    "model",
    [
        *(tm.TSVDMVC(2, basis=basis) for basis in ("gft-sim", "gft-gmc", "agft")),
        *(tm.ESTMC(2, basis="agft"), tm.TLRLF4MVC(2, basis="gft-sum"), tm.GMC(2)),
    ],
    ids=repr,
)
def test_what_refuses_missing_samples_names_the_remedy(model):
    views = [np.random.default_rng(v).normal(size=(20, 4)) for v in range(2)]
    views[1][3] = np.nan
    with pytest.raises(ValueError, match=r"sample 3 is missing in view 1 .*tensormvc\.impute_views"):
        model.fit(views)
    views[1][3, 0] = 1
    with pytest.raises(ValueError, match=r"view 1 .*row 3, column 1 .*tensormvc\.impute_views"):
        model.fit(views)


@pytest.mark.parametrize("model", [tm.TLRLF4MVC(2), tm.GMC(2)], ids=repr)
def test_what_has_no_graph_to_choose_suggests_none(model):
    views = [np.random.default_rng(v).normal(size=(20, 4)) for v in range(2)]
    views[1][3] = np.nan
    with pytest.raises(ValueError, match=r"tensormvc\.impute_views, or use MultiViewClustering, "):
        model.fit(views)


@pytest.mark.parametrize("views", [[None, np.ones((3, 2))], [np.ones((3, 2)), None], {"a": np.ones((3, 2)), "b": None}])
def test_a_view_that_is_none_is_named(views):
    with pytest.raises(ValueError, match=r"^(view [01]|b) is None: leave this view out"):
        as_views(views)


@pytest.mark.parametrize("options", [{}, {"lenient": True}])
def test_rows_that_are_none_are_missing(options):
    rows = [[1.0, 2], None, [3, 4], (5, 6)]
    array = np.empty(4, dtype=object)
    array[:] = [None if row is None else np.asarray(row) for row in rows]
    cells = np.array([[1.0, 2], [None, None], [3, 4], [5, 6]], dtype=object)
    other = np.arange(4.0)[:, None]
    expected = as_views([np.array([[1.0, 2], [np.nan, np.nan], [3, 4], [5, 6]]), other], unit=False)
    for form in (rows, array, cells):
        for views in ([form, other], [other, form]):
            assert_same_views(as_views(views, unit=False, **options), expected)
    assert as_views([[1, 2], [3, 4]]).n_views == 1
    with pytest.raises(ValueError, match="sample 0 is NaN in every view"):
        as_views([None, [1, 2], [3, 4]])


# ---------------------------------------------------------------------------------------------------------------------
# Tables of different samples


def tables_of(views, ids, pd):
    """Return DataFrames without the rows of NaN, in their own order."""
    frames = [pd.DataFrame(view, index=ids, columns=[f"f{j}" for j in range(view.shape[1])]) for view in views]
    return [frame[~frame.isna().all(axis=1)] for frame in frames]


@given(seed=st.integers(0, 10**6), kind=st.sampled_from(["text", "numbers", "pairs"]))
def test_joined_tables_mean_rows_of_nan(seed, kind):
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    rng = np.random.default_rng(seed)
    views = gappy_views(seed, n=30)
    ids = {
        "text": [f"s{i:02}" for i in range(30)],
        "numbers": list(range(100, 130)),
        "pairs": pd.MultiIndex.from_tuples([(i // 7, f"b{i % 7}") for i in range(30)]),
    }[kind]
    expected = lenient([pd.DataFrame(view, index=ids) for view in views])
    tables = [table.iloc[rng.permutation(len(table))] for table in tables_of(views, ids, pd)]
    order = rng.permutation(3)
    made = lenient([tables[v] for v in order])
    assert_same_views(made, expected)
    appearance = dict.fromkeys(itertools.chain.from_iterable(tables[v].index for v in order))
    assert made.sample_ids.tolist() == list(appearance)
    # The values of each sample are those of its id, wherever it is.
    for v, array in enumerate(made.arrays):
        table = tables[order[made.view_order[v]]]
        given_, lacking = made.to_given_order(array), made.to_given_order(made.missing[:, v])
        np.testing.assert_array_equal(given_[~lacking], table.loc[made.sample_ids[~lacking].tolist()])
        assert set(made.sample_ids[lacking].tolist()) == set(ids) - set(table.index)


def test_sparse_tables_stay_sparse():
    pytest.importorskip("anndata", reason="anndata is not installed (extra 'mudata')")
    rows = np.array([2, -1, 0, -1])
    matrix = sp.csr_matrix(np.arange(6.0).reshape(3, 2))
    for fill in (0.0, np.nan):
        taken = take_rows(matrix, rows, fill)
        assert sp.issparse(taken)
        np.testing.assert_array_equal(taken.toarray(), [[4, 5], [fill, fill], [0, 1], [fill, fill]])


def test_names_of_samples_and_features():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    a = pd.DataFrame(np.arange(6.0).reshape(3, 2), index=list("abc"), columns=["u", "v"])
    b = pd.DataFrame(np.arange(9.0).reshape(3, 3), index=list("dcb"))
    made = lenient({"a": a, "b": b}, keep_view_order=True)
    assert made.sample_ids.tolist() == list("abcd")
    assert made.feature_names[0].tolist() == ["u", "v"]
    assert made.feature_names[1] is None
    shuffled = lenient({"b": b, "a": a})
    names = dict(zip(shuffled.names, shuffled.feature_names, strict=True))
    assert names["a"].tolist() == ["u", "v"]
    assert as_views(np.ones((2, 3))).feature_names == (None,)


def test_tables_that_cannot_be_joined():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pd.DataFrame(np.ones((30, 2)), index=[f"a{i}" for i in range(30)])
    with pytest.raises(ValueError, match=r"right shares fewer than a tenth.*'0', .*'a0'; the index is probably the"):
        lenient({"left": frame, "also left": frame, "right": frame.set_index(pd.Index(map(str, range(30))))})
    some = frame.rename(index={f"a{i}": f"b{i}" for i in range(27)})
    assert lenient([frame, some]).n_samples == 57  # three of thirty
    with pytest.raises(ValueError, match="fewer than a tenth"):
        lenient([frame, frame.rename(index={f"a{i}": f"b{i}" for i in range(28)})])
    with pytest.raises(ValueError, match="view 1 has the sample id 'a3' more than once"):
        lenient([frame, frame.rename(index={"a2": "a3"})])
    with pytest.raises(ValueError, match="view 1 has samples without an id"):
        lenient([frame, frame.rename(index={"a2": None})])
    with pytest.raises(ValueError, match="view 1 has no index"):
        lenient([frame, np.ones((30, 2)), frame.iloc[:20]])
    empty = frame.copy()
    empty.loc["a2"] = np.nan
    with pytest.raises(ValueError, match="sample a2 is NaN in every view"):
        lenient([empty, empty.iloc[5:]])
    with pytest.raises(ValueError, match=r"same samples: 20 \(such as 'a10'\) are only in the first, none is only"):
        as_views([frame, frame.iloc[:10]])


def test_a_small_table_may_be_part_of_a_large_one():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    large = pd.DataFrame(np.arange(200.0)[:, None], index=[f"a{i}" for i in range(200)])
    first, last = large.iloc[:5], large.iloc[-5:]
    assert lenient([first, large, last]).missing.sum() == 2 * 195


def test_numberings_are_joined_with_a_warning():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    long, short = pd.DataFrame(np.arange(10.0)[:, None]), pd.DataFrame(np.arange(8.0)[:, None])
    with pytest.warns(UserWarning, match=r"view 0: 10, view 1: 8.*only numbers them"):
        assert lenient([long, short]).missing.sum() == 2
    assert lenient([long, long.iloc[2:]]).missing.sum() == 2


@given(seed=st.integers(0, 10**6), how=st.sampled_from(["inner", "outer", None]))
def test_join_of_ids_by_brute_force(seed, how):
    rng = np.random.default_rng(seed)
    size = 8 if how is None else rng.integers(5, 9)
    tables = [rng.permutation(8)[:size] for _ in range(3)]
    everything = list(dict.fromkeys(np.concatenate(tables).tolist()))
    expected = [i for i in everything if how != "inner" or all(i in table for table in tables)]
    if not expected:
        return
    common, rows = join_ids("abc", tables, how, "")
    assert common.tolist() == expected
    for table, picked in zip(tables, rows, strict=True):
        if picked is None:
            assert table.tolist() == expected
        else:
            assert [table[row] if row >= 0 else None for row in picked] == [i if i in table else None for i in expected]
