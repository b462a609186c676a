"""
Energy in the first components
==============================

The fraction of the energy in the first K components, without the very first one, at three shuffle rates. The curves of
the FFT change with the rate and approach the diagonal, where all components have the same energy. The curves of GFT and
AGFT do not change. (AGFT has one component per anchor. The FFT has every frequency twice, once from each end.)
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
