"""A fit with its progress on the screen, and the reasons for what was chosen."""

from __future__ import annotations

from typing import Any

from ._options import BasisName, Method
from ._outcome import working_on_data
from ._screen import progress

ORDER_DEPENDENT = (BasisName.fft, BasisName.dct, BasisName.haar, BasisName.random)


def fit_with_progress(estimator: Any, views: dict[str, Any]) -> None:
    """Fit the estimator; its rounds move a bar."""
    name = type(estimator).__name__
    reports_rounds = "callback" in estimator.get_params()
    total = estimator.max_iter if reports_rounds else None
    with working_on_data(), progress(f"{name}, {len(views)} views", total) as advance:
        if reports_rounds:

            def callback(record: Any) -> bool:
                worst = max(record.residuals.values())
                advance(record.iteration, f"round {record.iteration} of at most {total}, residual {worst:.1e}")
                return False

            estimator.set_params(callback=callback)
        try:
            estimator.fit(views)
        finally:
            if reports_rounds:
                estimator.set_params(callback=None)


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
    if method is None:
        why = "the default: it works at any number of samples, in memory that grows with it"
    made = {"method": {"value": type(estimator).__name__, "reason": why}}
    name = name_of_basis(estimator)
    if name is None:
        return made
    if basis in ORDER_DEPENDENT:
        why = "asked for; the result depends on the order of the rows"
    elif estimator.basis != "auto":
        why = "asked for"
    elif name == "agft":
        why = f"auto: {n_samples:,} samples are more than 4,000, so that anchors stand for the full spectrum"
    else:
        why = f"auto: {n_samples:,} samples are few enough for the full spectrum of their graph"
    return {**made, "basis": {"value": name, "reason": why}}
