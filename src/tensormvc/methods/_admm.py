"""The loop that every method runs in: penalty parameters, stopping rule, history, callback."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

# With penalties at their caps, single precision counts as converged after this many rounds without a smaller residual.
_PATIENCE = 5


@dataclass(frozen=True)
class Record:
    """Record of one iteration of a fit.

    Attributes
    ----------
    iteration : int
        Number of the iteration, from 1.
    residuals : dict of str to float
        Residuals of the stopping rule, and others that the method reports.
    penalties : dict of str to float
        Penalty parameters that the iteration used.
    objective : float or None
        Value of the objective at the split variables.
    seconds : float
        Duration of the iteration.
    """

    iteration: int
    residuals: dict[str, float]
    penalties: dict[str, float]
    objective: float | None
    seconds: float


@dataclass
class Schedule:
    """Penalty parameters that grow by a factor in each iteration, up to their caps."""

    values: dict[str, float]
    caps: dict[str, float]
    factor: float = 2.0

    def advance(self, residuals: Mapping[str, float]) -> None:
        """Go to the parameters of the next iteration."""
        for name, value in self.values.items():
            self.values[name] = min(value * self.factor, self.caps[name])


@dataclass(frozen=True)
class Step:
    """The outcome of one iteration.

    Attributes
    ----------
    residuals : dict of str to float
        Residuals by name, for the history.
    stop : float
        The fit has converged when this is below the tolerance.
    objective : float, optional
        Value of the objective at the split variables, without the terms of the multipliers.
    """

    residuals: dict[str, float]
    stop: float
    objective: float | None = None


@dataclass
class Run:
    """The history of a fit."""

    history: list[Record] = field(default_factory=list)
    converged: bool = False

    @property
    def n_iter(self) -> int:
        """Number of iterations."""
        return len(self.history)


def run_admm(
    step: Callable[[dict[str, float]], Step],
    schedule: Schedule,
    *,
    max_iter: int,
    tol: float,
    single_precision: bool = False,
    callback: Callable[[Record], Any] | None = None,
    verbose: int = 0,
    name: str = "",
) -> Run:
    """Run iterations until the stopping rule holds.

    Parameters
    ----------
    step : function of the penalties
        Does one iteration and returns a `Step`.
    schedule : Schedule
        The penalty parameters.
    max_iter : int
        Maximum number of iterations.
    tol : float
        Stop when the `stop` of an iteration is below this.
    single_precision : bool, default=False
        Whether to stop also when the penalties are at their caps and `stop` no longer falls: rounding may make `tol`
        out of reach.
    callback : callable, optional
        Called with the `Record` of every iteration; returning True ends the fit.
    verbose : int, default=0
        1 prints one line per iteration.
    name : str
        Name of the method, for messages.

    Returns
    -------
    Run
    """
    run = Run()
    best, stalled = math.inf, 0
    for iteration in range(1, max_iter + 1):
        start = time.perf_counter()
        used = dict(schedule.values)
        done = step(used)
        record = Record(iteration, done.residuals, used, done.objective, time.perf_counter() - start)
        run.history.append(record)
        if not all(map(math.isfinite, done.residuals.values())) or not math.isfinite(done.stop):
            raise FloatingPointError(
                f"{name}: iteration {iteration} is not finite ({done.residuals}), so there are no labels; "
                "check the views for extreme values, or try other parameters"
            )
        if verbose:
            residuals = "  ".join(f"{key} {value:.2e}" for key, value in done.residuals.items())
            print(f"{name}  iteration {iteration:3d}  {residuals}  {record.seconds:.2f} s", flush=True)  # noqa: T201
        if done.stop < tol:
            run.converged = True
            break
        if callback is not None and callback(record):
            break
        schedule.advance(done.residuals)
        stalled = stalled + 1 if dict(schedule.values) == used and done.stop >= best else 0
        best = min(best, done.stop)
        if single_precision and stalled >= _PATIENCE:
            run.converged = True
            break
    return run
