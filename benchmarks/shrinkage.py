"""Low-rank shrinkage of an (n, n, m) tensor under the FFT, against one SVD a slice."""

import argparse

import numpy as np
from _measure import peak_bytes, seconds, unit

import tensormvc as tm


def loop_of_svds(tensor, threshold):
    """The published way: one SVD for each slice of half the spectrum."""
    n = tensor.shape[0]
    slices = np.fft.rfft(tensor, axis=0)
    for k in range(slices.shape[0]):
        left, s, right = np.linalg.svd(slices[k], full_matrices=False)
        slices[k] = (left * np.maximum(s - threshold, 0)) @ right
    return np.fft.irfft(slices, n=n, axis=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=2000, help="samples (default 2000)")
    parser.add_argument("-m", type=int, default=6, help="views (default 6)")
    parser.add_argument("--repeats", type=int, default=5, help="runs of which the median is taken (default 5)")
    args = parser.parse_args()

    tensor = np.random.default_rng(0).normal(size=(args.n, args.n, args.m))
    threshold = 0.9 * args.n
    basis = tm.FFT().fit(tensor)
    work, out = basis.forward(tensor), np.empty_like(tensor)

    def ours():
        return tm.shrinkage.low_rank_shrink(tensor, basis, "nuclear", threshold, out=out, work=work)

    expected = loop_of_svds(tensor, threshold)
    error = np.linalg.norm(ours() - expected) / np.linalg.norm(expected)
    times = seconds({"one SVD a slice": lambda: loop_of_svds(tensor, threshold), "low_rank_shrink": ours}, args.repeats)
    one_shot = peak_bytes(lambda: tm.shrinkage.low_rank_shrink(tensor, basis, "nuclear", threshold)) / tensor.nbytes
    reused = peak_bytes(ours) / tensor.nbytes

    print(f"tensor {tensor.shape}, {tensor.nbytes / 2**20:.0f} MiB; one 2000³ matrix product: {unit():.3f} s")
    print(f"| {'what':<16} | seconds | ratio | extra memory, in tensors |")
    print("|---|---|---|---|")
    for name, value in times.items():
        memory = f"{one_shot:.2f} (buffers given: {reused:.2f})" if name == "low_rank_shrink" else ""
        print(f"| {name:<16} | {value:7.3f} | {times['one SVD a slice'] / value:5.1f} | {memory} |")
    print(f"relative difference of the results: {error:.1e}")


if __name__ == "__main__":
    main()
