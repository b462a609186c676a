"""
Two views that are both half right
==================================

Three groups of samples. The first view can hardly tell the groups 0 and 1 apart, the second 1 and 2, so
that k-means with three clusters in either view alone splits a group at random. Samples that are together in most
clusterings of both views belong together: the matrix counts how often, and `MultiViewClustering` finds the groups that
both views support.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans

import tensormvc as tm

rng = np.random.default_rng(0)
group = np.arange(150) // 50
first = rng.normal(scale=0.6, size=(150, 2)) + np.array([[0, 0], [0, 0.9], [4, 0]])[group]
second = rng.normal(scale=0.6, size=(150, 2)) + np.array([[0, 0], [4, 0], [4, 0.9]])[group]
views = [first, second]
clusterings = [KMeans(3, n_init=1, random_state=seed).fit_predict(view) for seed in range(10) for view in views]
together = np.mean([labels[:, None] == labels for labels in clusterings], axis=0)
model = tm.MultiViewClustering(3, random_state=0).fit(views)

figure, axes = plt.subplots(2, 2, figsize=(7.2, 6), layout="constrained")
colours = np.array(["#0072B2", "#D55E00", "#009E73"])
for ax, view, labels, name in zip(axes[0], views, clusterings, ("first", "second"), strict=False):
    ax.scatter(*view.T, s=14, c=colours[labels])
    ax.set_title(f"k-means on the {name} view")
axes[1, 0].imshow(together, cmap="Greys")
axes[1, 0].set_title("how often two samples are together")
axes[1, 1].scatter(first[:, 0], second[:, 0], s=14, c=colours[model.labels_])
axes[1, 1].set(title="consensus of both views", xlabel="first view", ylabel="second view")
for ax in axes.flat[:3]:
    ax.set(xticks=[], yticks=[])
print(f"accuracy of the consensus {tm.metrics.clustering_accuracy(group, model.labels_):.0%}")
plt.show()
