"""A fit with its progress on the screen, and the reasons for what was chosen."""

from __future__ import annotations

from typing import Any

from ._options import BasisName, Method
from ._outcome import working_on_data
from ._screen import progress


def fit_with_progress(estimator: Any, views: dict[str, Any]) -> None:
    """Fit the estimator; its rounds move a bar."""
    name = type(estimator).__name__
    parameters = estimator.get_params()
    total = parameters.get("max_iter") if "callback" in parameters else 1 if "progress" in parameters else None
    with working_on_data(), progress(f"{name}, {len(views)} views", total) as advance:

        def after_a_round(record: Any) -> bool:
            worst = max(record.residuals.values())
            advance(record.iteration, f"round {record.iteration} of at most {total}, residual {worst:.1e}")
            return False

        def after_a_stage(done: int, stages: int, stage: str) -> None:
            advance(done / stages, stage)

        listeners = {"callback": after_a_round, "progress": after_a_stage}
        listeners = {name: listener for name, listener in listeners.items() if name in parameters}
        estimator.set_params(**listeners)
        try:
            estimator.fit(views)
        finally:
            estimator.set_params(**dict.fromkeys(listeners))


def name_of_basis(estimator: Any) -> str | None:
    """Return the name of the basis that was fitted, or None."""
    fitted = getattr(estimator, "basis_", None)
    if fitted is None:
        return None
    if estimator.basis != "auto":
        return str(estimator.basis)
    return "agft" if type(fitted).__name__ == "AGFT" else "gft-sum"


def choices(
    estimator: Any, n_samples: int, method: Method | None, basis: BasisName | None
) -> dict[str, dict[str, Any]]:
    """Return what was chosen and why, by the name of the option."""
    why = "asked for"
    if hasattr(estimator, "report_"):
        return _choices_of_auto(estimator.report_, why if method is not None else "the default")
    if method is None:
        why = "the default with a basis or parameters: it works at any number of samples, in memory that grows with it"
    made = {"method": {"value": type(estimator).__name__, "reason": why}}
    name = name_of_basis(estimator)
    if name is None:
        return made
    if basis is not None and not (estimator.basis_.adapts_to_data or basis == "fft-view"):
        why = "asked for; the result depends on the order of the rows"
    elif estimator.basis != "auto":
        why = "asked for"
    elif name == "agft":
        why = f"auto: {n_samples:,} samples are more than 4,000, so that anchors stand for the full spectrum"
    else:
        why = f"auto: {n_samples:,} samples are few enough for the full spectrum of their graph"
    return {**made, "basis": {"value": name, "reason": why}}


def _choices_of_auto(report: Any, why: str) -> dict[str, dict[str, Any]]:
    joined = f"{why}: joins {len(report.members)} clusterings, of which the best is: {report.members[0].name}"
    made = {"method": {"value": "MultiViewClustering", "reason": joined}}
    number = "asked for" if report.cluster_number is None else report.cluster_number.statement
    made["clusters"] = {"value": str(report.n_clusters), "reason": number}
    for choice in report.normalisations:
        reason = f"{choice.reason} (weight {report.view_weights[choice.view]:.2f})"
        made[f"scaling of {choice.view}"] = {"value": choice.name, "reason": reason}
    if report.n_landmarks < report.n_samples:
        reason = "clustered by themselves; the other samples follow their nearest landmarks"
        made["landmarks"] = {"value": f"{report.n_landmarks:,}", "reason": reason}
    return made
