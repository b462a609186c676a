"""
The same samples in another order
=================================

400 handwritten digits in four views, first sorted by class, as benchmark files are, then shuffled. Nothing about the
samples changes. A published tensor method, TLSpNM, transforms along the samples with the FFT: it loses a fifth of its
accuracy. With the graph Fourier transform (GFT) in its place the clusters stay the same, sample by sample, and so do
those of `MultiViewClustering`. Labels are used only to measure the accuracy.
"""

import matplotlib.pyplot as plt

import tensormvc as tm

views, y = tm.datasets.load_digits_views(400, class_sorted=True)
shuffled, shuffled_y, _ = tm.datasets.shuffle_samples(views, y, random_state=0)

methods = {
    "TLSpNM with the FFT": tm.TLSpNM(10, basis="fft", random_state=0).fit_predict,
    "TLSpNM with the GFT": tm.TLSpNM(10, basis="gft-sum", random_state=0).fit_predict,
    "MultiViewClustering": tm.MultiViewClustering(10, random_state=0).fit_predict,
}
figure, ax = plt.subplots(figsize=(7.2, 2.4), layout="constrained")
for row, cluster in enumerate(reversed(methods.values())):
    before = 100 * tm.metrics.clustering_accuracy(y, cluster(views))
    after = 100 * tm.metrics.clustering_accuracy(shuffled_y, cluster(shuffled))
    ax.plot([before, after], [row, row], color="0.75", lw=6, zorder=1, solid_capstyle="round")
    ax.scatter(before, row, s=240, color="#0072B2", zorder=2, label="sorted by class" if row == 0 else None)
    ax.scatter(after, row, s=80, color="#D55E00", marker="D", zorder=3, label="shuffled" if row == 0 else None)
    change = "the same" if before == after else f"{after - before:+.1f} points".replace("-", "−")
    ax.annotate(change, (max(before, after) + 1.4, row), va="center", fontsize=11)
ax.set_yticks(range(len(methods)), list(methods)[::-1], fontsize=11)
ax.set(xlabel="accuracy in percent (uses labels)", xlim=(60, 108), ylim=(-0.6, len(methods) - 0.4))
ax.set_xticks(range(60, 101, 10))
ax.spines[["top", "right", "left"]].set_visible(False)
ax.tick_params(axis="y", length=0)
ax.legend(loc="lower left", frameon=False)
plt.show()
