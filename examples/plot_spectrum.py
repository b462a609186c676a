"""
Where the energy goes when rows are shuffled
============================================

The tensor holds the similarities of the samples in every view. Sorted by class, its rows are a smooth signal, and the
Fourier transform along the samples puts its energy into the lowest frequencies; that is what a low-rank method lives
on. Shuffled, the same rows have a spectrum like noise.
"""

import matplotlib.pyplot as plt

import tensormvc as tm

views, y = tm.datasets.load_digits_views(300, class_sorted=True)
energies = {}
for rate in (0, 0.5, 1):
    shuffled, _, _ = tm.datasets.shuffle_samples(views, rate=rate, random_state=0)
    energies[f"rate {rate}"] = tm.diagnostics.slice_energies(tm.diagnostics.similarity_tensor(shuffled), "fft")
tm.plotting.plot_spectrum(energies)
plt.show()
