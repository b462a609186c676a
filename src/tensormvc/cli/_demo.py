"""``tensormvc demo``: the effect of the row order on a tensor method, shown on embedded data."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ._fit import choices, fit_with_progress
from ._options import Choice, Force, Json, Seed, option
from ._outcome import check_output, writing_output
from ._report import ORDERS, check_report, save_figure, write_report
from ._screen import TEXTS, collected_warnings, progress, show, table

if TYPE_CHECKING:
    from ..audit import ShuffleSweep
    from ..datasets import Dataset

_RATES = (0.0, 0.5, 1.0)
_REPEATS = 2
_VIEWS = ("pixels", "gradients", "Fourier magnitudes", "projections")


def demo(
    output: Annotated[Path, option("demo", "--output", "-o", metavar="DIR")] = Path("tensormvc-demo"),
    n_samples: Annotated[int, option("demo", "--samples", "-n", min=100, max=1797)] = 400,
    seed: Seed = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Show on embedded digits that the row order matters to the FFT but not to the GFT. Takes about a minute.

    The same samples are clustered sorted by class, half shuffled and fully shuffled, by one tensor method under three
    transforms and by two methods without a tensor. Nothing is downloaded. The labels only measure the accuracy.

    Example: tensormvc demo
    """
    from threadpoolctl import threadpool_limits

    from .. import datasets, plotting

    figure, file = output / "order.png", output / "digits.npz"
    check_report(output, force)
    for target in (figure, file):
        check_output(target, force, make_folder=True)
    start = time.perf_counter()
    views, y = datasets.load_digits_views(n_samples, class_sorted=True)
    # The matrices are so small that a second BLAS thread would only wait for the first.
    with collected_warnings(), threadpool_limits(1, user_api="blas"):
        sweeps = _sweep(views, y, seed)
        report = _report(output, datasets.Dataset(dict(zip(_VIEWS, views, strict=True)), y, None), seed, force)
    save_figure(lambda ax: plotting.plot_shuffle_by_basis(sweeps, ax=ax), figure, (6.4, 4.6), force)
    with writing_output(file):
        datasets.save_views(file, views, y, overwrite=force)
    result = {
        "data": f"{n_samples} handwritten digits in {len(views)} views",
        "note": "accuracies use the labels; nothing else does",
        "rates": _RATES,
        "shuffles_per_rate": _REPEATS,
        "methods": {
            name: {"accuracy": sweep.accuracy.mean(axis=1), "ari_with_class_sorted": sweep.ari.mean(axis=1)}
            for name, sweep in sweeps.items()
            if sweep.accuracy is not None
        },
        **{"figure": figure, "page": report, "file": file, "seed": seed},
        "seconds": round(time.perf_counter() - start, 1),
    }
    show(result, as_json, _lines(result))


def _sweep(views: list[Any], y: Any, seed: int) -> dict[str, ShuffleSweep]:
    """Sweep over shuffle rates for each method, with default parameters."""
    from .. import TLSpNM, shuffle_sweep

    methods = {
        "TLSpNM, FFT": TLSpNM(10, basis="fft", random_state=seed),
        "TLSpNM, GFT": TLSpNM(10, basis="gft-sum", random_state=seed),
        "TLSpNM, AGFT": TLSpNM(10, basis="agft", random_state=seed),
        "k-means, views side by side": _kmeans,
        "graph alone, spectral": _spectral,
    }
    sweeps: dict[str, ShuffleSweep] = {}
    with progress("clustering", len(methods)) as advance:
        for number, (name, method) in enumerate(methods.items()):
            advance(number, len(methods), name)
            sweeps[name] = shuffle_sweep(method, views, y, rates=_RATES, n_repeats=_REPEATS, random_state=seed)
    return sweeps


def _kmeans(views: list[Any], random_state: int) -> Any:
    import numpy as np
    from sklearn.cluster import KMeans
    from sklearn.preprocessing import normalize

    return KMeans(10, n_init=10, random_state=random_state).fit_predict(np.hstack([normalize(view) for view in views]))


def _spectral(views: list[Any], random_state: int) -> Any:
    """Cluster the graph that the GFT is built from, without a tensor."""
    from sklearn.cluster import SpectralClustering

    from .. import SumGraph

    spectral = SpectralClustering(10, affinity="precomputed", random_state=random_state)
    return spectral.fit_predict(SumGraph().fit(views).graph_.toarray())


def _report(folder: Path, data: Dataset, seed: int, force: bool) -> Path:
    """Write the report that ``tensormvc cluster --report`` writes for the same digits."""
    choice = Choice(clusters=10, seed=seed)
    estimator = choice.estimator()
    start = time.perf_counter()
    fit_with_progress(estimator, data.tables)
    seconds, chosen = time.perf_counter() - start, choices(estimator, data, choice)
    return write_report(
        folder, "embedded digits", data, estimator, chosen=chosen, seconds=seconds, orders=ORDERS, force=force
    )


def _lines(result: dict[str, Any]) -> Iterable[Any]:
    yield f"{result['data']}: the same samples sorted by class, half shuffled and fully shuffled.\n"
    rows = [
        (name, *(f"{value:.1%}" for value in found["accuracy"]), f"{found['ari_with_class_sorted'][-1]:.3f}")
        for name, found in result["methods"].items()
    ]
    columns = ["accuracy (uses labels)", "sorted by class", "half shuffled", "shuffled", "ARI, shuffled with sorted"]
    yield table(columns, rows)
    yield TEXTS["demo"].format(**result)
