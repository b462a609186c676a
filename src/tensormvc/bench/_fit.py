"""One fit of the benchmark: from its description to the outcome that is stored."""

import os
import platform
import time
import warnings
from functools import partial
from importlib.metadata import version
from typing import Any

import tensormvc as tm

from ._cells import Job
from ._data import Data
from ._methods import BASELINES, METHODS, find_transform, timed
from ._store import Outcome

_PACKAGES = ("tensormvc", "numpy", "scipy", "scikit-learn")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def evaluate(job: Job, data: Data, device: str | None = None) -> Outcome:
    """Run a fit and return its outcome; an exception is an outcome, too. Baselines do not run on a device."""
    described = job.description
    cluster = _baseline if "baseline" in described else partial(_tensor_method, device=device)
    where = environment(device if "method" in described else None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.perf_counter()
        try:
            rate, seed = described["rate"], described["permutation"]
            views, y, _ = tm.datasets.shuffle_samples(data.views, data.y, rate, random_state=seed)
            labels, record = cluster(job, views, y, data.facts.n_clusters)
            metrics = tm.metrics.clustering_report(y, labels)
        except Exception as error:
            seconds, text = time.perf_counter() - start, f"{type(error).__name__}: {error}"
            return Outcome(None, seconds, error=text, environment=where)
    texts = tuple(dict.fromkeys(f"{warning.category.__name__}: {warning.message}" for warning in caught))
    return Outcome(metrics, warnings=texts, environment=where, **record)


def _tensor_method(
    job: Job, views: list[Any], y: Any, n_clusters: int, device: str | None
) -> tuple[Any, dict[str, Any]]:
    described = job.description
    transform = find_transform(described["basis"])
    basis = timed(transform.make(**described["basis_parameters"]))
    parameters = {**described["parameters"], "device": device}
    estimator = METHODS[job.method].make(n_clusters, basis, described["seed"], parameters)
    # The only place where labels reach a fit; reports mark every cell that this touches.
    graph = {"sample_graph": tm.ideal_graph(y)} if transform.uses_labels else {}
    start = time.perf_counter()
    estimator.fit(views, **graph)
    return estimator.labels_, {
        "seconds": time.perf_counter() - start,
        "transform_seconds": estimator.basis_.fit_seconds_,
        "n_iter": estimator.n_iter_,
        "converged": estimator.converged_,
    }


def _baseline(job: Job, views: list[Any], y: Any, n_clusters: int) -> tuple[Any, dict[str, Any]]:
    described = job.description
    start = time.perf_counter()
    cluster = BASELINES[described["baseline"]].cluster
    labels = cluster(views, n_clusters, described["seed"], **described["parameters"])
    return labels, {"seconds": time.perf_counter() - start}


def environment(device: str | None) -> dict[str, Any]:
    """Return what the timings depend on, for the report."""
    return {
        **({"device": device} if device else {}),
        "python": platform.python_version(),
        "system": platform.system(),
        "architecture": platform.machine(),
        "processors": os.cpu_count(),
        "threads": {name: os.environ[name] for name in THREADS if name in os.environ},
        **{name: version(name) for name in _PACKAGES},
    }
