"""Seconds of fits on a device of PyTorch, by stage, and whether their labels are those of NumPy.

ESTMC in two sizes: a full graph Fourier transform of 11 673 samples in four views of 2 000 features (20 clusters), and
the anchor transform of a million samples in three views of 64 features (10 clusters). TSVDMVC and TLSpNM, whose
representations are n × n: 10 000 samples in two views of 200 features (10 clusters). TLRLF4MVC: the anchor transform of
200 000 samples in three views of 64 features (10 clusters). `MultiViewClustering`: a million samples in three views of
64 features, 70 000 in two views of 784 and 300 features that are mostly zero, and ten million in two views of 32
features in single precision (10 clusters each). Input arrays are NumPy's: moving them is included, starting the device
is not. Stages exclude one another.
"""

import argparse
import resource
import time
import warnings
from collections import defaultdict
from contextlib import contextmanager
from functools import wraps

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning

import tensormvc as tm
from tensormvc.bases import _anchor, _base, _graph
from tensormvc.graphs import _knn
from tensormvc.methods import _anchor_representation as anchors
from tensormvc.methods import _base as methods
from tensormvc.methods import _coordinates as coordinates
from tensormvc.methods import _self_representation as square
from tensormvc.methods import _tlrlf4mvc as codes
from tensormvc.views import _views

STAGES = {
    "views: move, check, order": [(methods, "as_views")],
    "  hashes": [(_views, "row_hashes")],
    "  unit length": [(_views, "unit_rows")],
    "neighbours": [(_knn, "knn_graph")],
    "BKHK": [(_anchor, "bkhk")],
    "graph to anchors": [(_anchor, "anchor_graph")],
    "spectrum of the anchors": [(_anchor.AGFT, "_settle_spectrum")],
    "eigenvectors of the Laplacian": [(_graph, "_all_eigenpairs")],
    "signs and components": [(_graph, "settle"), (_graph, "_set_component_vectors")],
    "probes": [(_views.Views, "probes")],
    "first anchors": [(anchors, "principal_anchors")],
    "singular vectors of the views": [(square, "_singular_coordinates")],
    "coordinates of the transform": [(square, "coordinates_of")],
    "loop: first rounds, without matrices": [(square.SelfRepresentation, "_begin")],
    "loop: columns": [(square, "_update_columns")],
    "loop: rows": [(anchors, "_update_z_e_y"), (anchors, "_update_w")],
    "loop: polar factors": [(anchors, "polar_factor")],
    # In the loop, or before and after one in coordinates.
    "transforms": [(_base.SampleModeBasis, "forward"), (_base.SampleModeBasis, "inverse")],
    "loop: slices": [(coordinates.SampleCoordinates, "shrink"), (coordinates._SliceCoordinates, "shrink")],
    "affinity": [(square.SelfRepresentation, "affinity")],
    "embedding": [(anchors, "embed"), (square, "spectral_embedding")],
    "k-means": [(methods, "kmeans_of_rows"), (codes, "kmeans_of_rows"), (square, "kmeans")],
    "kernel features": [(codes, "fit_kernels"), (codes, "ridge_roots")],
    "coordinates": [(codes, "SpanCoordinates")],
    "loop: codes": [(codes, "round")],
    "labels": [(codes, "best_discrete_labels"), (methods, "tidy_labels")],
}


PARTS = ["front", "compare", "full", "square", "codes", "anchors"]


@contextmanager
def stage_times():
    """Time the stages of every fit inside, each without those that it calls."""
    seconds, stack, undo = defaultdict(float), [0.0], []

    def timed(function, stage):
        @wraps(function)
        def run(*args, **kwargs):
            synchronise()
            start = time.perf_counter()
            stack.append(0.0)
            try:
                return function(*args, **kwargs)
            finally:
                synchronise()
                spent = time.perf_counter() - start
                seconds[stage] += spent - stack.pop()
                stack[-1] += spent

        return run

    for stage, places in STAGES.items():
        for owner, name in places:
            function = getattr(owner, name)
            undo.append((owner, name, function))
            setattr(owner, name, timed(function, stage))
    try:
        yield seconds
    finally:
        for owner, name, function in undo:
            setattr(owner, name, function)


def synchronise():
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def fit(views, n_clusters, device, method=tm.ESTMC, **options):
    """Return a fitted model and its seconds."""
    synchronise()
    start = time.perf_counter()
    model = method(n_clusters, random_state=0, device=device, **options).fit(views)
    return model, time.perf_counter() - start


def profile(title, views, y, n_clusters, device, repeats, **options):
    """Print the seconds of a fit, best of several, and then those of its stages."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    fits = [fit(views, n_clusters, device, **options) for _ in range(repeats)]
    model, best = min(fits, key=lambda pair: pair[1])
    print(f"\n## {title}: {best:.2f} s (all: {', '.join(f'{s:.2f}' for _, s in fits)})")
    print(f"{model.n_iter_} rounds, ARI with the true clusters {tm.metrics.ari(y, model.labels_):.4f}")
    if torch.cuda.is_available():
        print(f"peak memory of the device {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")
    with stage_times() as seconds:
        _, total = fit(views, n_clusters, device, **options)
    print("\n| stage | seconds |\n|---|---|")
    for stage in STAGES:
        if stage in seconds:
            print(f"| {stage} | {seconds[stage]:.3f} |")
    print(
        f"| the rest | {total - sum(seconds.values()):.3f} |\n| all, timed stage by stage | {total:.3f} |", flush=True
    )


def compare(title, views, n_clusters, device, **options):
    """Print how far the labels of the device are those of NumPy."""
    ours, seconds = fit(views, n_clusters, device, **options)
    host, host_seconds = fit(views, n_clusters, None, **options)
    pairs = list(zip(ours.history_, host.history_, strict=False))
    difference = max(abs(a.residuals[k] - b.residuals[k]) for a, b in pairs for k in a.residuals)
    print(
        f"| {title} | {options['basis']} | {tm.metrics.ari(host.labels_, ours.labels_):.4f} | {difference:.1e} "
        f"| {seconds:.2f} | {host_seconds:.2f} |",
        flush=True,
    )


def images(n_samples, n_features=(784, 300)):
    """Views of non-negative values, of which two thirds are zero, and their labels."""
    rng = np.random.default_rng(0)
    y = rng.integers(10, size=n_samples)
    centres = [rng.random((10, d)) * (rng.random((10, d)) < 0.3) - 0.2 for d in n_features]
    return [np.maximum(c[y] + 0.35 * rng.normal(size=(n_samples, c.shape[1])), 0) for c in centres], y


def front_door(title, views, y, device, repeats, effort="high"):
    """Print the seconds of the front door, best of several, and the memory that it took."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    fits = [fit(views, 10, device, method=tm.MultiViewClustering, effort=effort) for _ in range(repeats)]
    model, best = min(fits, key=lambda pair: pair[1])
    there = torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else 0
    here = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
    print(
        f"| {title} | {best:.2f} | {', '.join(f'{s:.2f}' for _, s in fits)} | {tm.metrics.ari(y, model.labels_):.4f} "
        f"| {there:.1f} | {here:.1f} |",
        flush=True,
    )


def front_doors(device, scale, repeats):
    """Print how far the labels of the front door are those of NumPy, and what it takes on large data."""
    print("\n## MultiViewClustering\n\n| data | ARI, device and NumPy | device, s | NumPy, s |\n|---|---|---|---|")
    small = {
        "digits": tm.datasets.load_digits_views(),
        "synthetic": tm.datasets.make_multiview(
            int(30_000 * scale), n_clusters=10, n_features=64, n_views=3, noise=1.0, random_state=1
        ),
        "images": images(int(15_000 * scale)),
    }
    for name, (views, _) in small.items():
        pairs = [fit(views, 10, where, method=tm.MultiViewClustering, effort="medium") for where in (device, None)]
        (ours, seconds), (host, host_seconds) = pairs
        print(f"| {name} | {tm.metrics.ari(host.labels_, ours.labels_):.4f} | {seconds:.2f} | {host_seconds:.2f} |")
    print("\n| data | seconds | all | ARI with the true clusters | device, GiB | host beside the views, GiB |")
    print("|---|---|---|---|---|---|", flush=True)
    shape = {"n_clusters": 10, "noise": 1.0, "random_state": 0}
    views, y = tm.datasets.make_multiview(int(1e6 * scale), n_features=64, n_views=3, **shape)
    front_door("10⁶ × 3 × 64", views, y, device, repeats)
    front_door("70 000 × (784 + 300)", *images(int(70_000 * scale)), device, repeats)
    views, y = tm.datasets.make_multiview(int(1e7 * scale), n_features=32, n_views=2, dtype=np.float32, **shape)
    front_door("10⁷ × 2 × 32, single precision", views, y, device, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the sizes")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--files", nargs="*", default=[], help="data sets on which the labels are compared, too")
    parser.add_argument("--skip", nargs="*", default=[], choices=PARTS)
    args = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    name = torch.cuda.get_device_name() if args.device.startswith("cuda") else args.device
    print(f"{name}, PyTorch {torch.__version__}")

    start = time.perf_counter()
    for method in (tm.ESTMC, tm.TSVDMVC):
        for basis in ("gft-sim", "agft"):
            fit(tm.datasets.make_multiview(600, random_state=0)[0], 3, args.device, method=method, basis=basis)
    print(f"the device's start, with four small fits: {time.perf_counter() - start:.1f} s", flush=True)

    if "front" not in args.skip:
        fit(tm.datasets.make_multiview(600, random_state=0)[0], 3, args.device, method=tm.MultiViewClustering)
        front_doors(args.device, args.scale, args.repeats)
    if "compare" not in args.skip:
        print("\n| data | basis | ARI, device and NumPy | largest difference of a residual | device, s | NumPy, s |")
        print("|---|---|---|---|---|---|")
        for dtype in (np.float64, np.float32):
            views, y = tm.datasets.make_multiview(
                3000, n_clusters=8, n_features=(40, 60, 90), noise=1.0, dtype=dtype, random_state=1
            )
            for basis in ("gft-sim", "gft-sum", "agft", "fft"):
                compare(f"synthetic, {np.dtype(dtype)}", views, 8, args.device, basis=basis)
        views, y = tm.datasets.make_multiview(600, n_clusters=8, n_features=(40, 60, 90), noise=1.0, random_state=1)
        for method in (tm.TSVDMVC, tm.TLSpNM, tm.TLRLF4MVC):
            for basis in ("gft-sum", "agft", "fft", "fft-view"):
                compare(f"synthetic, {method.__name__}", views, 8, args.device, method=method, basis=basis)
        for path in args.files:
            views, y = tm.datasets.load_views(path)
            for basis in ("gft-sim", "gft-sum", "agft", "fft"):
                compare(path, views, len(np.unique(y)), args.device, basis=basis)

    if "full" not in args.skip:
        n = int(11_673 * args.scale)
        views, y = tm.datasets.make_multiview(n, n_clusters=20, n_features=2000, n_views=4, noise=0.3, random_state=0)
        profile(f"gft-sim, {n} samples, 4 views of 2 000", views, y, 20, args.device, args.repeats, basis="gft-sim")
    if "square" not in args.skip:
        n = int(10_000 * args.scale)
        views, y = tm.datasets.make_multiview(n, n_clusters=10, n_features=200, n_views=2, noise=0.5, random_state=0)
        for method in (tm.TSVDMVC, tm.TLSpNM):
            title = f"{method.__name__}, gft-sum, {n} samples, 2 views of 200"
            profile(title, views, y, 10, args.device, args.repeats, method=method, basis="gft-sum")
    if "codes" not in args.skip:
        n = int(200_000 * args.scale)
        views, y = tm.datasets.make_multiview(n, n_clusters=10, n_features=64, n_views=3, noise=1.0, random_state=0)
        title = f"TLRLF4MVC, agft, {n} samples, 3 views of 64"
        profile(title, views, y, 10, args.device, args.repeats, method=tm.TLRLF4MVC, basis="agft")
    if "anchors" not in args.skip:
        n = int(1_000_000 * args.scale)
        for dtype in (np.float64, np.float32):
            views, y = tm.datasets.make_multiview(
                n, n_clusters=10, n_features=64, n_views=3, noise=1.0, dtype=dtype, random_state=0
            )
            title = f"agft, {n} samples, 3 views of 64, {np.dtype(dtype)}"
            profile(title, views, y, 10, args.device, args.repeats, basis="agft")


if __name__ == "__main__":
    main()
