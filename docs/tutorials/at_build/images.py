"""
Images described in several ways
================================

An image can be described by its pixels, its edges, its frequencies, or by embeddings of several networks. Each
description sees something that the others miss. This tutorial uses four descriptions of 1797 handwritten digits, which
come with scikit-learn; for your own images, pass one array per description.
"""

# %%
# Fit
# ---
#
# Names make the report and the explanations readable. `random_state` makes the result repeatable; you need not set
# anything else.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import tensormvc as tm

arrays, y = tm.datasets.load_digits_views()
views = dict(zip(["pixels", "edges", "frequencies", "sums"], arrays, strict=True))
model = tm.MultiViewClustering(n_clusters=10, random_state=0).fit(views)
print(model.report_)

# %%
# How good is it?
# ---------------
#
# For these images we know the digits. They were not used above; here they only measure the result, compared with
# k-means on all features and on the pixels alone.
from sklearn.cluster import KMeans

kmeans = KMeans(10, n_init=10, random_state=0)
results = {
    "MultiViewClustering": model.labels_,
    "k-means, all features": kmeans.fit_predict(np.hstack(arrays)),
    "k-means, pixels": kmeans.fit_predict(arrays[0]),
}
for name, labels in results.items():
    print(f"{name:<24} accuracy {tm.metrics.clustering_accuracy(y, labels):.1%}  NMI {tm.metrics.nmi(y, labels):.3f}")

# %%
# A map of the images
# -------------------
#
# Images that are neighbours in all descriptions together are close. The model is less sure of paler dots.
tm.plotting.plot_map(model)
plt.show()

# %%
# The clearest and the least clear images
# ---------------------------------------
#
# Each row shows a cluster: the five images with the highest confidence, then the five with the lowest. Inspect those on
# the right.
images = load_digits().images
figure, axes = plt.subplots(10, 10, figsize=(6.4, 6.8), layout="constrained")
for cluster, row in enumerate(axes):
    members = np.flatnonzero(model.labels_ == cluster)
    ranked = members[np.argsort(-model.confidence_[members], kind="stable")]
    for ax, sample in zip(row, [*ranked[:5], *ranked[-5:]], strict=True):
        ax.imshow(images[sample], cmap="Greys")
        ax.set(xticks=[], yticks=[])
        ax.set_title(f"{model.confidence_[sample]:.2f}", fontsize=7)
    row[0].set_ylabel(cluster, rotation=0, labelpad=10, va="center")
plt.show()

# %%
# New images, with a description missing
# --------------------------------------
#
# New samples are placed by their nearest neighbours, in the descriptions that they have. Here the model sees half of
# the images, and the other half arrives later without edges and frequencies.
half = tm.MultiViewClustering(10, random_state=0).fit({name: view[:900] for name, view in views.items()})
later = half.predict({"pixels": views["pixels"][900:], "sums": views["sums"][900:]})
print(f"accuracy of the fitted half {tm.metrics.clustering_accuracy(y[:900], half.labels_):.1%}")
print(f"accuracy of the later half  {tm.metrics.clustering_accuracy(y[900:], later):.1%}")

# %%
# Next: see :doc:`patients` for descriptions that are missing in the fit itself, and :doc:`/after_the_fit` for
# everything that a fitted model offers.
