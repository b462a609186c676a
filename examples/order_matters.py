"""
The order of the samples matters to the FFT, but not to the GFT
===============================================================

The same handwritten digits, once sorted by class and once shuffled. A tensor method transforms along the samples and
shrinks the singular values of every spectral slice. Under the FFT, both the spectrum and the result of the shrinkage
depend on the order of the rows, which carries no information. Under a data-adaptive transform they do not.
"""

import argparse
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

import tensormvc as tm

COLOURS = {"class-sorted": "#0072B2", "shuffled": "#D55E00"}
# For the coefficients of the FFT, which are √n times larger than those of an orthonormal transform.
FFT_THRESHOLD = 60.0


def class_contrast(tensor, y):
    """Return the mean similarity within classes minus that between them, averaged over views."""
    same = y[:, None] == y[None, :]
    mean = tensor.mean(axis=2)
    return mean[same].mean() - mean[~same].mean()


def look(views, y, basis, threshold):
    """Shrink the similarity tensor under a basis and measure the effect."""
    tensor = tm.diagnostics.similarity_tensor(views)  # the tensor of the paper's figures
    shrunk = tm.shrinkage.low_rank_shrink(tensor, basis, "nuclear", threshold)
    # Slice 0 is close to the mean over the samples, which does not depend on their order.
    before, after = (
        (basis.slice_weights_ * np.sum(np.abs(basis.forward(t)) ** 2, axis=(1, 2)))[1:] for t in (tensor, shrunk)
    )
    return {
        "low": before[: len(before) // 20].sum() / before.sum(),
        "rank": tm.algebra.tensor_rank(shrunk, basis, tol=1e-9),
        "kept": after.sum() / before.sum(),
        "contrast": (class_contrast(tensor, y), class_contrast(shrunk, y)),
        "spectra": (np.sqrt(before), np.sqrt(after)),
        "similarity": (shrunk[:, :, 0], y),
    }


def main():
    """Print the comparison and save the figure."""
    parser = argparse.ArgumentParser(description="Show how a tensor method depends on the order of the samples.")
    parser.add_argument("-o", "--output", type=Path, default=Path("demo"), help="folder for the figure")
    args = parser.parse_args()

    views, y = tm.datasets.load_digits_views(600, class_sorted=True)
    shuffled, shuffled_y, _ = tm.datasets.shuffle_samples(views, y, random_state=0)
    data = {"class-sorted": (views, y), "shuffled": (shuffled, shuffled_y)}
    bases = {
        "FFT": (tm.FFT, FFT_THRESHOLD),
        "GFT": (lambda: tm.GFT("sum"), FFT_THRESHOLD / np.sqrt(len(y))),
    }

    print(f"{len(y)} handwritten digits in {len(views)} views; the same samples in two orders.\n")
    print(f"{'':<25}{'energy in the lowest':>22}{'rank after':>12}{'energy':>9}{'class contrast':>19}")
    print(f"{'transform, order':<25}{'5 % of frequencies':>22}{'shrinkage':>12}{'kept':>9}{'before → after':>19}")
    looks = {}
    for transform, (make, threshold) in bases.items():
        for order, (parts, labels) in data.items():
            seen = looks[transform, order] = look(parts, labels, make().fit(parts), threshold)
            numbers = f"{seen['low']:>22.0%}{seen['rank']:>12.2f}{seen['kept']:>9.0%}"
            contrast = "{:.3f} → {:.3f}".format(*seen["contrast"])
            print(f"{transform + ', ' + order:<25}{numbers}{contrast:>19}")

    args.output.mkdir(parents=True, exist_ok=True)
    picture = args.output / "order_matters.png"
    draw(looks, picture)
    print(
        "\nThe samples and their similarities are the same; only the order of the rows differs. To the FFT, samples\n"
        "sorted by class are a smooth signal and shuffled samples are noise. The graph Fourier transform takes its\n"
        "frequencies from the data: its two lines are equal to the last digit.\n\n"
        f"Figure: {picture.resolve()}"
    )


def draw(looks, path):
    """Plot the spectra before and after the shrinkage, and the shrunk similarities with rows sorted by class."""
    figure, axes = plt.subplots(2, 4, figsize=(15, 7.4), layout="constrained")
    for column, ((transform, order), seen) in enumerate(looks.items()):
        top, bottom = axes[:, column]
        before, after = seen["spectra"]
        k = np.arange(1, len(before) + 1)
        top.fill_between(k, before, color=COLOURS[order], alpha=0.3, label="before", lw=0)
        top.plot(k, after, color=COLOURS[order], lw=1.2, label="after shrinkage")
        highest = max(other["spectra"][0].max() for (t, _), other in looks.items() if t == transform)
        top.set(title=f"{transform}, {order}", xlabel="frequency (slice)", ylabel="norm of the slice")
        top.set_ylim(0, 1.05 * highest)
        top.legend(frameon=False)
        similarity, labels = seen["similarity"]
        by_class = np.argsort(labels, kind="stable")
        low, high = np.quantile(looks["FFT", "class-sorted"]["similarity"][0], [0.01, 0.99])
        image = bottom.imshow(similarity[np.ix_(by_class, by_class)], cmap="cividis", vmin=low, vmax=high)
        bottom.set(title="after shrinkage", xlabel="samples, by class", ylabel="samples, by class")
    figure.colorbar(image, ax=axes[1], label="similarity (pixels view)")
    figure.savefig(path, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    main()
