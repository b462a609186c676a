"""
A million rows
==============

This tutorial clusters a million samples in three views of 32 features on one machine, with `MultiViewClustering`, which
clusters a few thousand landmarks and assigns all other samples to them, and with `ESTMC` and the anchor transform
(AGFT), whose cost is linear in the number of samples.
"""

# %%
# ## Data
#
# The data are synthetic, with ten groups, in single precision: 384 MB. With your own data, `load_views` leaves large
# files on disk, and `numpy.memmap` arrays work as well.
import os
import time

import numpy as np

import tensormvc as tm

rng = np.random.default_rng(0)
y = rng.integers(10, size=1_000_000)
views = [rng.normal(size=(10, 32)).astype(np.float32)[y] for _ in range(3)]
for view in views:
    view += 1.5 * rng.standard_normal(size=view.shape, dtype=np.float32)
print([view.shape for view in views], f"{sum(view.nbytes for view in views) / 1e6:.0f} MB")

# %%
# ## MultiViewClustering
#
# `effort` sets the number of landmarks: 2 000, 5 000, 10 000 or 20 000 ("low", "medium", "high", "full"). Set it
# if results must not depend on the speed of the machine; otherwise `time_budget` decides.
start = time.perf_counter()
model = tm.MultiViewClustering(10, effort="low", random_state=0).fit(views)
print(f"{time.perf_counter() - start:.0f} s on {os.cpu_count()} processors, {len(model.landmarks_)} landmarks")
print(f"accuracy {tm.metrics.clustering_accuracy(y, model.labels_):.1%} (uses the labels of the synthetic data)")

# %%
# Every sample has a label, shares of all clusters, and a confidence. Check the labels with a low confidence
# first.
for low, high in ((0, 0.5), (0.5, 0.9), (0.9, 1.01)):
    chosen = (model.confidence_ >= low) & (model.confidence_ < high)
    right = f"accuracy {tm.metrics.clustering_accuracy(y[chosen], model.labels_[chosen]):.1%}" if chosen.any() else ""
    print(f"confidence {low} to {min(high, 1)}: {chosen.sum():>7} samples  {right}")

# %%
# ## A tensor method
#
# `ESTMC` works on all samples. With `device="cuda"` it runs on a GPU, where a million samples take a few seconds.
start = time.perf_counter()
method = tm.ESTMC(10, basis="agft", random_state=0).fit(views)
print(f"{time.perf_counter() - start:.0f} s, {method.n_iter_} iterations")
print(f"accuracy {tm.metrics.clustering_accuracy(y, method.labels_):.1%}")

# %%
# ## Even larger data
#
# Data that do not fit in memory stay on disk, and data that do not fit on one machine are clustered by Dask: see [large
# data](../guide/large_data.md) for which methods support this.
