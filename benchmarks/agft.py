"""The anchor graph Fourier transform, factored, against the same basis formed; and how its cost grows with n."""

import argparse
import math
import time

import numpy as np
from _measure import peak_bytes, seconds, unit

import tensormvc as tm
from tensormvc.views import as_views


def factored_against_formed(n, width, n_anchors, repeats):
    views = tm.datasets.make_multiview(n, n_clusters=10, n_features=(16, 16, 16), random_state=0)[0]
    made = as_views(views)
    basis = tm.AGFT(n_anchors=n_anchors, n_neighbors=10).fit(made)
    tensor = np.random.default_rng(0).normal(size=(n, width // 3, 3))
    columns = tensor.reshape(n, -1)
    formed = basis.inverse(np.eye(len(basis.slice_weights_))[:, :, None])[:, :, 0]
    out, back = np.empty((formed.shape[1], columns.shape[1])), np.empty_like(columns)

    def factored():
        basis.inverse(basis.forward(tensor), out=back.reshape(tensor.shape))

    def dense():
        np.matmul(formed.T, columns, out=out)
        np.matmul(formed, out, out=back)

    dense()
    expected = back.copy()
    factored()
    error = np.linalg.norm(back - expected) / np.linalg.norm(expected)
    times = seconds({"U formed": dense, "factored": factored}, repeats)
    memory = peak_bytes(factored)
    print(f"n = {n}, {width} columns, {n_anchors} anchors, 10 a sample; one 2000³ matrix product: {unit():.3f} s")
    print("| what | forward + inverse, s | ratio | memory beyond the tensors, MB |")
    print("|---|---|---|---|")
    print(f"| U formed | {times['U formed']:.3f} | 1.0 | {(formed.nbytes + out.nbytes) / 1e6:.0f} |")
    ratio = times["U formed"] / times["factored"]
    print(f"| factored | {times['factored']:.3f} | {ratio:.1f} | {memory / 1e6:.0f} |")
    print(f"relative difference: {error:.1e}\n")


def growth(sizes, repeats):
    print("| n | build, s | forward + inverse of (n, 20, 3), s |")
    print("|---|---|---|")
    totals = []
    for n in sizes:
        views = tm.datasets.make_multiview(n, n_clusters=10, n_features=(16, 16, 16), random_state=0)[0]
        made = as_views(views)
        tensor = np.random.default_rng(0).normal(size=(n, 20, 3))
        builds, applications = [], []
        for _ in range(repeats):
            start = time.perf_counter()
            basis = tm.AGFT(n_anchors=256).fit(made)
            middle = time.perf_counter()
            basis.inverse(basis.forward(tensor))
            builds.append(middle - start)
            applications.append(time.perf_counter() - middle)
        build, application = np.median(builds), np.median(applications)
        totals.append(build + application)
        print(f"| {n} | {build:.2f} | {application:.3f} |", flush=True)
    slope = math.log(totals[-1] / totals[0]) / math.log(sizes[-1] / sizes[0])
    print(f"log-log slope of the sum from n = {sizes[0]} to {sizes[-1]}: {slope:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=200_000)
    parser.add_argument("--width", type=int, default=192, help="columns of the tensor, d·m (default 192)")
    parser.add_argument("--anchors", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    args = parser.parse_args()
    factored_against_formed(args.n, args.width, args.anchors, args.repeats)
    growth(args.sizes, max(1, args.repeats // 2))


if __name__ == "__main__":
    main()
