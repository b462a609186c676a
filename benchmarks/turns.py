"""Seconds of fits of two checkouts, taking turns: `python benchmarks/turns.py ../before . --repeats 5`.

Cases are those of methods.py, and the front door on Handwritten and MNIST70k. Prints the ratio of the medians (second
checkout to the first) for each, the largest and the geometric mean.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

FRONT_DOOR = ["Handwritten", "MNIST70k"]


def work():
    """Answer each line with a case on standard input by the seconds of its fit."""
    from sklearn.exceptions import ConvergenceWarning

    import tensormvc as tm
    from methods import PARAMETERS

    warnings.simplefilter("ignore", ConvergenceWarning)
    loaded = {}
    for line in sys.stdin:
        shared, method, name, basis = json.loads(line)
        if name not in loaded:
            views, y = tm.datasets.load_views(Path(shared) / "data" / f"{name}.mat")
            loaded[name] = tm.datasets.shuffle_samples(views, y, random_state=0)[:2]
        views, y = loaded[name]
        options = dict(PARAMETERS.get(method, {"random_state": 0}))
        if basis != "-":
            options |= {"basis": basis, "random_state": 0}
        if method in ("ASRETR", "ESTMC") and len(y) > 5000:
            options["n_latent"] = 40
        start = time.perf_counter()
        getattr(tm, method)(len(np.unique(y)), **options).fit(views)
        print(json.dumps(time.perf_counter() - start), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", nargs="*", type=Path, help="two checkouts")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--files", nargs="*", default=["MSRCv1", "NGs", "BBCSport", "CCV"])
    parser.add_argument("--no-front-door", action="store_true")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work()
        return
    from methods import PARAMETERS, cases

    here = Path(__file__).parent
    shared = os.environ.get("TENSORMVC_SHARED", here.parents[1] / "shared")
    command = [sys.executable, __file__, "--work"]
    workers = [
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": f"{checkout.resolve() / 'src'}{os.pathsep}{here}"},
        )
        for checkout in args.checkouts
    ]

    def seconds(worker, case):
        print(json.dumps([str(shared), *case]), file=worker.stdin, flush=True)
        return json.loads(worker.stdout.readline())

    wanted = [] if args.no_front_door else [("MultiViewClustering", name, "-") for name in FRONT_DOOR]
    ratios = {}
    print("| method | data | basis | before, s | after, s | ratio |\n|---|---|---|---|---|---|")
    for case in [*wanted, *cases(args.files, list(PARAMETERS), False)]:
        times = np.array([[seconds(worker, case) for worker in workers] for _ in range(args.repeats)])
        before, after = np.median(times, axis=0)
        ratios[case] = after / before
        print(f"| {' | '.join(case)} | {before:.3f} | {after:.3f} | {ratios[case]:.2f} |", flush=True)
    for worker in workers:
        worker.stdin.close()
        worker.wait()
    largest = max(ratios, key=ratios.get)
    mean = np.exp(np.mean(np.log(list(ratios.values()))))
    print(f"largest ratio {ratios[largest]:.2f} ({' '.join(largest)}), geometric mean {mean:.3f}")


if __name__ == "__main__":
    main()
