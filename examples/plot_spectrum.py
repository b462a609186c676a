"""
Spectra of sorted and shuffled samples
======================================

The tensor holds the similarities between the samples in every view. Sorted by class, its rows are a smooth signal, and
the Fourier transform along the samples concentrates their energy in the lowest frequencies, which low-rank methods rely
on. Shuffled, the same rows have the flat spectrum of noise.
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
