"""Seconds of a fit, for each method and basis, beside those of the original programs and in units of a matrix product.

The data are the benchmark files, shuffled, found in the folder that TENSORMVC_SHARED names, else in ../shared.
"""

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
from _measure import unit
from sklearn.exceptions import ConvergenceWarning

import tensormvc as tm

# The original programs under GNU Octave, 2 shared cores, FFT, shuffled, one run each: a lead, not a law.
ORIGINAL_SECONDS = {
    ("TSVDMVC", "MSRCv1", "fft"): 5.2,
    ("TSVDMVC", "NGs", "fft"): 30.9,
    ("TLSpNM", "MSRCv1", "fft"): 4.2,
    ("ASRETR", "MSRCv1", "fft"): 1.0,
    ("ASRETR", "NGs", "fft"): 4.9,
    ("ASRETR", "BBCSport", "fft"): 6.0,
    ("ASRETR", "CCV", "fft"): 12.8,
    ("TLRLF4MVC", "CCV", "fft"): 132.0,
    ("GMC", "BBCSport", "-"): 2.6,
}
# What we hold ourselves to, in units.
AIMS = {
    ("TSVDMVC", "NGs", "fft"): 6,
    ("TLSpNM", "MSRCv1", "fft"): 4,
    ("ASRETR", "CCV", "fft"): 8,
    ("TLRLF4MVC", "CCV", "fft"): 60,
    ("GMC", "BBCSport", "-"): 2,
}
# The parameters that the originals were timed with.
PARAMETERS = {
    "TSVDMVC": {"lam": 0.2},
    "TLSpNM": {"lam": 0.2},
    "ASRETR": {"alpha": 0.1, "gamma": 0.0, "delta": 0.01},
    "ESTMC": {"alpha": 0.1},
    "TLRLF4MVC": {"lam": 0.01, "gamma": 0.001, "mu_max": 0.1, "max_iter": 100},
    "GMC": {},
}
BASES = ["fft", "gft-sim", "gft-sum", "gft-gmc", "agft"]
# n × n representations: up to 2 000 samples.
QUADRATIC = {"TSVDMVC", "TLSpNM"}


def cases(files, methods, full):
    for method in methods:
        for name in files:
            for basis in ["-"] if method == "GMC" else BASES:
                if method in QUADRATIC and name == "CCV" and not (full and (method, basis) == ("TSVDMVC", "fft")):
                    continue
                if basis.startswith("gft") and name == "CCV":
                    continue
                yield method, name, basis


def fit_seconds(method, basis, views, y, repeats):
    """Return the median seconds of a fit, and the last model."""
    options = dict(PARAMETERS[method])
    if method != "GMC":
        options |= {"basis": basis, "random_state": 0}
    if method in ("ASRETR", "ESTMC") and len(y) > 5000:
        options["n_latent"] = 40
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        model = getattr(tm, method)(len(np.unique(y)), **options).fit(views)
        times.append(time.perf_counter() - start)
    return float(np.median(times)), model


def main():
    root = Path(__file__).parents[1]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shared", type=Path, default=os.environ.get("TENSORMVC_SHARED", root.parent / "shared"))
    parser.add_argument("--files", nargs="*", default=["MSRCv1", "NGs", "BBCSport", "CCV"])
    parser.add_argument("--methods", nargs="*", default=list(PARAMETERS), choices=list(PARAMETERS))
    parser.add_argument("--aims", action="store_true", help="only the cases that have an aim")
    parser.add_argument("--full", action="store_true", help="with TSVDMVC, FFT, on CCV (n = 6 773)")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)

    print("| method | data | basis | rounds | seconds | units | aim | original, s |")
    print("|---|---|---|---|---|---|---|---|")
    loaded = {}
    for case in cases(args.files, args.methods, args.full):
        if args.aims and case not in AIMS:
            continue
        method, name, basis = case
        if name not in loaded:
            views, y = tm.datasets.load_views(Path(args.shared) / "data" / f"{name}.mat")
            loaded[name] = tm.datasets.shuffle_samples(views, y, random_state=0)[:2]
        before = unit()
        seconds, model = fit_seconds(method, basis, *loaded[name], args.repeats)
        in_units = seconds / ((before + unit()) / 2)
        print(
            f"| {method} | {name} | {basis} | {getattr(model, 'n_iter_', '')} | {seconds:.2f} | {in_units:.1f} "
            f"| {AIMS.get(case, '')} | {ORIGINAL_SECONDS.get(case, '')} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
