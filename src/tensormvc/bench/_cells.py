"""The cells of a plan's tables, the settings tried in each, and the fits that these need."""

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any

from ._data import Facts
from ._ladders import ladder
from ._methods import BASELINES, METHODS, find_transform, resolved
from ._plan import Grid, Plan, PlannedMethod, PlannedTransform

NO_TRANSFORM = "none"
# Parameters that cannot exceed the number of samples: beyond its list, no such value is tried.
_AT_MOST_SAMPLES = {"n_kernel_anchors"}
# The accuracy of a finished fit by its key: NaN if it failed, None if it is not finished.
Scores = Callable[[str], float | None]


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

    @cached_property
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
    n_samples: int
    # Whether the graph of the transform is built from the labels.
    uses_labels: bool = False
    # The values of every numerical parameter of the grid, continued to its bounds, and how to make a setting of them.
    ladders: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    make: Callable[[Mapping[str, Any]], Setting] | None = field(default=None, repr=False, compare=False)
    # Hashing is slow, and the progress display asks for thousands of jobs after every fit.
    _jobs: dict[tuple[str, int], Job] = field(default_factory=dict, init=False, repr=False, compare=False)
    _beside: dict[tuple[str, str], list[Setting]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def group(self) -> tuple[str, str, str]:
        """The group of its fits."""
        return self.dataset, self.method, self.transform

    def beside(self, setting: Setting, name: str) -> list[Setting]:
        """Return the settings whose value of a parameter is a step down or up its ladder."""
        place = setting.label, name
        if place not in self._beside and self.make is not None:
            rungs = self.ladders[name]
            here = rungs.index(setting.written[name])
            steps = *rungs[max(0, here - 1) : here], *rungs[here + 1 : here + 2]
            self._beside[place] = [self.make({**setting.written, name: rung}) for rung in steps]
        return self._beside[place]

    def job(self, setting: Setting, seed: int) -> Job:
        """Return the fit of one of the cell's settings in the trial that has this seed."""
        place = setting.label, seed
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
    return [cell for cell in listed if not any(note.matches(*cell.group) for note in plan.skip)]


def _tensor(
    plan: Plan, method: PlannedMethod, transform: PlannedTransform, dataset: str, rate: float, facts: Facts
) -> Cell:
    grid = method.grid.updated(method.under.get(transform.name, Grid({}, {})))
    kind, basis = METHODS[method.name], find_transform(transform.basis)
    defaults = kind.defaults()

    def setting(written: Mapping[str, Any]) -> Setting:
        own = {name: value for name, value in written.items() if name in defaults}
        of_basis = {name: value for name, value in written.items() if name not in defaults}
        described = {
            "method": kind.estimator,
            "revision": kind.revision,
            "parameters": {**defaults, **resolved(own, facts.n_clusters)},
            "basis": transform.basis,
            "basis_revision": basis.revision,
            "basis_parameters": {**basis.defaults, **of_basis},
            **_on(plan),
        }
        return Setting(written, described)

    tried = [setting({**own, **of_basis}) for own in grid.settings() for of_basis in transform.grid.settings()]
    lists = {**grid.tried, **transform.grid.tried}
    ladders = {name: ladder(values, method.bounds.get(name, ())) for name, values in lists.items()}
    for name in _AT_MOST_SAMPLES & ladders.keys():
        ladders[name] = tuple(rung for rung in ladders[name] if rung in lists[name] or rung <= facts.n_samples)
    return Cell(
        *(dataset, method.name, transform.name, rate, facts.digest),
        grid=tuple(tried) if lists else (),
        default=setting({**grid.fixed, **transform.grid.fixed}) if plan.defaults else None,
        n_samples=facts.n_samples,
        uses_labels=basis.uses_labels,
        ladders={name: rungs for name, rungs in ladders.items() if rungs},
        make=setting,
    )


def _on(plan: Plan) -> dict[str, str]:
    """Return what a description says about the device: it determines seconds, but labels only up to rounding."""
    return {"device": plan.device or "cpu"} if plan.is_timed else {}


def _baseline(name: str, dataset: str, rate: float, facts: Facts) -> Cell:
    baseline = BASELINES[name]

    def setting(**parameters: Any) -> Setting:
        return Setting(parameters, {"baseline": name, "revision": baseline.revision, "parameters": parameters})

    views = range(len(facts.n_features)) if baseline.every_view else ()
    return Cell(
        *(dataset, baseline.title, NO_TRANSFORM, rate, facts.digest),
        grid=tuple(setting(view=view, by=by) for view in views for by in ("k-means", "spectral")),
        default=None if baseline.every_view else setting(),
        n_samples=facts.n_samples,
    )


def all_jobs(plan: Plan, wanted: Sequence[Cell], scores: Scores = lambda key: None) -> list[Job]:
    """Return every fit that a plan needs, as far as the results decide; trial by trial.

    Without any results these are the default settings in all trials, and the grid in the trials of the screening. Its
    results decide which settings beyond the grid are tried, and in the end which ones run in all trials.
    """
    screening = plan.screen_trials or plan.trials
    settings = {}
    for number, cell in enumerate(wanted):
        listed = tried(plan, cell, scores)
        screened = is_screened(plan, cell, listed, scores)
        settings[number] = listed, kept(plan, cell, listed, scores) if screened else []
    return _unique(
        cell.job(setting, plan.seed + trial)
        for trial in range(plan.trials)
        for number, cell in enumerate(wanted)
        for setting in (*settings[number][trial >= screening], cell.default)
        if setting is not None
    )


def tried(plan: Plan, cell: Cell, scores: Scores) -> list[Setting]:
    """Return the grid of a cell, and the settings beyond it that its results ask for.

    As long as a setting that the screening keeps has a neighbour on a ladder that has not been tried, the neighbour
    joins: in the end, the best setting is better than all its neighbours, or at a bound.
    """
    settings = {setting.label: setting for setting in cell.grid}
    while is_screened(plan, cell, settings.values(), scores):
        best = _ranked(plan, cell, settings.values(), scores)[: plan.screen_keep or 1]
        new = [beside for setting in best for name in cell.ladders for beside in cell.beside(setting, name)]
        if all(setting.label in settings for setting in new):
            break
        settings |= {setting.label: setting for setting in new if setting.label not in settings}
    return list(settings.values())


def kept(plan: Plan, cell: Cell, settings: list[Setting], scores: Scores) -> list[Setting]:
    """Return the settings, of those tried, that run in all trials: those with the best mean ACC in the screening."""
    return settings if plan.screen_trials is None else _ranked(plan, cell, settings, scores)[: plan.screen_keep]


def is_screened(plan: Plan, cell: Cell, settings: Iterable[Setting], scores: Scores) -> bool:
    """Return whether all fits of the screening of these settings are finished."""
    return all(None not in screening_scores(plan, cell, setting, scores) for setting in settings)


def screening_scores(plan: Plan, cell: Cell, setting: Setting, scores: Scores) -> list[float | None]:
    """Return the accuracy of a setting in each trial of the screening."""
    trials = range(plan.screen_trials or plan.trials)
    return [scores(cell.job(setting, plan.seed + trial).key) for trial in trials]


def _ranked(plan: Plan, cell: Cell, settings: Iterable[Setting], scores: Scores) -> list[Setting]:
    """Return the settings whose screening is complete and did not fail, the best first.

    Of settings with the same score, only the first counts: often a parameter has no effect, and its values would take
    all places.
    """
    first: dict[float, Setting] = {}
    for setting in settings:
        values = [math.nan if value is None else value for value in screening_scores(plan, cell, setting, scores)]
        if not math.isnan(total := sum(values)):
            first.setdefault(total, setting)
    return [first[total] for total in sorted(first, reverse=True)]


def n_later(plan: Plan, cell: Cell) -> int:
    """Return how many fits a cell needs after the screening, at most."""
    if plan.screen_trials is None or plan.screen_keep is None:
        return 0
    return min(plan.screen_keep, len(cell.grid)) * (plan.trials - plan.screen_trials)


def _unique(jobs: Iterable[Job]) -> list[Job]:
    return list({job.key: job for job in jobs}.values())
