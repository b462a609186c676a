"""``tensormvc audit``: a verdict on whether the clusters depend on the order of the rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ._options import (
    BasisOption,
    Clusters,
    File,
    Force,
    JoinOption,
    Json,
    LabelName,
    Method,
    MethodOption,
    NoLabels,
    On,
    Parameters,
    SamplesOption,
    Seed,
    ViewNames,
    features_note,
    load,
    make_estimator,
    n_clusters_of,
)
from ._outcome import usage_error, with_outcome, working_on_data, writing_output
from ._screen import collected_warnings, console, print_json, progress, table

_CHANGED = {"order": "order", "seed": "seed", "repeat": "nothing"}


@with_outcome
def audit(
    file: File,
    clusters: Clusters = None,
    method: MethodOption = None,
    basis: BasisOption = None,
    param: Parameters = None,
    orders: Annotated[int, typer.Option("--orders", min=2, help="Orders of the rows, and seeds, that are tried.")] = 10,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Fits that run at once; -1 for all processors.")] = 1,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="PATH", show_default=False, help="Draw it: .png, .pdf or .svg.")
    ] = None,
    seed: Seed = 0,
    force: Force = False,
    as_json: Json = False,
    views: ViewNames = None,
    labels: LabelName = None,
    no_labels: NoLabels = False,
    samples: SamplesOption = None,
    on: On = None,
    join: JoinOption = None,
) -> None:
    """Say whether a method's clusters of FILE depend on the order of its rows.

    The samples are clustered in several orders with one seed, and in one order with several seeds. The verdict is
    printed, and is no exit code. Known classes in the file add accuracies, which the verdict does not look at.

    Example: tensormvc audit data.mat -k 7 --basis fft --plot audit.png
    """
    from .. import audit_order

    if jobs == 0:
        raise usage_error("--jobs 0: no fit could run; 1 for one at a time, -1 for all processors")
    method = method or Method.estmc
    estimator = make_estimator(method, basis, n_clusters_of(clusters, method), seed, param)
    if plot is not None:
        _check_plot(plot, force)
    data = load(file, views, labels, no_labels, samples, on, join)
    n_fits = 2 * orders if "random_state" in estimator.get_params() else orders + 1
    with collected_warnings() as warned, working_on_data(), progress("auditing", n_fits) as advance:
        found = audit_order(
            estimator,
            data.views,
            n_permutations=orders,
            random_state=seed,
            y=data.y,
            n_jobs=jobs,
            progress=lambda done, total: advance(done, f"{done} of {total} fits"),
        )
    if plot is not None:
        _draw(found, plot, force)
    result = {
        "file": file,
        "n_samples": data.n_samples,
        "method": type(estimator).__name__,
        "basis": estimator.get_params().get("basis"),
        "verdict": found.verdict,
        "order_dependent": found.order_dependent,
        "severity": found.severity,
        "repeatable": found.repeatable,
        "order_ari": found.order_ari,
        "order_ari_interval": found.order_ari_interval,
        "seed_ari": found.seed_ari,
        "seed_ari_interval": found.seed_ari_interval,
        "features_note": features_note(file),
        "unstable_samples": _names(found.unstable_samples, data.sample_ids),
        "runs": found.runs,
        "plot": plot,
        "seed": seed,
        "warnings": warned,
        "seconds": round(found.seconds, 3),
    }
    if as_json:
        print_json(result)
    else:
        _show(result)


def _check_plot(plot: Path, force: bool) -> None:
    """Refuse a picture that could not be written after the audit."""
    from .._files import check_target

    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("--plot needs matplotlib: pip install 'tensormvc[plot]'") from error
    known = Figure().canvas.get_supported_filetypes()
    if plot.suffix[1:].lower() not in known:
        raise usage_error(f"--plot {plot}: the ending must be one of {', '.join(sorted(known))}")
    with writing_output(plot):
        check_target(plot, overwrite=force)


def _draw(found: Any, plot: Path, force: bool) -> None:
    from matplotlib.figure import Figure

    from .._files import writing

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    found.plot(ax=figure.subplots())
    with writing_output(plot), writing(plot, overwrite=force) as place:
        figure.savefig(place, dpi=160)


def _names(rows: Any, ids: Any) -> list[Any]:
    return list(rows.tolist() if ids is None else ids[rows].tolist())


def _show(result: dict[str, Any]) -> None:
    screen = console()
    screen.print(result["verdict"])
    labelled = "ACC" in result["runs"][0]
    columns = ["changed", "order", "seed", "clusters", "ARI with the first", "seconds"]
    rows = [
        (
            *(_CHANGED[run["kind"]], run["permutation"] or "as given", "" if run["seed"] is None else run["seed"]),
            *(run["n_clusters"], f"{run['ari_to_first']:.4f}", f"{run['seconds']:.1f}"),
            *([f"{run['ACC']:.3f}"] if labelled else []),
        )
        for run in result["runs"]
    ]
    screen.print(table(columns + ["ACC"] * labelled, rows))
    screen.print(_mean("orders at one seed", result["order_ari"], result["order_ari_interval"]))
    if result["runs"][-1]["kind"] == "seed":
        screen.print(_mean("seeds in one order", result["seed_ari"], result["seed_ari_interval"]))
    if result["unstable_samples"]:
        screen.print(f"samples that move most: {', '.join(map(str, result['unstable_samples'][:10]))}")
    if labelled:
        screen.print("ACC uses the known classes in the file; nothing else here does.")
    if result["features_note"] is not None:
        screen.print(result["features_note"])
    if result["plot"] is not None:
        screen.print(f"Picture: {result['plot']}")


def _mean(what: str, ari: float, interval: tuple[float, float]) -> str:
    return f"mean ARI of all pairs of {what}: {ari:.4f} (95 % interval {interval[0]:.4f} to {interval[1]:.4f})"
