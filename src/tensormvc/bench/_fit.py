"""One fit of the benchmark: from its description to what is stored about it."""

from __future__ import annotations

import os
import platform
import time
import warnings
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

import tensormvc as tm

from ._cells import Job
from ._data import Data
from ._methods import BASELINES, METHODS, TRANSFORMS, timed
from ._store import Outcome

_PROGRAMS = ("tensormvc", "numpy", "scipy", "scikit-learn")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def evaluate(job: Job, data: Data) -> Outcome:
    """Return how the fit ends; an error is one way to end."""
    described = job.description
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.perf_counter()
        try:
            views, y, _ = tm.datasets.shuffle_samples(
                data.views, data.y, described["rate"], random_state=described["permutation"]
            )
            cluster = _baseline if "baseline" in described else _tensor_method
            labels, about, seconds = cluster(job, views, y, data.facts.n_clusters)
            found = tm.metrics.clustering_report(y, labels)
        except Exception as error:
            return Outcome(None, time.perf_counter() - start, error=f"{type(error).__name__}: {error}")
    texts = tuple(dict.fromkeys(f"{warning.category.__name__}: {warning.message}" for warning in caught))
    return Outcome(found, seconds, warnings=texts, **about)


_Clustered = tuple[Any, dict[str, Any], float]


def _tensor_method(job: Job, views: list[Any], y: Any, n_clusters: int) -> _Clustered:
    described = job.description
    transform = TRANSFORMS[described["basis"]]
    estimator = METHODS[job.method].make(
        n_clusters,
        timed(transform.make(**described["basis_parameters"])),
        described["seed"],
        described["parameters"],
    )
    # The oracle is handed over here and nowhere else; reports mark what it touched.
    graph = {"sample_graph": tm.ideal_graph(y)} if transform.uses_labels else {}
    seconds = _seconds_of(lambda: estimator.fit(views, **graph))
    about = {
        "transform_seconds": estimator.basis_.fit_seconds_,
        "n_iter": estimator.n_iter_,
        "converged": estimator.converged_,
    }
    return estimator.labels_, about, seconds


def _baseline(job: Job, views: list[Any], y: Any, n_clusters: int) -> _Clustered:
    described, labels = job.description, []
    baseline = BASELINES[described["baseline"]]
    seconds = _seconds_of(
        lambda: labels.append(baseline.cluster(views, n_clusters, described["seed"], **described["parameters"]))
    )
    return labels[0], {}, seconds


def _seconds_of(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def environment() -> Mapping[str, Any]:
    """Return what times depend on, for the report."""
    return {
        "python": platform.python_version(),
        "system": platform.system(),
        "architecture": platform.machine(),
        "processors": os.cpu_count(),
        "threads": {name: os.environ[name] for name in THREADS if name in os.environ},
        **{name: version(name) for name in _PROGRAMS},
    }
