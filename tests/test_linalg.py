import numpy as np
import pytest

from tensormvc.backend.linalg import thin_svd


@pytest.mark.parametrize("shape", [(7, 4), (4, 7), (3, 7, 4), (2, 3, 4, 4)])
@pytest.mark.parametrize("dtype", [float, complex])
@pytest.mark.parametrize("fails", [False, True])
def test_thin_svd(monkeypatch, shape, dtype, fails):
    """Also where divide and conquer does not converge, as for an iterate of ESTMC on 544 texts."""
    if fails:

        def svd(*_args, **_options):
            raise np.linalg.LinAlgError("SVD did not converge")

        monkeypatch.setattr(np.linalg, "svd", svd)
    rng = np.random.default_rng(0)
    matrices = rng.normal(size=shape) + (1j * rng.normal(size=shape) if dtype is complex else 0)
    left, s, right = thin_svd(matrices)
    rank = min(shape[-2:])
    assert (left.shape, s.shape, right.shape) == (
        (*shape[:-1], rank),
        (*shape[:-2], rank),
        (*shape[:-2], rank, shape[-1]),
    )
    # Rounding: a few times the machine's precision per entry.
    np.testing.assert_allclose((left * s[..., None, :]) @ right, matrices, atol=1e-13)
    assert (np.diff(s, axis=-1) <= 0).all()
    for columns in (left, np.conj(np.swapaxes(right, -1, -2))):
        identity = np.conj(np.swapaxes(columns, -1, -2)) @ columns
        np.testing.assert_allclose(identity, np.broadcast_to(np.eye(rank), identity.shape), atol=1e-13)


def test_what_is_not_finite_has_no_svd():
    with pytest.raises(ValueError, match="infs or NaNs"):
        thin_svd(np.full((3, 2), np.nan))
