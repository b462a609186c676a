import itertools
from contextlib import nullcontext

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from tensormvc.rows import row_blocks
from tensormvc.views import as_views


def random_views(seed=0, n=12, dims=(4, 3, 5)):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, d)) for d in dims]


def test_rows_have_unit_length_and_zero_rows_stay_zero():
    views = random_views()
    views[1][4] = 0
    views[0][2] *= 1e200
    views[0][3] *= 1e-200
    made = as_views(views, canonical=False, keep_view_order=True)
    for given_, array in zip(views, made.arrays, strict=True):
        lengths = np.linalg.norm(array, axis=1)
        np.testing.assert_allclose(lengths, (np.abs(given_).sum(axis=1) > 0).astype(float), rtol=1e-15)
    np.testing.assert_allclose(made.arrays[2], views[2] / np.linalg.norm(views[2], axis=1, keepdims=True), rtol=1e-14)


@given(seed=st.integers(0, 1000), n=st.integers(1, 30))
def test_canonical_order_belongs_to_the_values(seed, n):
    rng = np.random.default_rng(seed)
    views = random_views(seed, n)
    # Small integers make duplicates of rows within a view; some samples are copies of others altogether.
    views[0] = np.round(views[0])
    copies = rng.integers(0, n, size=n // 3)
    views = [np.concatenate([view, view[copies]]) for view in views]
    total = len(views[0])
    permutation, view_permutation = rng.permutation(total), rng.permutation(3)
    first = as_views(views)
    second = as_views([views[v][permutation] for v in view_permutation])
    for a, b in zip(first.arrays, second.arrays, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(first.row_keys, second.row_keys)
    np.testing.assert_array_equal(first.probes(3), second.probes(3))
    np.testing.assert_array_equal(
        first.to_given_order(first.arrays[0])[permutation], second.to_given_order(second.arrays[0])
    )
    rows = np.column_stack(views)
    for i in range(total):
        same_rows = (rows[first.order] == rows[first.order[i]]).all(axis=1)
        np.testing.assert_array_equal(same_rows, first.row_keys == first.row_keys[i])


def test_order_round_trip():
    made = as_views(random_views())
    values = np.arange(12)
    np.testing.assert_array_equal(made.to_given_order(made.to_working_order(values)), values)


def test_every_form_of_input_means_the_same():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    views = [np.round(view, 3) for view in random_views()]
    expected = as_views(views)
    index = [f"s{i}" for i in range(12)]
    frames = [pd.DataFrame(view, index=index) for view in views]
    shuffled = np.random.default_rng(1).permutation(12)
    forms = {
        "tuple": tuple(views),
        "dict": dict(zip("abc", views, strict=True)),
        "lists": [view.tolist() for view in views],
        "sparse": [sp.csr_matrix(view) for view in views],
        "coo": [sp.coo_array(view) for view in views],
        "dok": [sp.dok_array(view) for view in views],
        "frames": frames,
        "frames in another order": [frames[0], frames[1].iloc[shuffled], frames[2]],
        "fortran": [np.asfortranarray(view) for view in views],
        "objects": [view.astype(object) for view in views],
    }
    for name, form in forms.items():
        made = as_views(form)
        np.testing.assert_array_equal(made.row_keys, expected.row_keys, err_msg=name)
        for a, b in zip(made.arrays, expected.arrays, strict=True):
            np.testing.assert_allclose(a.toarray() if sp.issparse(a) else a, b, rtol=1e-14, err_msg=name)
    joined = as_views(np.column_stack(views), view_sizes=[4, 3, 5])
    np.testing.assert_array_equal(joined.row_keys, expected.row_keys)
    assert as_views(expected) is expected
    assert as_views(frames).sample_ids.tolist() == index
    assert as_views([[1, 2], [3, 4]]).n_views == 1
    assert as_views(np.ones((3, 2))).n_views == 1
    assert as_views(sp.dok_array(np.ones((3, 2)))).n_views == 1


def test_torch_gives_the_same(backend):
    views = random_views()
    expected = as_views(views)
    made = as_views([backend.array(view) for view in views])
    np.testing.assert_array_equal(made.row_keys, expected.row_keys)
    for a, b in zip(made.arrays, expected.arrays, strict=True):
        np.testing.assert_allclose(backend.numpy(a), b, rtol=1e-14)


def test_mudata_is_aligned_on_its_index():
    mudata = pytest.importorskip("mudata", reason="mudata is not installed (extra 'mudata')")
    anndata = pytest.importorskip("anndata")
    views = random_views()
    names = [f"cell{i}" for i in range(12)]
    parts = {}
    for name, view in zip("abc", views, strict=True):
        parts[name] = anndata.AnnData(view.copy())
        parts[name].obs_names = names
        parts[name].var_names = [f"{name}{j}" for j in range(view.shape[1])]
    shuffled = np.random.default_rng(0).permutation(12)
    parts["b"] = parts["b"][shuffled].copy()
    with mudata.set_options(pull_on_update=False) if hasattr(mudata, "set_options") else nullcontext():
        made = as_views(mudata.MuData(parts))
    np.testing.assert_array_equal(made.row_keys, as_views(views).row_keys)


def test_types():
    views = random_views()
    made = as_views(
        [views[0].astype(np.float32), np.round(views[1] * 10).astype(int), views[2] > 0], keep_view_order=True
    )
    assert [array.dtype for array in made.arrays] == [np.float32, np.float64, np.float64]


def test_inputs_are_not_modified():
    views = [*random_views(), sp.csr_array(random_views()[0])]
    before = [view.copy() for view in views]
    as_views(views)
    as_views(views, canonical=False)
    for a, b in zip(views, before, strict=True):
        assert (a != b).sum() == 0


def test_missing_views_are_zero_rows():
    views = random_views()
    views[1][3] = np.nan
    before = views[1].copy()
    made = as_views(views, canonical=False, keep_view_order=True)
    assert np.argwhere(made.missing).tolist() == [[3, 1]]
    np.testing.assert_array_equal(made.arrays[1][3], 0)
    np.testing.assert_array_equal(views[1], before)


@pytest.mark.parametrize(
    ("views", "error", "message"),
    [
        ([], ValueError, "no views"),
        ({}, ValueError, "no views"),
        (None, TypeError, "NoneType"),
        ("abc", TypeError, "str"),
        (3, TypeError, "int"),
        ([np.ones((3, 2)), np.ones((4, 2))], ValueError, r"view 0: 3, view 1: 4"),
        ([np.ones((3, 2, 2))], ValueError, "view 0 has 3 dimensions"),
        (np.ones(3), ValueError, "reshape"),
        ([np.ones((0, 2))], ValueError, "view 0 is empty"),
        ([np.ones((3, 0))], ValueError, "view 0 is empty"),
        ([np.ones((3, 2), complex)], ValueError, "Complex data not supported: view 0"),
        ([np.array([["a", "b"]] * 3)], TypeError, "not numeric"),
        ([np.array([[{}, 1]] * 3)], TypeError, "not numbers"),
        ([np.ones((3, 2)), np.array([[1, 2], [3, np.nan], [5, 6]])], ValueError, "view 1 .*row 1, column 1"),
        ({"left": np.array([[1.0], [np.inf]])}, ValueError, "left .*row 1, column 0"),
        ([sp.csr_array(np.array([[1.0, 0], [np.nan, 1]]))], ValueError, "row 1, column 0"),
        ([np.full((2, 2), np.nan)], ValueError, "NaN in every view"),
    ],
)
def test_wrong_input(views, error, message):
    with pytest.raises(error, match=message):
        as_views(views)


def test_wrong_view_sizes_and_indices():
    with pytest.raises(ValueError, match=r"add up to 4"):
        as_views(np.ones((3, 5)), view_sizes=[2, 2])
    with pytest.raises(ValueError, match="splits one 2-D array"):
        as_views([np.ones((3, 5))], view_sizes=[5])
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    a = pd.DataFrame(np.ones((3, 2)), index=list("abc"))
    with pytest.raises(ValueError, match=r"same samples: 1 \(such as 'c'\) .*MultiViewClustering"):
        as_views([a, a.set_index(pd.Index(list("abd")))])
    with pytest.raises(ValueError, match="'a' more than once"):
        as_views([a.set_index(pd.Index(list("aab"))), a])
    with pytest.raises(ValueError, match="view 1 has no index"):
        as_views([a, np.ones((3, 2)), a.iloc[::-1]])


@given(n=st.integers(1, 10**7))
def test_row_blocks_cover_the_rows_once(n):
    blocks = list(row_blocks(n))
    assert blocks[0].start == 0
    assert blocks[-1].stop == n
    assert all(a.stop == b.start for a, b in itertools.pairwise(blocks))
    assert len(blocks) <= max(8, -(-n // 2**14))
    assert max(block.stop - block.start for block in blocks) <= 2**14


def test_threads_change_no_hash(monkeypatch):
    views = random_views(n=500)
    expected = as_views(views).row_keys
    monkeypatch.setattr("tensormvc.views._order._BLOCK", 64)
    monkeypatch.setattr("joblib.cpu_count", lambda: 4)
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    np.testing.assert_array_equal(as_views(views).row_keys, expected)


def test_scale_is_no_matter_for_sparse_views_either():
    dense = np.random.default_rng(0).normal(size=(6, 4))
    expected = as_views([dense], canonical=False).arrays[0]
    for scale in (1e200, 1e-200):
        made = as_views([sp.csr_array(dense * scale)], canonical=False)
        np.testing.assert_allclose(made.arrays[0].toarray(), expected, atol=1e-14)
    single = as_views([sp.csr_array((dense * 1e-30).astype(np.float32))], canonical=False)
    np.testing.assert_allclose(single.arrays[0].toarray(), expected, atol=1e-6)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("canonical", [True, False])
def test_single_precision_is_scaled_in_double(kind, canonical):
    """As the graphs see it, a sample in single precision is that of the same values in double precision."""
    dense = np.random.default_rng(0).normal(size=(30, 5)).astype(np.float32)
    views = [kind(dense), dense.astype(np.float64)]
    made = as_views(views, canonical=canonical, keep_view_order=True)
    single, double = (part.toarray() if sp.issparse(part) else part for part in map(made.in_double, range(2)))
    assert made.arrays[0].dtype == np.float32
    assert single.dtype == double.dtype == np.float64
    np.testing.assert_allclose(single, double, rtol=1e-15)
    assert np.abs(made.arrays[0] - single).max() > 1e-9
    as_they_are = as_views(views, canonical=canonical, keep_view_order=True, unit=False)
    part = as_they_are.in_double(0)
    np.testing.assert_array_equal(part.toarray() if sp.issparse(part) else part, as_they_are.in_double(1))


def test_missing_rows_and_rows_on_disk_are_scaled_in_double_too(tmp_path, monkeypatch):
    monkeypatch.setattr("tensormvc.views._views.LAZY_BYTES", 0)
    dense = np.random.default_rng(0).normal(size=(30, 5)).astype(np.float32)
    dense[4] = np.nan
    file = np.memmap(tmp_path / "view", dtype=np.float32, mode="w+", shape=dense.shape)
    file[...] = dense
    full = np.random.default_rng(1).normal(size=(30, 3))
    expected = as_views([dense.astype(np.float64), full], canonical=False, keep_view_order=True)
    for given_ in (dense, file):
        made = as_views([given_, full], canonical=False, keep_view_order=True, keep_on_disk=True)
        np.testing.assert_allclose(made.in_double(0), expected.arrays[0], rtol=1e-15)
        assert not made.in_double(0)[4].any()


def test_a_missing_row_is_not_a_row_of_zeros():
    views = random_views(n=6)
    for view in views[1:]:
        view[1] = view[0]
    views[0][0], views[0][1] = np.nan, 0
    keys = as_views(views, canonical=False).row_keys
    assert keys[0] != keys[1]


def test_equal_views_in_different_forms_have_one_order():
    views = random_views()
    forms = [views[0], sp.csr_array(views[0]), views[1]]
    first, second = as_views(forms), as_views([forms[1], forms[0], forms[2]])
    assert [sp.issparse(a) for a in first.arrays] == [sp.issparse(a) for a in second.arrays]


def test_sparse_input_that_is_not_canonical_is_left_alone():
    given_ = sp.csr_array(([1.0, 2, 3, 4], [2, 0, 2, 2], [0, 2, 4]), shape=(2, 3))
    before = given_.data.copy(), given_.indices.copy(), given_.indptr.copy()
    as_views([given_])
    for a, b in zip(before, (given_.data, given_.indices, given_.indptr), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_array_subclasses_and_frames_with_missing_values():
    dense = np.arange(6.0).reshape(3, 2) + 1
    expected = as_views([dense]).row_keys
    np.testing.assert_array_equal(as_views([np.asmatrix(dense)]).row_keys, expected)
    with pytest.raises(TypeError, match="masked array"):
        as_views([np.ma.masked_array(dense, mask=dense > 4)])
    with pytest.raises(TypeError, match="text"):
        as_views([dense.astype(str).astype(object)])
    with pytest.raises(ValueError, match="not a matrix"):
        as_views([[1, 2], [3]])
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pd.DataFrame(dense, dtype="Float64")
    frame.iloc[1] = pd.NA
    assert as_views([frame, dense]).missing.sum() == 1
    same_index = pd.DataFrame(dense, index=["a", "a", "b"])
    assert as_views([same_index]).n_samples == 3


def test_views_are_a_sequence():
    made = as_views(random_views())
    assert len(made) == 3
    assert all(a is b for a, b in zip(made, made.arrays, strict=True))
    assert made[1] is made.arrays[1]
