"""
What the components of a basis look like
========================================

Rows are samples, sorted by class for display; columns are components. The components of the FFT are waves over the row
numbers, which carry no information here. Those of the GFT come from a graph over the samples, and groups of similar
samples have similar values. With the ideal graph, which links all samples of the same class and needs the labels, the
components are the classes.
"""

import matplotlib.pyplot as plt

import tensormvc as tm

views, y = tm.datasets.load_digits_views(300)
bases = {
    "FFT": tm.FFT().fit(views),
    "GFT, SimG": tm.GFT("sim").fit(views),
    "GFT, GMC": tm.GFT("gmc").fit(views, n_clusters=10),
    "GFT, ideal graph (from the labels)": tm.GFT().fit(views, sample_graph=tm.ideal_graph(y)),
}
figure, axes = plt.subplots(2, 2, figsize=(7.2, 5.4), layout="constrained")
for ax, (name, basis) in zip(axes.flat, bases.items(), strict=True):
    tm.plotting.plot_basis(basis, y, ax=ax)
    ax.set_title(name, fontsize=9)
plt.show()
