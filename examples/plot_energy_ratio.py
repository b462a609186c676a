"""
Energy in the first components
==============================

Which share of the energy lies in the first K components (the very first left out), at three shuffle rates. The curves
of the FFT move with the rate, and end up at the diagonal: no component says more than another. Those of GFT and AGFT
lie inside each other. (AGFT has fewer components: one for each anchor. The FFT has every frequency twice, once from
each end.)
"""

import matplotlib.pyplot as plt

import tensormvc as tm

views, y = tm.datasets.load_digits_views(300, class_sorted=True)
ratios = {"FFT": {}, "GFT": {}, "AGFT": {}}
for rate in (0, 0.5, 1):
    shuffled, _, _ = tm.datasets.shuffle_samples(views, rate=rate, random_state=0)
    tensor = tm.diagnostics.similarity_tensor(shuffled)
    for name, basis in {"FFT": tm.FFT(), "GFT": tm.GFT("sum"), "AGFT": tm.AGFT()}.items():
        ratios[name][rate] = tm.diagnostics.cumulative_energy_ratio(tensor, basis.fit(shuffled))
tm.plotting.plot_energy_ratio(ratios)
plt.show()
