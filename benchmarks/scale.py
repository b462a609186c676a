"""How fits grow with the number of samples: seconds, arithmetic and memory traffic against the machine's, peak memory.

Synthetic samples in three views of 64 features, ten clusters. Every fit runs in a process of its own, so that the peak
is its own too; a fixed number of rounds, so that sizes can be compared. GFLOP/s and GB/s are those of a round: what its
formulas need (`per_round`), each array read or written once, divided by the median seconds of the later rounds.

With --mnist: fits of MNIST70k.mat (in the folder that TENSORMVC_SHARED names, else in ../shared) in units of
scikit-learn's KMeans(10, n_init=1, max_iter=100, tol=0, random_state=0) on the concatenated views in the same run.
"""

import argparse
import math
import multiprocessing
import os
import resource
import statistics
import sys
import time
import warnings
from contextlib import suppress
from pathlib import Path
from queue import Empty

import numpy as np
from _measure import seconds as median_seconds
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

import tensormvc as tm
from tensormvc.backend.threads import parallel_ranges

N_VIEWS, N_FEATURES, N_CLUSTERS = 3, 64, 10
QUADRATIC = ["TSVDMVC", "TLSpNM"]
LINEAR = ["ESTMC", "ASRETR", "TLRLF4MVC"]
BASES = ["fft", "gft-sum", "agft"]
N_LATENT, CODE_LENGTH, KERNEL_ANCHORS, GRAPH_ANCHORS, NEIGHBOURS = 20, 64, 1024, 256, 10
# n² memory, or n² work of a transform.
MOST = {"quadratic": 2_000, "gft-sum": 8_000}
UNIT = "KMeans(10, n_init=1, max_iter=100, tol=0, random_state=0)"


def transforms(n, width, basis):
    """Operations of a forward and an inverse transform of (n, width) numbers."""
    if basis == "fft":
        return 2 * 2.5 * n * math.log2(n) * width
    if basis == "gft-sum":
        return 2 * 2 * n * n * width
    return 2 * 2 * (n * NEIGHBOURS + GRAPH_ANCHORS**2) * width


def per_round(method, basis, n):
    """Operations and bytes that a round needs: products, transforms; each array once, float64."""
    m, d = N_VIEWS, N_FEATURES
    if method in QUADRATIC:
        # Two products n × n × r a view, in the coordinates of the transform; G, W, Z three times; X and the errors.
        r = min(n, d)
        return 4 * n * n * r * m, 8 * m * (7 * n * n + 5 * n * r)
    if method == "TLRLF4MVC":
        c, a = CODE_LENGTH, KERNEL_ANCHORS if n >= 4 * KERNEL_ANCHORS else 2 ** int(math.log2(max(2, n // 4)))
        columns = GRAPH_ANCHORS + N_CLUSTERS + 3 * c + m * a
        if basis == "agft" and columns <= n // 2:
            # In coordinates: the factors are triangular, one view longer than the other.
            rows = sum(columns - v * a for v in range(m))
            return 4 * rows * a * c + 4 * GRAPH_ANCHORS**2 * c * m, 8 * (rows * a + 16 * columns * c * m)
        # On the coefficients of an orthogonal transform.
        return 4 * n * a * c * m + (transforms(n, c * m, basis) if basis == "agft" else 0), 8 * n * m * (a + 14 * c)
    # Z, the residual and the anchors: a product n × d × l each.
    width = N_LATENT * m
    return 6 * n * d * width + transforms(n, width, basis), 8 * n * (2 * d * m + 8 * width)


def options(method, basis, rounds):
    given = {"basis": basis, "random_state": 0}
    if rounds:
        given |= {"max_iter": rounds, "tol": 0.0}
    if method in ("ESTMC", "ASRETR"):
        given["n_latent"] = N_LATENT
    return given


def fit(queue, method, n_clusters, given, source):
    """Fit in this process; put the figures into the queue."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    views, y = load(source)
    before = time.process_time()
    start = time.perf_counter()
    model = getattr(tm, method)(n_clusters, **given).fit(views)
    elapsed = time.perf_counter() - start
    if method == "MultiViewClustering":
        queue.put(
            {
                "seconds": elapsed,
                "processor": time.process_time() - before,
                "landmarks": len(model.landmarks_),
                "peak": peak_memory(),
                "ARI": tm.metrics.ari(y, model.labels_),
            }
        )
        return
    later = [record.seconds for record in model.history_[len(model.history_) // 2 :]]
    queue.put(
        {
            "seconds": elapsed,
            "round": statistics.median(later),
            "rounds": model.n_iter_,
            "peak": peak_memory(),
            "ACC": tm.metrics.clustering_accuracy(y, model.labels_),
        }
    )


def peak_memory():
    """Return the bytes that this process has held at most."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return 1024 * int(line.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def load(source):
    if isinstance(source, int):
        return tm.datasets.make_multiview(
            source, n_clusters=N_CLUSTERS, n_features=(N_FEATURES,) * N_VIEWS, random_state=0
        )
    return tm.datasets.load_views(source)


def fit_alone(*arguments):
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=fit, args=(queue, *arguments))
    process.start()
    while process.is_alive() or not queue.empty():
        with suppress(Empty):
            result = queue.get(timeout=1)
            process.join()
            return result
    return None


def median_fit(repeats, *arguments):
    found = [fit_alone(*arguments) for _ in range(repeats)]
    if None in found:
        return None
    return {name: statistics.median(result[name] for result in found) for name in found[0]}


def machine_peaks():
    """Return GFLOP/s of a 2000 × 2000 matrix product, and GB/s of a copy by all threads (bytes read and written)."""
    a = np.random.default_rng(0).normal(size=(2000, 2000))
    source, target = np.ones(2**25), np.zeros(2**25)

    def copy():
        def work(start, stop):
            target[start:stop] = source[start:stop]

        parallel_ranges(work, len(source), 2**20)

    times = median_seconds({"product": lambda: a @ a, "copy": copy}, 3)
    return 16 / times["product"], 2 * source.nbytes / 1e9 / times["copy"]


def growth(args):
    gflops, gbytes = machine_peaks()
    print(f"Peaks: {gflops:.0f} GFLOP/s (matrix product), {gbytes:.0f} GB/s (copy). {args.rounds or 'Own'} rounds.\n")
    print(
        "| method | basis | n | fit, s | a round, ms | GFLOP/s | of the peak | GB/s | of the peak | peak memory, GB |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    slopes = []
    for method in args.methods:
        for basis in args.bases:
            points = []
            for n in args.sizes:
                if n > min(
                    MOST["quadratic"] if method in QUADRATIC else math.inf,
                    MOST.get(basis, math.inf),
                    args.largest_fft if basis == "fft" else math.inf,
                ):
                    continue
                found = median_fit(args.repeats, method, N_CLUSTERS, options(method, basis, args.rounds), n)
                if found is None:
                    print(f"| {method} | {basis} | {n} | failed | | | | | | |", flush=True)
                    continue
                points.append((n, found["seconds"]))
                operations, traffic = (count / 1e9 / found["round"] for count in per_round(method, basis, n))
                print(
                    f"| {method} | {basis} | {n} | {found['seconds']:.2f} | {1e3 * found['round']:.1f} "
                    f"| {operations:.1f} | {operations / gflops:.0%} | {traffic:.1f} | {traffic / gbytes:.0%} "
                    f"| {found['peak'] / 1e9:.2f} |",
                    flush=True,
                )
            if len(points) > 1:
                slopes.append((method, basis, points[0][0], points[-1][0], slope(points)))
    print("\n| method | basis | n from | to | log-log slope of the seconds |")
    print("|---|---|---|---|---|")
    for method, basis, first, last, value in slopes:
        print(f"| {method} | {basis} | {first} | {last} | {value:.2f} |")


def front_door(args):
    """Print what `MultiViewClustering` costs as the number of samples grows."""
    print("| n | fit, s | processor, s | landmarks | peak memory, GB | ARI |\n|---|---|---|---|---|---|")
    points = []
    for n in args.sizes:
        found = median_fit(args.repeats, "MultiViewClustering", N_CLUSTERS, {"random_state": 0}, n)
        points.append((n, found["seconds"]))
        figures = f"{found['seconds']:.1f} | {found['processor']:.1f} | {found['landmarks']:,.0f}"
        print(f"| {n:,} | {figures} | {found['peak'] / 1e9:.2f} | {found['ARI']:.4f} |", flush=True)
    if len(points) > 1:
        print(f"log-log slope of the seconds: {slope(points):.2f}")


def slope(points):
    sizes, times = np.log(np.array(points)).T
    return float(np.polyfit(sizes, times, 1)[0])


def anchor_graph_clustering(views, n_clusters):
    """Spectral clustering with the graph to anchors: k-means of its lowest frequencies, rows at unit length."""
    basis = tm.AGFT().fit(views, n_clusters=n_clusters)
    slices = np.zeros((len(basis.slice_weights_), n_clusters, 1))
    slices[np.arange(n_clusters), np.arange(n_clusters)] = 1
    embedding = basis.inverse(slices)[:, :, 0]
    embedding /= np.linalg.norm(embedding, axis=1, keepdims=True)
    return KMeans(n_clusters, n_init=10, random_state=0).fit_predict(embedding)


def mnist(args):
    path = str(Path(args.shared) / "data" / "MNIST70k.mat")
    views, y = load(path)
    points = np.concatenate([np.asarray(view, dtype=np.float64) for view in views], axis=1)
    units, accuracy = [], None

    def unit():
        nonlocal accuracy
        start = time.perf_counter()
        labels = KMeans(10, n_init=1, max_iter=100, tol=0, random_state=0).fit_predict(points)
        units.append(time.perf_counter() - start)
        accuracy = tm.metrics.clustering_accuracy(y, labels)

    found = {method: [] for method in args.methods if method in LINEAR}
    unit()
    units.clear()
    for _ in range(args.repeats):
        unit()
        for method, results in found.items():
            results.append(fit_alone(method, 10, {"basis": "agft", "random_state": 0}, path))
    start = time.perf_counter()
    spectral = tm.metrics.clustering_accuracy(y, anchor_graph_clustering(views, 10))
    spectral_seconds = time.perf_counter() - start
    one = statistics.median(units)
    print(f"MNIST70k, agft, parameters by default. A unit: {UNIT}, {one:.2f} s.\n")
    print("| what | rounds | seconds | units | peak memory, GB | ACC |")
    print("|---|---|---|---|---|---|")
    print(f"| k-means (the unit) | | {one:.2f} | 1 | | {accuracy:.3f} |")
    row = f"{spectral_seconds:.2f} | {spectral_seconds / one:.1f} | | {spectral:.3f}"
    print(f"| anchor-graph spectral clustering | | {row} |")
    for method, results in found.items():
        if None in results:
            print(f"| {method} | failed | | | | |")
            continue
        middle = {name: statistics.median(result[name] for result in results) for name in results[0]}
        print(
            f"| {method} | {middle['rounds']:.0f} | {middle['seconds']:.1f} | {middle['seconds'] / one:.1f} "
            f"| {middle['peak'] / 1e9:.2f} | {middle['ACC']:.3f} |"
        )


def ccv(args):
    """Print a round of ESTMC with a full graph spectrum beside its two products alone."""
    path = str(args.shared / "data" / "CCV.mat")
    views, y = load(path)
    n, m = len(y), len(views)
    eigenvectors, tensor = np.random.default_rng(0).normal(size=(n, n)), np.ones((n, N_LATENT * 2 * m))
    slices = eigenvectors.T @ tensor
    products = median_seconds({"both": lambda: (eigenvectors.T @ tensor, eigenvectors @ slices)}, 3)["both"]
    found = median_fit(args.repeats, "ESTMC", 20, {"basis": "gft-sum", "random_state": 0}, path)
    alone = f"its two products alone {1e3 * products:.0f} ms, ratio {found['round'] / products:.2f}"
    print(f"CCV, n = {n}, gft-sum: a round {1e3 * found['round']:.0f} ms, {alone}")


def main():
    root = Path(__file__).parents[1]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="*", default=[*QUADRATIC, *LINEAR], choices=[*QUADRATIC, *LINEAR])
    parser.add_argument("--bases", nargs="*", default=BASES, choices=BASES)
    parser.add_argument("--sizes", nargs="*", type=int, default=[500, 1_000, 2_000, 8_000, 50_000, 200_000, 1_000_000])
    parser.add_argument("--largest-fft", type=int, default=50_000, help="most samples under the FFT")
    parser.add_argument("--rounds", type=int, default=30, help="rounds of a fit; 0: until its own stop")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--mnist", action="store_true", help="the table of MNIST70k instead")
    parser.add_argument("--ccv", action="store_true", help="a round with a full spectrum beside its products instead")
    parser.add_argument("--front-door", action="store_true", help="fits of MultiViewClustering instead")
    parser.add_argument("--shared", type=Path, default=Path(os.environ.get("TENSORMVC_SHARED", root.parent / "shared")))
    args = parser.parse_args()
    if args.mnist:
        mnist(args)
    elif args.ccv:
        ccv(args)
    elif args.front_door:
        front_door(args)
    else:
        growth(args)


if __name__ == "__main__":
    main()
