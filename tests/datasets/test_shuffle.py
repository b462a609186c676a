import numpy as np
import pytest
import scipy.sparse

from tensormvc.datasets import load_views, save_views, shuffle_samples

N = 50
A, B = np.arange(N * 3.0).reshape(N, 3), np.arange(N * 2).reshape(N, 2)
Y = np.arange(N)


def test_all_kinds_of_views_go_the_same_way(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(A, index=[f"s{i}" for i in range(N)])
    views = {"array": A, "csr": scipy.sparse.csr_array(A), "coo": scipy.sparse.coo_array(A), "frame": frame}
    shuffled, y, permutation = shuffle_samples(views, pandas.Series(Y), random_state=0)
    assert list(shuffled) == list(views)
    np.testing.assert_array_equal(shuffled["array"], A[permutation])
    np.testing.assert_array_equal(shuffled["csr"].toarray(), A[permutation])
    np.testing.assert_array_equal(shuffled["coo"].toarray(), A[permutation])
    np.testing.assert_array_equal(shuffled["frame"].to_numpy(), A[permutation])
    assert list(shuffled["frame"].index) == [f"s{i}" for i in permutation]
    np.testing.assert_array_equal(y, Y[permutation])


def test_views_on_disk_stay_there(tmp_path):
    pytest.importorskip("pyarrow")
    save_views(tmp_path / "views", [A, B])
    views, _ = load_views(tmp_path / "views", lazy=True)
    shuffled, _, permutation = shuffle_samples(views, random_state=0)
    assert type(shuffled[0]) is type(views[0])
    np.testing.assert_array_equal(shuffled[0], A[permutation])


def test_one_array_stays_one_array():
    shuffled, y, permutation = shuffle_samples(A, list(Y), random_state=0)
    np.testing.assert_array_equal(shuffled, A[permutation])
    np.testing.assert_array_equal(y, permutation)
    shuffled, y, permutation = shuffle_samples([[1, 2], [3, 4], [5, 6]], random_state=0)
    assert shuffled.shape == (3, 2)
    assert y is None


@pytest.mark.parametrize(("rate", "moved"), [(0.0, 0), (0.29, 29), (0.5, 50), (0.999, 99), (1.0, 100)])
def test_rate_is_the_number_of_positions(rate, moved):
    """⌊rn⌋ positions are permuted among themselves; a few of them may stay by chance."""
    touched = np.zeros(100, bool)
    for seed in range(30):
        _, _, permutation = shuffle_samples([np.zeros((100, 1))], rate=rate, random_state=seed)
        np.testing.assert_array_equal(np.sort(permutation), np.arange(100))
        n_moved = np.sum(permutation != np.arange(100))
        assert moved - 8 <= n_moved <= moved
        touched |= permutation != np.arange(100)
    assert touched.all() == (rate > 0.2)


def test_inputs_stay():
    before = A.copy()
    shuffle_samples([A, B], Y, random_state=0)
    np.testing.assert_array_equal(A, before)


def test_wrong_arguments():
    with pytest.raises(ValueError, match="rate"):
        shuffle_samples([A], rate=1.1)
    with pytest.raises(ValueError, match="same number of samples"):
        shuffle_samples([A, B[:3]])
    with pytest.raises(ValueError, match="same number of samples"):
        shuffle_samples([A], Y[:3])
    with pytest.raises(ValueError, match="no views"):
        shuffle_samples({})
