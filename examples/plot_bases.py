"""
What the components of a basis look like
========================================

Rows are samples, put in the order of their classes for display; columns are components. Those of the FFT are waves over
row numbers, which say nothing here: the digits came in turns. Those of the GFT come from a graph over the samples:
groups of samples light up together. With the graph that links all samples of a class, which only an oracle has, they
are the classes.
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
