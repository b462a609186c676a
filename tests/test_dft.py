"""The DFT as matrix products, against SciPy's."""

import numpy as np
import pytest
import scipy.fft

from tensormvc.backend import irfft, rfft
from tensormvc.backend.dft import split_dft


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-13), (np.float32, 2e-5)])
@pytest.mark.parametrize("n", [67, 2 * 67, 3 * 71, 4 * 73, 13 * 101, 67 * 71, 6 * 127])
def test_split_is_the_dft(n, dtype, tolerance):
    """The tolerance is relative to the largest coefficient: rounding of sums of up to 127 products."""
    columns = np.random.default_rng(n).normal(size=(n, 5)).astype(dtype)
    expected = scipy.fft.rfft(columns.astype(np.float64), axis=0)
    split = split_dft(n, dtype)
    assert split is not None
    spectrum = split.forward(columns)
    assert spectrum.dtype == (np.complex64 if dtype == np.float32 else np.complex128)
    assert np.abs(spectrum - expected).max() <= tolerance * np.abs(expected).max()
    back = split.inverse(spectrum)
    assert back.dtype == dtype
    assert np.abs(back - columns).max() <= tolerance * np.abs(columns).max()
    # The imaginary part of a frequency that must be real is ignored, as the library does.
    rough = spectrum.astype(np.complex128)
    rough[0] += 3j
    expected = scipy.fft.irfft(rough, n=n, axis=0)
    assert np.abs(split.inverse(rough.astype(spectrum.dtype)) - expected).max() <= 10 * tolerance


@pytest.mark.parametrize("n", [1, 2, 63, 64, 500, 2000, 1031, 4 * 1031])
def test_where_an_fft_is_as_fast(n):
    assert split_dft(n, np.float64) is None


def test_columns_beyond_a_block():
    """More columns than are transformed together, and rooms of two widths."""
    tensor = np.random.default_rng(0).normal(size=(3 * 67, 50, 3))
    expected = scipy.fft.rfft(tensor, axis=0)
    for _ in range(2):
        spectrum = rfft(tensor)
        np.testing.assert_allclose(spectrum, expected, atol=1e-11)
        np.testing.assert_allclose(irfft(spectrum, 3 * 67), tensor, atol=1e-13)
