"""The figures of a benchmark: stored results under both selections of settings, and the paper's beside them."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from ._cells import NO_TRANSFORM, Cell, Setting, all_jobs, cells, kept, screening_scores, tried
from ._data import OWN_FEATURES, Facts
from ._ladders import number
from ._paper import Printed, printed
from ._plan import Plan, parse_plan
from ._store import Outcome, StoredPlan

ORACLE, DEFAULT = "oracle", "default"


class Place(NamedTuple):
    """Where a figure stands in the tables."""

    dataset: str
    method: str
    transform: str
    selection: str
    rate: float = 1.0

    def __str__(self) -> str:
        """Return the place in words, without the selection."""
        shuffled = "" if self.rate == 1 else f", {self.rate:.0%} shuffled"
        return f"{self.dataset}, {self.method}, {self.transform}{shuffled}"


@dataclass(frozen=True)
class Selected:
    """A cell with the setting that was selected for it, and the results of its trials."""

    cell: Cell
    selection: str
    setting: Setting
    trials: tuple[Outcome, ...]
    tried: tuple[Setting, ...]
    table: str | None

    @property
    def place(self) -> Place:
        """Where it stands in the tables."""
        return Place(*self.cell.group, self.selection, self.cell.rate)

    @property
    def grid_label(self) -> str:
        """The values that were tried for each parameter, in one line."""
        values: dict[str, dict[Any, None]] = {}
        for setting in self.tried:
            for name, value in setting.written.items():
                values.setdefault(name, {})[value if number(value) else str(value)] = None
        ordered = {name: sorted(listed, key=lambda v: number(v) or 0.0) for name, listed in values.items()}
        words = [f"{name}: {', '.join(map(str, listed))}" for name, listed in ordered.items()]
        return "; ".join(words) if self.selection == ORACLE and words else "defaults only"

    @property
    def uses_labels(self) -> bool:
        """Whether labels were used, by the selection or by the graph."""
        return self.selection == ORACLE or self.cell.uses_labels

    @property
    def own_features(self) -> bool:
        """Whether the features are not those of the paper."""
        return self.cell.dataset.endswith(OWN_FEATURES)

    def figure(self, metric: str) -> Printed:
        """Return the mean and the sample standard deviation over the trials, in percent; None for a single trial."""
        values = [100 * outcome.metrics[metric] for outcome in self.trials if outcome.metrics is not None]
        return Printed(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None)

    @property
    def accuracy(self) -> float:
        """Mean ACC in percent."""
        return self.figure("ACC").mean

    @property
    def seconds(self) -> float:
        """Mean duration of a fit."""
        return float(np.mean([outcome.seconds for outcome in self.trials]))

    @property
    def transform_seconds(self) -> float | None:
        """Mean duration of building the transform, which is part of the fit."""
        times = [outcome.transform_seconds for outcome in self.trials if outcome.transform_seconds is not None]
        return float(np.mean(times)) if times else None

    def paper(self, metric: str) -> Printed | None:
        """Return the figure of the paper."""
        return printed(self.table, *self.cell.group, metric)

    def difference(self, metric: str) -> float | None:
        """Return our mean minus that of the paper, in points rounded to two decimals; None where it has none."""
        paper = self.paper(metric)
        return None if paper is None else round(self.figure(metric).mean - paper.mean, 2)


class Edge(NamedTuple):
    """A best setting at an end of what may be tried; the accuracies there and a step inside are of the screening."""

    one: Selected
    parameter: str
    value: Any
    lowest: Any
    highest: Any
    accuracy: float
    inside: float


@dataclass(frozen=True)
class PlanResults:
    """A plan with the results of the file, which may hold those of other plans, too."""

    plan: Plan
    command: str
    facts: Mapping[str, Facts]
    cells: tuple[Cell, ...]
    outcomes: Mapping[str, Outcome]

    @cached_property
    def accuracies(self) -> dict[str, float]:
        """Accuracy of every successful fit by key."""
        return {key: outcome.metrics["ACC"] for key, outcome in self.outcomes.items() if outcome.metrics is not None}

    @cached_property
    def scores(self) -> dict[str, float]:
        """Accuracy of every fit by key, NaN if it failed."""
        return {key: self.accuracies.get(key, math.nan) for key in self.outcomes}

    @cached_property
    def keys(self) -> set[str]:
        """Keys of the fits that the plan needs, as far as the results decide."""
        return {job.key for job in all_jobs(self.plan, self.cells, self.scores.get)}

    @cached_property
    def failures(self) -> list[tuple[Cell, str, int]]:
        """Cells with failed fits: each error with the number of fits that ended with it."""
        failures = []
        for cell in self.cells:
            listed = tried(self.plan, cell, self.scores.get)
            settings = [setting for setting in (*listed, cell.default) if setting is not None]
            keys = {cell.job(s, self.plan.seed + t).key for s in settings for t in range(self.plan.trials)}
            errors = Counter(self.outcomes[key].error for key in keys & self.outcomes.keys())
            failures += [(cell, error, count) for error, count in errors.items() if error is not None]
        return failures

    @cached_property
    def selected(self) -> list[Selected]:
        """Every cell under both selections, where all its trials are complete."""
        selected: list[Selected | None] = []
        for cell in self.cells:
            listed = tried(self.plan, cell, self.scores.get)
            best = [
                self._select(cell, ORACLE, setting, listed)
                for setting in kept(self.plan, cell, listed, self.scores.get)
            ]
            complete = [one for one in best if one is not None]
            selected.append(max(complete, key=attrgetter("accuracy"), default=None))
            selected.append(None if cell.default is None else self._select(cell, DEFAULT, cell.default, [cell.default]))
        return [one for one in selected if one is not None]

    def _select(self, cell: Cell, selection: str, setting: Setting, listed: Sequence[Setting]) -> Selected | None:
        keys = [cell.job(setting, self.plan.seed + trial).key for trial in range(self.plan.trials)]
        successful = tuple(self.outcomes[key] for key in keys if key in self.accuracies)
        if len(successful) < self.plan.trials:
            return None
        return Selected(cell, selection, setting, successful, tuple(listed), self.plan.paper)

    @cached_property
    def _by_place(self) -> dict[Place, Selected]:
        return {one.place: one for one in self.selected}

    def find(self, dataset: str, method: str, transform: str, selection: str, rate: float = 1.0) -> Selected | None:
        """Return a cell under a selection, if it is complete."""
        return self._by_place.get(Place(dataset, method, transform, selection, rate))

    def untuned(self, dataset: str, baseline: str) -> Selected | None:
        """Return a baseline on shuffled samples; the labels choose among the views if it is of single views."""
        found = [self.find(dataset, baseline, NO_TRANSFORM, selection) for selection in (DEFAULT, ORACLE)]
        return found[0] or found[1]

    def counterpart(self, one: Selected, **changes: Any) -> Selected | None:
        """Return the cell whose place differs in `changes` only, such as ``transform="FFT"``."""
        return self._by_place.get(one.place._replace(**changes))

    @cached_property
    def tensors(self) -> list[Selected]:
        """The cells of tensor methods, without the baselines."""
        return [one for one in self.selected if one.cell.transform != NO_TRANSFORM]

    def remarks(self, one: Selected) -> list[str]:
        """Return the notes of the plan on a cell."""
        return [note.text for note in self.plan.notes if note.matches(*one.cell.group)]

    @cached_property
    def edges(self) -> list[Edge]:
        """Where the best setting of a cell is the last value of a parameter, and better than the value beside it."""
        found = []
        for one in self.selected:
            for name, rungs in one.cell.ladders.items() if one.selection == ORACLE else ():
                value = one.setting.written[name]
                if value in (rungs[0], rungs[-1]):
                    inner = one.cell.beside(one.setting, name)[0]
                    pair = [
                        screening_scores(self.plan, one.cell, setting, self.scores.get)
                        for setting in (one.setting, inner)
                    ]
                    ours, beside = (100 * float(np.mean([math.nan if x is None else x for x in part])) for part in pair)
                    if not ours <= beside:
                        found.append(Edge(one, name, value, rungs[0], rungs[-1], ours, beside))
        return found

    def compared(self, selection: str, metric: str = "ACC") -> list[tuple[Selected, float]]:
        """Return the cells that the paper has a figure for, of the same features, with the difference to it."""
        cells = [one for one in self.tensors if one.selection == selection and not one.own_features]
        return [(one, gap) for one in cells if (gap := one.difference(metric)) is not None]


def read_results(stored: StoredPlan, outcomes: Mapping[str, Outcome]) -> PlanResults:
    """Return the results of a stored plan."""
    plan = replace(parse_plan(stored.name, stored.text), seed=stored.seed)
    facts = {name: Facts(**record) for name, record in stored.datasets.items()}
    return PlanResults(plan, stored.command, facts, tuple(cells(plan, facts)), outcomes)
