"""
What sets a cluster apart?
==========================

The features of two views that differ most between each cluster and all other samples, with 95 % confidence intervals.
Three features of the first view and one of the second were planted for each of three clusters.
"""

import matplotlib.pyplot as plt
import numpy as np

import tensormvc as tm

rng = np.random.default_rng(0)
labels = np.arange(150) % 3
words, pixels = rng.poisson(2, size=(150, 40)), rng.normal(size=(150, 30))
for cluster in range(3):
    words[np.ix_(labels == cluster, range(3 * cluster, 3 * cluster + 3))] += 2
    pixels[labels == cluster, cluster] -= 1.5
names = {"text": [f"word {i}" for i in range(40)], "image": [f"pixel {i}" for i in range(30)]}
explanation = tm.explain.explain_clusters([words, pixels], labels, view_names=list(names), feature_names=names)
print(explanation)
explanation.plot()
plt.show()
