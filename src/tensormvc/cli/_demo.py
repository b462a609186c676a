"""``tensormvc demo``: the effect of the row order on a tensor method, then the front door, shown on embedded data."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ._fit import choices, fit_with_progress
from ._labels import further_columns, write_labels
from ._options import Choice, Force, Json, Seed, option
from ._outcome import check_output, writing_output
from ._report import ORDERS, check_report, save_figure, write_report
from ._screen import TEXTS, collected_warnings, progress, show, table

if TYPE_CHECKING:
    from ..audit import ShuffleSweep
    from ..auto import MultiViewClustering
    from ..datasets import Dataset

_RATES = (0.0, 0.5, 1.0)
_REPEATS = 2
# Leading features that are shown for each cluster; the page has more.
_FEATURES = 1


def demo(
    output: Annotated[Path, option("demo", "--output", "-o", metavar="DIR")] = Path("tensormvc-demo"),
    n_samples: Annotated[int, option("demo", "--samples", "-n", min=100, max=1797)] = 400,
    seed: Seed = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Show on embedded digits that the row order matters to the FFT, not to the GFT; then cluster them without labels.

    The same samples are clustered sorted by class, half shuffled and fully shuffled, by one tensor method under three
    transforms and by two methods without a tensor. Then MultiViewClustering clusters them, as cluster does. Takes about
    a minute; nothing is downloaded. The labels only measure the accuracy.

    Example: tensormvc demo
    """
    from threadpoolctl import threadpool_limits

    from .. import datasets, plotting

    figure, file, places, labels = (output / name for name in ("order.png", "digits.npz", "map.png", "labels.csv"))
    check_report(output, force)
    for target in (figure, file, places, labels):
        check_output(target, force, make_folder=True)
    start = time.perf_counter()
    views, y = datasets.load_digits_views(n_samples, class_sorted=True)
    # The matrices are so small that a second BLAS thread would only wait for the first.
    with collected_warnings(), threadpool_limits(1, user_api="blas"):
        sweeps = _sweep(views, y, seed)
        names = _feature_names()
        data = datasets.Dataset(dict(zip(names, views, strict=True)), y, None, feature_names=names)
        model, report = _front_door(output, data, seed, force)
        save_figure(lambda ax: plotting.plot_map(model, ax=ax), places, (6.4, 5.6), force)
        clusters = _clusters(model)
    save_figure(lambda ax: plotting.plot_shuffle_by_basis(sweeps, ax=ax), figure, (6.4, 4.6), force)
    further = further_columns(model.membership_)
    write_labels(labels, file, data, model.labels_, "cluster", further, force)
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
        "clusters": clusters,
        "certainty": model.report_.certainty,
        **{"figure": figure, "labels": labels, "map": places, "page": report, "file": file, "seed": seed},
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


def _feature_names() -> dict[str, Any]:
    """Name the features of the embedded views, by view."""
    import numpy as np

    sides = [f"{row} {column}" for row in ("top", "bottom") for column in ("left", "right")]
    diagonals = [f"{kind} {k}" for kind in ("falling diagonal", "rising diagonal") for k in range(-7, 8)]
    names = {
        "pixels": [f"row {row}, column {column}" for row in range(8) for column in range(8)],
        "gradients": [f"{side}, direction {45 * direction - 180}°" for side in sides for direction in range(8)],
        "Fourier magnitudes": [f"frequency {row}, {column}" for row in range(8) for column in range(5)],
        "projections": [f"{kind} {k}" for kind in ("row", "column") for k in range(8)] + diagonals,
    }
    return {view: np.array(features) for view, features in names.items()}


def _clusters(model: MultiViewClustering) -> list[dict[str, Any]]:
    """Return each cluster in a line: its size, its confidence, and the features that set it apart most."""
    import numpy as np

    explanation = model.explain()
    leading = explanation.top(_FEATURES)
    return [
        {
            "cluster": summary.cluster,
            "size": summary.size,
            "median_confidence": float(np.median(model.confidence_[model.labels_ == summary.cluster])),
            "features": [
                {"view": row.view, "feature": row.feature, "higher": row.effect > 0.5, "AUC": row.effect}
                for row in leading
                if row.cluster == summary.cluster
            ],
        }
        for summary in explanation.clusters
    ]


def _front_door(folder: Path, data: Dataset, seed: int, force: bool) -> tuple[MultiViewClustering, Path]:
    """Cluster the same digits as ``tensormvc cluster --report`` does, and write its report."""
    choice = Choice(clusters=10, seed=seed)
    estimator = choice.estimator()
    start = time.perf_counter()
    fit_with_progress(estimator, data.tables)
    seconds, chosen = time.perf_counter() - start, choices(estimator, data, choice)
    page = write_report(
        folder, "embedded digits", data, estimator, chosen=chosen, seconds=seconds, orders=ORDERS, force=force
    )
    return estimator, page


def _lines(result: dict[str, Any]) -> Iterable[Any]:
    yield f"{result['data']}: the same samples sorted by class, half shuffled and fully shuffled.\n"
    rows = [
        (name, *(f"{value:.1%}" for value in found["accuracy"]), f"{found['ari_with_class_sorted'][-1]:.3f}")
        for name, found in result["methods"].items()
    ]
    columns = ["accuracy (uses labels)", "sorted by class", "half shuffled", "shuffled", "ARI, shuffled with sorted"]
    yield table(columns, rows)
    yield TEXTS["demo"].format(**result)
    rows = [
        (
            found["cluster"],
            found["size"],
            f"{found['median_confidence']:.2f}",
            "; ".join(map(_words, found["features"])),
        )
        for found in result["clusters"]
    ]
    yield table(["cluster", "samples", "confidence", "what sets it apart"], rows, left=4)
    yield TEXTS["demo_end"].format(**result)


def _words(feature: dict[str, Any]) -> str:
    return f"{feature['view']}, {feature['feature']} {'higher' if feature['higher'] else 'lower'}"
