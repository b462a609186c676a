"""
A million rows
==============

A million samples in three views of 32 features, on one machine. Two ways: `MultiViewClustering`, which clusters some
thousands of landmarks and places all others by them, and `ESTMC` with the anchor transform (AGFT), whose cost is linear
in the number of samples. The outputs are from two processors of a server that was busy with other work: take the
seconds as upper bounds.
"""

# %%
# ## Data
#
# Synthetic, ten groups, in single precision: 384 MB. Of your own data, `load_views` leaves large files on disk, and
# `numpy.memmap` arrays work as well.
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
# ## The front door
#
# `effort` sets how many landmarks there are: 2 000, 5 000, 10 000 or 20 000 ("low", "medium", "high", "full"). Set it
# where results must not depend on the speed of the machine; otherwise `time_budget` decides.
start = time.perf_counter()
model = tm.MultiViewClustering(10, effort="low", random_state=0).fit(views)
print(f"{time.perf_counter() - start:.0f} s on {os.cpu_count()} processors, {len(model.landmarks_)} landmarks")
print(f"accuracy {tm.metrics.clustering_accuracy(y, model.labels_):.1%} (uses the labels of the synthetic data)")

# %%
# Every sample has its label, its shares of all clusters, and its confidence. Labels of low confidence are the ones to
# look at.
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
# ## More than that
#
# What does not fit in memory stays on disk, and what does not fit on one machine runs on a Dask cluster: [large
# data](../guide/large_data.md) says which method can do what.
