"""What single precision and fewer frequencies save in a fit, and what they do to the labels.

The five methods with default parameters and the GFT of the sum graph, on Handwritten, and ESTMC and TLRLF4MVC on CCV.
Seconds are those of the processor, on one thread (`OMP_NUM_THREADS=1`), so that other programs disturb them little.
ARI compares labels with those in double precision with all frequencies.

The data are the benchmark files, found in the folder that TENSORMVC_SHARED names, else in ../shared.
"""

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import tensormvc as tm

METHODS = {
    "Handwritten": ["TSVDMVC", "TLSpNM", "ASRETR", "ESTMC", "TLRLF4MVC"],
    "CCV": ["ESTMC", "TLRLF4MVC"],
}


class TimedGFT(tm.GFT):
    """A GFT that knows what it took."""

    def fit(self, *args, **options):
        start = time.process_time()
        super().fit(*args, **options)
        self.seconds_ = time.process_time() - start
        return self


def main():
    root = Path(__file__).parents[1]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shared", type=Path, default=os.environ.get("TENSORMVC_SHARED", root.parent / "shared"))
    parser.add_argument("--files", nargs="*", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--methods", nargs="*", default=METHODS["Handwritten"])
    parser.add_argument("--precisions", nargs="*", default=["double", "single"], choices=["double", "single"])
    parser.add_argument("--shares", nargs="*", type=float, default=[0.1, 0.02], help="of the frequencies")
    args = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)

    print("| data | method | precision | frequencies | rounds | seconds | of these the GFT | ratio | ARI | accuracy |")
    print("|---" * 10 + "|")
    for name in args.files:
        views, y = tm.datasets.load_views(Path(args.shared) / "data" / f"{name}.mat")
        views, k = [np.asarray(view, dtype=np.float64) for view in views], len(np.unique(y))
        single = [view.astype(np.float32) for view in views]
        variants = [(precision, None) for precision in args.precisions]
        variants += [("double", int(share * len(y))) for share in args.shares]
        for method in [method for method in METHODS[name] if method in args.methods]:
            full = None
            for precision, n_components in variants:
                data = views if precision == "double" else single
                start = time.process_time()
                model = getattr(tm, method)(k, TimedGFT("sum", n_components), random_state=0).fit(data)
                seconds = time.process_time() - start
                full = full or (seconds, model.labels_)
                row = name, method, precision, n_components or len(y), model.n_iter_, f"{seconds:.1f}"
                row += f"{model.basis_.seconds_:.1f}", f"{full[0] / seconds:.1f}"
                scores = tm.metrics.ari(full[1], model.labels_), tm.metrics.clustering_accuracy(y, model.labels_)
                row += tuple(f"{score:.3f}" for score in scores)
                print("|", " | ".join(map(str, row)), "|", flush=True)


if __name__ == "__main__":
    main()
