"""What a plan asks for: cells of a table, the settings tried in each, and the fits that these need."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ._data import Facts
from ._methods import BASELINES, METHODS, TRANSFORMS
from ._plan import Grid, Plan, PlannedMethod, PlannedTransform, resolved

NO_TRANSFORM = "none"


@dataclass(frozen=True)
class Job:
    """One fit: a setting on one shuffle of a data set, with one seed.

    The key is a hash of the description, which has all that determines the result, and nothing else.
    """

    dataset: str
    method: str
    transform: str
    description: Mapping[str, Any]
    key: str = field(init=False)

    def __post_init__(self) -> None:
        canonical = json.dumps(self.description, sort_keys=True, separators=(",", ":"))
        object.__setattr__(self, "key", hashlib.sha256(canonical.encode()).hexdigest()[:32])

    @property
    def group(self) -> tuple[str, str, str]:
        """What takes about the same time."""
        return self.dataset, self.method, self.transform


@dataclass(frozen=True)
class Setting:
    """Parameters of a method and its transform: as written, and complete."""

    written: Mapping[str, Any]
    described: Mapping[str, Any]

    @property
    def label(self) -> str:
        """The parameters as a text."""
        return ", ".join(f"{name} = {_shown(value)}" for name, value in self.written.items()) or "all default"


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        inner = ", ".join(f"{name}={part}" for name, part in value.items() if name != "name")
        return f"{value['name']}({inner})"
    return str(value)


@dataclass(frozen=True)
class Cell:
    """A place in a table: a method with a transform on a data set at a shuffle rate."""

    dataset: str
    method: str
    transform: str
    rate: float
    digest: str
    grid: tuple[Setting, ...]
    default: Setting | None
    # Whether the labels enter before any selection.
    uses_labels: bool
    # Made once: thousands of them are asked for after every fit.
    _jobs: dict[tuple[int, int], Job] = field(default_factory=dict, init=False, repr=False, compare=False)

    def job(self, setting: Setting, seed: int) -> Job:
        """Return the fit of one of the cell's settings in the trial that has this seed."""
        place = id(setting), seed
        if place not in self._jobs:
            described = {"data": self.digest, "rate": self.rate, "permutation": seed, "seed": seed, **setting.described}
            self._jobs[place] = Job(self.dataset, self.method, self.transform, described)
        return self._jobs[place]


def cells(plan: Plan, facts: Mapping[str, Facts]) -> list[Cell]:
    """Return the cells of a plan in the order of its tables."""
    made = []
    for data in plan.datasets:
        known = facts[data.name]
        for rate in plan.shuffle_rates:
            made += [_baseline(name, data.name, rate, known) for name in plan.baselines]
            for method in plan.methods:
                made += [_tensor(plan, method, transform, data.name, rate, known) for transform in plan.transforms]
    return made


def _tensor(
    plan: Plan, method: PlannedMethod, transform: PlannedTransform, dataset: str, rate: float, known: Facts
) -> Cell:
    grid = method.grid.updated(method.under.get(transform.name, Grid({}, {})))
    kind, basis = METHODS[method.name], TRANSFORMS[transform.basis]
    defaults = kind.defaults()

    def setting(own: Mapping[str, Any], of_basis: Mapping[str, Any]) -> Setting:
        described = {
            "method": kind.estimator,
            "revision": kind.revision,
            "parameters": {**defaults, **resolved(own, known.n_clusters)},
            "basis": transform.basis,
            "basis_revision": basis.revision,
            "basis_parameters": {**basis.defaults, **of_basis},
        }
        return Setting({**own, **of_basis}, described)

    tried = [setting(own, of_basis) for own in grid.settings() for of_basis in transform.grid.settings()]
    return Cell(
        *(dataset, method.name, transform.name, rate, known.digest),
        grid=tuple(tried) if grid.tried or transform.grid.tried else (),
        default=setting(grid.fixed, transform.grid.fixed) if plan.defaults else None,
        uses_labels=basis.uses_labels,
    )


def _baseline(name: str, dataset: str, rate: float, known: Facts) -> Cell:
    baseline = BASELINES[name]

    def setting(parameters: Mapping[str, Any]) -> Setting:
        return Setting(parameters, {"baseline": name, "revision": baseline.revision, "parameters": dict(parameters)})

    views = range(len(known.n_features)) if baseline.every_view else ()
    return Cell(
        *(dataset, baseline.title, NO_TRANSFORM, rate, known.digest),
        grid=tuple(setting({"view": view, "by": by}) for view in views for by in ("k-means", "spectral")),
        default=None if baseline.every_view else setting({}),
        uses_labels=False,
    )


Accuracy = Callable[[str], float | None]


def first_jobs(plan: Plan, wanted: list[Cell]) -> list[Job]:
    """Return the fits that need no others: everything, or what the screening begins with. Trial by trial."""
    screening = plan.screen_trials or plan.trials

    def all_of_them() -> Iterator[Job]:
        for trial in range(plan.trials):
            for cell in wanted:
                if trial < screening:
                    yield from (cell.job(setting, plan.seed + trial) for setting in cell.grid)
                if cell.default is not None:
                    yield cell.job(cell.default, plan.seed + trial)

    return _each_once(all_of_them())


def later_jobs(plan: Plan, wanted: list[Cell], accuracy: Accuracy) -> list[Job]:
    """Return the other fits of the settings that the screening keeps; `accuracy` tells that of a key, or None."""
    screening = plan.screen_trials or plan.trials
    return _each_once(
        cell.job(setting, plan.seed + trial)
        for trial in range(screening, plan.trials)
        for cell in wanted
        for setting in kept(plan, cell, accuracy)
    )


def kept(plan: Plan, cell: Cell, accuracy: Accuracy) -> list[Setting]:
    """Return the settings of a grid that have all trials: those with the best mean accuracy in the screening."""
    if plan.screen_trials is None:
        return list(cell.grid)
    scores = []
    for number, setting in enumerate(cell.grid):
        found = [accuracy(cell.job(setting, plan.seed + trial).key) for trial in range(plan.screen_trials)]
        values = [value for value in found if value is not None]
        if len(values) == len(found):
            scores.append((-sum(values), number))
    return [cell.grid[number] for _, number in sorted(scores)[: plan.screen_keep]]


def n_later(plan: Plan, cell: Cell) -> int:
    """Return how many fits a cell needs after the screening, as far as one can tell before."""
    if plan.screen_trials is None or plan.screen_keep is None:
        return 0
    return min(plan.screen_keep, len(cell.grid)) * (plan.trials - plan.screen_trials)


def _each_once(jobs: Iterator[Job]) -> list[Job]:
    return list({job.key: job for job in jobs}.values())
