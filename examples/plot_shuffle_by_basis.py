"""
Which transforms notice a shuffle
=================================

One method, t-SVD-MVC, with four transforms along the samples. The FFT and the DCT see an order where there is none:
they do best on rows that are sorted by class, and worse the more of them are shuffled. The graph Fourier transform
(GFT) and its anchor form (AGFT) give the same clusters in every order.
"""

import matplotlib.pyplot as plt

import tensormvc as tm

views, y = tm.datasets.load_digits_views(150, class_sorted=True)
sweeps = {
    basis: tm.shuffle_sweep(
        tm.TSVDMVC(10, basis=basis, random_state=0), views, y, rates=(0, 0.25, 0.5, 0.75, 1), n_repeats=2
    )
    for basis in ("fft", "dct", "gft-sum", "agft")
}
tm.plotting.plot_shuffle_by_basis(sweeps)
plt.show()
