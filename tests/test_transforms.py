"""Transforms along the first axis, in blocks of columns."""

import numpy as np
import scipy.fft

from tensormvc.backend.transforms import irfft, rfft


def test_columns_beyond_a_block():
    """More columns than are transformed together."""
    tensor = np.random.default_rng(0).normal(size=(3 * 67, 50, 3))
    expected = scipy.fft.rfft(tensor, axis=0)
    spectrum = rfft(tensor)
    np.testing.assert_allclose(spectrum, expected, atol=1e-11)
    np.testing.assert_allclose(irfft(spectrum, 3 * 67), tensor, atol=1e-13)
