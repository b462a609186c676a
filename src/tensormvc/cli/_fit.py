"""Fitting with a progress bar, and the reasons for what was chosen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ._options import Choice
from ._outcome import working_on_data
from ._screen import progress

if TYPE_CHECKING:
    from ..datasets import Dataset

# At most this many cluster sizes are printed.
_LISTED_SIZES = 30


def fit_with_progress(estimator: Any, views: dict[str, Any]) -> None:
    """Fit the estimator, with a progress bar that follows its iterations or stages."""
    parameters = estimator.get_params()
    total = parameters.get("max_iter") if "callback" in parameters else 1 if "progress" in parameters else None
    with working_on_data(), progress(f"{type(estimator).__name__}, {len(views)} views", total) as advance:

        def after_iteration(record: Any) -> bool:
            done, residual = record.iteration, max(record.residuals.values())
            advance(done, total, f"iteration {done} of at most {total}, residual {residual:.1e}")
            return False

        listeners: dict[str, Any] = {}
        if "callback" in parameters:
            listeners["callback"] = after_iteration
        if "progress" in parameters:
            listeners["progress"] = advance
        estimator.set_params(**listeners)
        try:
            estimator.fit(views)
        finally:
            estimator.set_params(**dict.fromkeys(listeners))


def choices(estimator: Any, data: Dataset, choice: Choice) -> dict[str, dict[str, Any]]:
    """Return what was chosen and why, by the name of the option."""
    from .. import MultiViewClustering

    why = "as requested"
    if isinstance(estimator, MultiViewClustering):
        return _choices_of_auto(estimator.report_, list(data.views), "default" if choice.method is None else why)
    if choice.method is None:
        why = "default with --basis or --param; its memory grows linearly with the number of samples"
    chosen = {"method": {"value": type(estimator).__name__, "reason": why}}
    if "basis" not in estimator.get_params():
        return chosen
    basis, why = estimator.basis, "as requested"
    if not (estimator.basis_.adapts_to_data or basis == "fft-view"):
        why = "as requested; the result depends on the order of the rows"
    elif basis == "auto":
        basis = "agft" if type(estimator.basis_).__name__ == "AGFT" else "gft-sum"
        why = f"auto: {data.n_samples:,} samples are few enough for the full spectrum of their graph"
        if basis == "agft":
            why = f"auto: beyond 4,000 samples ({data.n_samples:,} here) the spectrum is approximated with anchors"
    return {**chosen, "basis": {"value": basis, "reason": why}}


def _choices_of_auto(report: Any, views: list[str], why: str) -> dict[str, dict[str, Any]]:
    consensus = f"{why}: consensus of {len(report.members)} clusterings, the best of which is {report.members[0].name}"
    number = "as requested" if report.cluster_number is None else report.cluster_number.statement
    rows = [("method", "MultiViewClustering", consensus), ("clusters", str(report.n_clusters), number)]
    # The report lists the views in the order in which they were processed.
    for scaling in sorted(report.normalisations, key=lambda scaling: views.index(scaling.view)):
        rows.append((f"scaling of {scaling.view}", scaling.name, report.about_view(scaling)))
    if report.n_landmarks < report.n_samples - report.n_empty:
        reason = "only these samples are clustered; the others get the label of their nearest landmarks"
        rows.append(("landmarks", f"{report.n_landmarks:,}", reason))
    return {name: {"value": value, "reason": reason} for name, value, reason in rows}


def fit_summary(result: dict[str, Any]) -> Iterable[str]:
    """Return lines about the size of the clusters and the convergence, from the result of ``cluster``."""
    sizes = list(result["cluster_sizes"])
    listed = ", ".join(f"{size:,}" for size in sizes[:_LISTED_SIZES])
    more = f", and {len(sizes) - _LISTED_SIZES} more, none larger" if len(sizes) > _LISTED_SIZES else ""
    duration = f"{result['seconds']:.1f} s"
    if result["converged"] is not None:
        state = "converged" if result["converged"] else "not converged"
        duration = f"{state} after {result['n_iter']} iterations, {duration}"
    return [f"{len(sizes)} clusters with {listed} samples{more}", duration]
