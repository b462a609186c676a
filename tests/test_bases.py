import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import tensormvc as tm
from tensormvc.bases import fitted_basis, make_basis

from . import textbook
from .names import FIXED, ORDER_DEPENDENT

CLASSES = {
    "fft": tm.FFT,
    "fft-view": tm.ViewFFT,
    "dct": tm.DCT,
    "haar": tm.Haar,
    "random": tm.RandomOrthogonal,
}
MATRICES = {"fft": textbook.dft_matrix, "dct": textbook.dct_matrix, "haar": textbook.haar_matrix}


@pytest.mark.parametrize("name", CLASSES)
def test_names_make_their_class(name):
    assert type(make_basis(name)) is CLASSES[name]


@pytest.mark.parametrize("name", FIXED)
def test_protocol(name):
    tm.testing.check_basis(name)
    tm.testing.check_basis(make_basis(name))


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 11, 12, 97, 130])
def test_forward_is_the_textbook_matrix(name, n, backend):
    tensor = np.random.default_rng(n).normal(size=(n, 3, 2))
    basis = make_basis(name).fit(tensor)
    slices = backend.numpy(basis.forward(backend.array(tensor)))
    expected = textbook.along_samples(MATRICES[name](n), tensor)[: len(slices)]
    np.testing.assert_allclose(slices, expected, rtol=0, atol=1e-13 * n)
    back = backend.numpy(basis.inverse(backend.array(slices)))
    np.testing.assert_allclose(back, tensor, rtol=0, atol=1e-13)


@pytest.mark.parametrize("m", [1, 2, 3, 6])
def test_view_mode_is_the_textbook_matrix(m, backend):
    tensor = np.random.default_rng(m).normal(size=(5, 4, m))
    basis = tm.ViewFFT().fit(tensor)
    slices = backend.numpy(basis.forward(backend.array(tensor)))
    expected = textbook.along_views(textbook.dft_matrix(m), tensor)[: m // 2 + 1]
    np.testing.assert_allclose(slices, expected, rtol=0, atol=1e-13)
    np.testing.assert_allclose(backend.numpy(basis.inverse(backend.array(slices))), tensor, rtol=0, atol=1e-14)


@given(n=st.integers(1, 300), d=st.integers(1, 90), seed=st.integers(0, 9))
def test_weighted_energy_is_that_of_the_tensor(n, d, seed):
    tensor = np.random.default_rng(seed).normal(size=(n, d, 2))
    energy = np.sum(tensor**2)
    for name in ORDER_DEPENDENT:
        scale = n if name == "fft" else 1
        basis = make_basis(name).fit(tensor, random_state=0)
        slices = basis.forward(tensor)
        weighted = basis.slice_weights_ @ np.sum(np.abs(slices) ** 2, axis=(1, 2))
        np.testing.assert_allclose(weighted, scale * energy, rtol=1e-12)
        np.testing.assert_allclose(basis.inverse(slices), tensor, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", FIXED)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_precision_and_given_memory(name, dtype, backend):
    tensor = backend.array(np.random.default_rng(0).normal(size=(9, 70, 3)), dtype)
    basis = make_basis(name).fit(tensor, random_state=0)
    slices = basis.forward(tensor)
    room = slices * 0
    assert basis.forward(tensor, out=room) is room
    np.testing.assert_array_equal(backend.numpy(room), backend.numpy(slices))
    back = tensor * 0
    assert basis.inverse(slices, out=back) is back
    assert str(back.dtype).endswith(dtype)
    np.testing.assert_allclose(backend.numpy(back), backend.numpy(tensor), rtol=0, atol=1e-5)


@pytest.mark.parametrize("threads", ["1", "3"])
def test_threads_change_no_bit(threads, monkeypatch):
    tensor = np.random.default_rng(0).normal(size=(50, 100, 5))
    expected = tm.FFT().fit(tensor).forward(tensor)
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    monkeypatch.setattr("joblib.cpu_count", lambda: 8)
    np.testing.assert_array_equal(tm.FFT().fit(tensor).forward(tensor), expected)


def test_fft_depends_on_the_order_and_not_on_a_circular_shift():
    tensor = np.random.default_rng(0).normal(size=(20, 4, 3))
    basis = tm.FFT().fit(tensor)

    def energies(t):
        return np.sum(np.abs(basis.forward(t)) ** 2, axis=(1, 2))

    np.testing.assert_allclose(energies(np.roll(tensor, 7, axis=0)), energies(tensor), rtol=1e-12)
    shuffled = tensor[np.random.default_rng(1).permutation(20)]
    assert np.abs(energies(shuffled) - energies(tensor)).max() > 1


def test_random_basis_is_seeded_orthogonal_and_refuses_what_does_not_fit():
    tensor = np.empty((30, 1, 1))
    first = tm.RandomOrthogonal(random_state=3).fit(tensor)
    np.testing.assert_allclose(first.matrix_ @ first.matrix_.T, np.eye(30), atol=1e-14)
    np.testing.assert_array_equal(first.matrix_, tm.RandomOrthogonal().fit(tensor, random_state=3).matrix_)
    assert not np.array_equal(first.matrix_, tm.RandomOrthogonal(4).fit(tensor).matrix_)
    with pytest.raises(MemoryError, match=r"TiB|GiB.*agft"):
        tm.RandomOrthogonal().fit([np.broadcast_to(0.0, (10_000_000, 1))])


@pytest.mark.parametrize("name", FIXED)
def test_clone_pickle_and_views_of_every_form(name):
    rng = np.random.default_rng(0)
    views = [rng.normal(size=(6, 3)), rng.normal(size=(6, 2))]
    basis = clone(make_basis(name)).fit(views, random_state=0)
    tensor = rng.normal(size=(6, 4, 2))
    same = [
        pickle.loads(pickle.dumps(basis)),
        clone(basis).fit({"a": views[0], "b": views[1]}, random_state=0),
        clone(basis).fit(tuple(view.tolist() for view in views), random_state=0),
        clone(basis).fit(tensor, random_state=0),
    ]
    for other in same:
        np.testing.assert_array_equal(other.forward(tensor), basis.forward(tensor))


@pytest.mark.parametrize("name", FIXED)
def test_integers_become_float64(name):
    tensor = np.arange(24).reshape(4, 3, 2)
    basis = make_basis(name).fit(tensor, random_state=0)
    assert basis.inverse(basis.forward(tensor)).dtype == np.float64


@pytest.mark.parametrize("name", FIXED)
@pytest.mark.parametrize(
    ("tensor", "error", "message"),
    [
        (np.ones((4, 3)), ValueError, "2 dimensions"),
        (np.ones((4, 0, 2)), ValueError, "empty"),
        (np.ones((4, 3, 2), complex), TypeError, "complex"),
        (np.full((4, 3, 2), "a"), TypeError, "not numeric"),
        (np.ones((5, 3, 3)), ValueError, "fitted for"),
    ],
)
def test_wrong_tensors(name, tensor, error, message):
    basis = make_basis(name).fit(np.ones((4, 3, 2)), random_state=0)
    with pytest.raises(error, match=message):
        basis.forward(tensor)


@pytest.mark.parametrize(
    ("views", "message"),
    [
        ([], "no views"),
        ([np.ones((3, 2)), np.ones((4, 2))], r"different numbers of samples \(view 0: 3, view 1: 4\)"),
        ([np.ones((0, 2))], "no samples"),
        (np.ones(3), r"shape \(3,\)"),
        ([np.ones((2, 2, 2))], r"shape \(2, 2, 2\)"),
    ],
)
def test_wrong_views(views, message):
    with pytest.raises(ValueError, match=message):
        tm.FFT().fit(views)


def test_wrong_bases():
    with pytest.raises(ValueError, match="unknown basis 'wavelet'"):
        make_basis("wavelet")
    with pytest.raises(TypeError, match="is not a basis"):
        make_basis(tm.FFT)
    with pytest.raises(TypeError, match="is not a basis"):
        make_basis(np.eye(3))
    with pytest.raises(NotFittedError):
        tm.FFT().forward(np.ones((2, 2, 2)))
    with pytest.raises(ValueError, match="does not fit FFT"):
        tm.FFT().fit(np.ones((4, 1, 1))).inverse(np.ones((4, 1, 1)))


@pytest.mark.parametrize("name", FIXED)
def test_given_memory_is_checked_and_need_not_be_contiguous(name, backend):
    tensor = backend.array(np.random.default_rng(0).normal(size=(6, 4, 3)))
    basis = make_basis(name).fit(tensor, random_state=0)
    slices, back = basis.forward(tensor), basis.inverse(basis.forward(tensor))
    for result, compute in (
        (slices, lambda out: basis.forward(tensor, out=out)),
        (back, lambda out: basis.inverse(slices, out=out)),
    ):
        wide = np.zeros((*result.shape[:2], 2 * result.shape[2]))
        strided = backend.array(wide, str(backend.numpy(result).dtype))[:, :, ::2]
        compute(strided)
        np.testing.assert_array_equal(backend.numpy(strided), backend.numpy(result))
        with pytest.raises(ValueError, match="out must be"):
            compute(result[:-1])
        with pytest.raises(ValueError, match="out must be"):
            compute(backend.array(np.zeros(result.shape), "int64"))


@pytest.mark.parametrize("name", FIXED)
def test_integer_and_listed_slices_are_converted(name):
    tensor = np.random.default_rng(0).normal(size=(6, 4, 3))
    basis = make_basis(name).fit(tensor, random_state=0)
    whole = np.rint(3 * basis.forward(tensor).real).astype(int)
    np.testing.assert_array_equal(basis.inverse(whole), basis.inverse(whole.astype(float)))
    np.testing.assert_array_equal(basis.inverse(whole.tolist()), basis.inverse(whole.astype(float)))
    if name not in ("fft", "fft-view"):
        with pytest.raises(TypeError, match="complex"):
            basis.inverse(whole + 1j)


def test_one_nested_list_is_one_array():
    assert tm.FFT().fit([[1, 2, 3], [4, 5, 6]]).mode_length_ == 2
    with pytest.raises(TypeError, match="str"):
        tm.FFT().fit("abc")


class Reversal:
    """A stranger's basis, in ten lines, without our base class."""

    def fit(self, views, *, n_clusters=None, random_state=None, sample_graph=None):
        self.slice_weights_ = np.ones(len(views[0]))
        return self

    def forward(self, tensor):
        return tensor[::-1].copy()

    def inverse(self, slices):
        return slices[::-1].copy()


def test_a_basis_of_ones_own():
    tm.testing.check_basis(Reversal())
    tensor = np.random.default_rng(0).normal(size=(5, 4, 3))
    fitted = Reversal().fit([tensor[:, :, 0]])
    shrunk = tm.shrinkage.low_rank_shrink(tensor, fitted, "nuclear", 0.7)
    plain = tm.shrinkage.shrink_slices(tensor, "nuclear", 0.7)
    np.testing.assert_allclose(shrunk, plain, atol=1e-14)
    room = np.empty_like(tensor)
    assert tm.shrinkage.low_rank_shrink(tensor, fitted, "nuclear", 0.7, out=room) is room
    np.testing.assert_array_equal(room, shrunk)
    with pytest.raises(ValueError, match="fit it to the views first"):
        fitted_basis(Reversal(), tensor)


def stretch(array, power=1):
    return array * np.arange(1, len(array) + 1, dtype=array.dtype)[:, None, None] ** power


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"forward": lambda self, t: np.abs(t)}, "not linear"),
        ({"inverse": lambda self, s: s.copy()}, "does not return the slices"),
        ({"forward": lambda self, t: stretch(t), "inverse": lambda self, s: stretch(s, -1)}, "energy is not kept"),
        ({"forward": lambda self, t: t[::-1].astype(np.float64)}, "returns float64"),
        ({"inverse": lambda self, s: s[::-1][:-1]}, "inverse returns shape"),
        ({"fit": lambda self, views, **kw: None}, "does not return self"),
    ],
)
def test_check_basis_finds_faults(change, message):
    broken = type("Broken", (Reversal,), change)()
    with pytest.raises(AssertionError, match=message):
        tm.testing.check_basis(broken)


def test_tables_of_different_samples_are_refused():
    pd = pytest.importorskip("pandas", reason="pandas is not installed (extra 'mudata')")
    table = pd.DataFrame(np.eye(6), index=list("abcdef"))
    with pytest.raises(ValueError, match="do not have the same samples"):
        tm.FFT().fit({"a": table, "b": table[1:]})
