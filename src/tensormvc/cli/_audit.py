"""``tensormvc audit``: test whether a clustering depends on the order of the rows."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from ._options import Choice, Force, Json, Source, option
from ._outcome import check_output, usage_error
from ._report import audit_with_progress, require_matplotlib, save_figure
from ._screen import collected_warnings, show, table

_FINDINGS = (
    *("verdict", "order_dependent", "severity", "repeatable"),
    *("order_ari", "order_ari_interval", "seed_ari", "seed_ari_interval", "runs"),
)
_CHANGED = {"order": "order", "seed": "seed", "repeat": "nothing"}


def audit(
    source: Source,
    choice: Choice,
    orders: Annotated[int, option("audit", "--orders", min=2)] = 10,
    jobs: Annotated[int, option("audit", "--jobs", "-j")] = 1,
    plot: Annotated[Path | None, option("audit", "--plot", metavar="PATH")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Test whether the clustering of FILE depends on the order of its rows.

    The samples are clustered in several orders with one seed, and in one order with several seeds. The exit code does
    not depend on the verdict. If the file has known classes, accuracies are shown too; the verdict ignores them.

    Example: tensormvc audit data.mat -k 7 --basis fft --plot audit.png
    """
    from ..report._cluster_sections import features_note

    if jobs == 0:
        raise usage_error("--jobs 0: pass the number of parallel fits, or -1 for all processors")
    estimator = choice.estimator()
    if plot is not None:
        _check_plot(plot, force)
    data = source.load("auto" if choice.used_method == "auto" else None)
    with collected_warnings() as warnings:
        found = audit_with_progress(estimator, data, orders, random_state=choice.seed, n_jobs=jobs)
    if plot is not None:
        save_figure(lambda ax: found.plot(ax=ax), plot, (6.4, 4.2), force)
    unstable = found.unstable_samples
    result = {
        "file": source.file,
        "n_samples": data.n_samples,
        "method": type(estimator).__name__,
        "basis": estimator.get_params().get("basis"),
        **{name: getattr(found, name) for name in _FINDINGS},
        "unstable_samples": unstable if data.sample_ids is None else data.sample_ids[unstable],
        "features_note": features_note(source.file),
        "plot": plot,
        "seed": choice.seed,
        "warnings": warnings,
        "seconds": round(found.seconds, 3),
    }
    show(result, as_json, _lines(result))


def _check_plot(plot: Path, force: bool) -> None:
    """Refuse a figure that could not be saved after the audit."""
    require_matplotlib("--plot")
    from matplotlib.figure import Figure

    known = Figure().canvas.get_supported_filetypes()
    if plot.suffix[1:].lower() not in known:
        raise usage_error(f"--plot {plot}: the file must end in one of {', '.join(sorted(known))}")
    check_output(plot, force)


def _lines(result: dict[str, Any]) -> Iterable[Any]:
    yield result["verdict"]
    labelled = "ACC" in result["runs"][0]
    columns = ["changed", "order", "seed", "clusters", "ARI with first", "seconds", *(["ACC"] if labelled else [])]
    rows = [
        (
            *(_CHANGED[run["kind"]], run["permutation"] or "as given", "" if run["seed"] is None else run["seed"]),
            *(run["n_clusters"], f"{run['ari_to_first']:.4f}", f"{run['seconds']:.1f}"),
            *([f"{run['ACC']:.3f}"] if labelled else []),
        )
        for run in result["runs"]
    ]
    yield table(columns, rows)
    yield _mean("orders, same seed", result["order_ari"], result["order_ari_interval"])
    if result["runs"][-1]["kind"] == "seed":
        yield _mean("seeds, same order", result["seed_ari"], result["seed_ari_interval"])
    if len(result["unstable_samples"]):
        yield f"least stable samples: {', '.join(map(str, result['unstable_samples'][:10]))}"
    if labelled:
        yield "ACC uses the known classes in the file; nothing else here does."
    yield result["features_note"]
    if result["plot"] is not None:
        yield f"Figure: {result['plot']}"


def _mean(what: str, ari: float, interval: tuple[float, float]) -> str:
    return f"mean ARI over pairs of {what}: {ari:.4f} (95 % interval {interval[0]:.4f} to {interval[1]:.4f})"
