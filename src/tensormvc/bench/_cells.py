"""The cells of a plan's tables, the settings tried in each, and the fits that these need."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any

from ._data import Facts
from ._methods import BASELINES, METHODS, find_transform, resolved
from ._plan import Grid, Plan, PlannedMethod, PlannedTransform

NO_TRANSFORM = "none"
Accuracy = Callable[[str], float | None]


@dataclass(frozen=True)
class Job:
    """One fit: a setting on one permutation of a data set, with one seed.

    The description holds everything that determines the result and nothing else; the key is its hash.
    """

    dataset: str
    method: str
    transform: str
    description: Mapping[str, Any]

    @cached_property
    def key(self) -> str:
        """The hash of the description."""
        canonical = json.dumps(self.description, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:32]

    @property
    def group(self) -> tuple[str, str, str]:
        """Fits of the same group take about the same time."""
        return self.dataset, self.method, self.transform


@dataclass(frozen=True)
class Setting:
    """Parameters of a method and its transform: as written in the plan, and complete with all defaults."""

    written: Mapping[str, Any]
    described: Mapping[str, Any]

    @property
    def label(self) -> str:
        """The parameters in one line."""
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
    # Whether the graph of the transform is built from the labels.
    uses_labels: bool = False
    # Hashing is slow, and the progress display asks for thousands of jobs after every fit.
    _jobs: dict[tuple[int, int], Job] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def group(self) -> tuple[str, str, str]:
        """The group of its fits."""
        return self.dataset, self.method, self.transform

    @property
    def grid_label(self) -> str:
        """The values that are tried for each parameter, in one line."""
        values: dict[str, dict[str, None]] = {}
        for setting in self.grid:
            for name, value in setting.written.items():
                values.setdefault(name, {})[str(value)] = None
        return "; ".join(f"{name}: {', '.join(listed)}" for name, listed in values.items()) or "defaults only"

    def job(self, setting: Setting, seed: int) -> Job:
        """Return the fit of one of the cell's settings in the trial that has this seed."""
        place = id(setting), seed
        if place not in self._jobs:
            described = {"data": self.digest, "rate": self.rate, "permutation": seed, "seed": seed, **setting.described}
            self._jobs[place] = Job(*self.group, described)
        return self._jobs[place]


def cells(plan: Plan, facts: Mapping[str, Facts]) -> list[Cell]:
    """Return the cells of a plan in the order of its tables."""
    listed = []
    for data, rate in product(plan.datasets, plan.shuffle_rates):
        place = data.name, rate, facts[data.name]
        listed += [_baseline(name, *place) for name in plan.baselines]
        pairs = product(plan.methods, plan.transforms)
        listed += [_tensor(plan, method, transform, *place) for method, transform in pairs]
    return listed


def _tensor(
    plan: Plan, method: PlannedMethod, transform: PlannedTransform, dataset: str, rate: float, facts: Facts
) -> Cell:
    grid = method.grid.updated(method.under.get(transform.name, Grid({}, {})))
    kind, basis = METHODS[method.name], find_transform(transform.basis)
    defaults = kind.defaults()

    def setting(own: Mapping[str, Any], of_basis: Mapping[str, Any]) -> Setting:
        described = {
            "method": kind.estimator,
            "revision": kind.revision,
            "parameters": {**defaults, **resolved(own, facts.n_clusters)},
            "basis": transform.basis,
            "basis_revision": basis.revision,
            "basis_parameters": {**basis.defaults, **of_basis},
        }
        return Setting({**own, **of_basis}, described)

    tried = [setting(own, of_basis) for own in grid.settings() for of_basis in transform.grid.settings()]
    return Cell(
        *(dataset, method.name, transform.name, rate, facts.digest),
        grid=tuple(tried) if grid.tried or transform.grid.tried else (),
        default=setting(grid.fixed, transform.grid.fixed) if plan.defaults else None,
        uses_labels=basis.uses_labels,
    )


def _baseline(name: str, dataset: str, rate: float, facts: Facts) -> Cell:
    baseline = BASELINES[name]

    def setting(**parameters: Any) -> Setting:
        return Setting(parameters, {"baseline": name, "revision": baseline.revision, "parameters": parameters})

    views = range(len(facts.n_features)) if baseline.every_view else ()
    return Cell(
        *(dataset, baseline.title, NO_TRANSFORM, rate, facts.digest),
        grid=tuple(setting(view=view, by=by) for view in views for by in ("k-means", "spectral")),
        default=None if baseline.every_view else setting(),
    )


def first_jobs(plan: Plan, wanted: Sequence[Cell]) -> list[Job]:
    """Return the fits that depend on no other results: the whole grid, or the screening. Trial by trial."""
    screening = plan.screen_trials or plan.trials
    return _unique(
        cell.job(setting, plan.seed + trial)
        for trial in range(plan.trials)
        for cell in wanted
        for setting in (*(cell.grid if trial < screening else ()), cell.default)
        if setting is not None
    )


def later_jobs(plan: Plan, wanted: Sequence[Cell], accuracy: Accuracy) -> list[Job]:
    """Return the remaining fits of the settings that the screening keeps.

    `accuracy` returns the accuracy of a finished fit by its key, else None.
    """
    return _unique(
        cell.job(setting, plan.seed + trial)
        for trial in range(plan.screen_trials or plan.trials, plan.trials)
        for cell in wanted
        for setting in kept(plan, cell, accuracy)
    )


def all_jobs(plan: Plan, wanted: Sequence[Cell], accuracy: Accuracy) -> list[Job]:
    """Return every fit that a plan needs, as far as the screening has decided."""
    return _unique([*first_jobs(plan, wanted), *later_jobs(plan, wanted, accuracy)])


def kept(plan: Plan, cell: Cell, accuracy: Accuracy) -> list[Setting]:
    """Return the settings of a grid that run in all trials: those with the best mean accuracy in the screening."""
    if plan.screen_trials is None:
        return list(cell.grid)
    scores = []
    for number, setting in enumerate(cell.grid):
        values = [accuracy(cell.job(setting, plan.seed + trial).key) for trial in range(plan.screen_trials)]
        finished = [value for value in values if value is not None]
        if len(finished) == len(values):
            scores.append((-sum(finished), number))
    return [cell.grid[number] for _, number in sorted(scores)[: plan.screen_keep]]


def n_later(plan: Plan, cell: Cell) -> int:
    """Return how many fits a cell needs after the screening, at most."""
    if plan.screen_trials is None or plan.screen_keep is None:
        return 0
    return min(plan.screen_keep, len(cell.grid)) * (plan.trials - plan.screen_trials)


def _unique(jobs: Iterable[Job]) -> list[Job]:
    return list({job.key: job for job in jobs}.values())
