"""
Which transforms depend on the order of the samples?
====================================================

TLSpNM with three transforms along the samples. With the FFT, the accuracy is best for samples sorted by class and falls
as more of them are shuffled. The graph Fourier transform (GFT) and its anchor version (AGFT) give the same clusters in
every order.
"""

import matplotlib.pyplot as plt

import tensormvc as tm

views, y = tm.datasets.load_digits_views(200, class_sorted=True)
sweeps = {}
for basis in ("fft", "gft-sum", "agft"):
    model = tm.TLSpNM(10, basis=basis, random_state=0)
    sweeps[basis] = tm.shuffle_sweep(model, views, y, rates=(0, 0.3, 0.6, 1), n_repeats=2)
tm.plotting.plot_shuffle_by_basis(sweeps)
plt.show()
