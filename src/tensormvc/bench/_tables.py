"""From results to figures: the best setting by the labels, the default without them, and the paper's beside both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ._cells import NO_TRANSFORM, Cell, Setting, cells, kept
from ._data import OWN_FEATURES, Facts
from ._paper import Printed, printed
from ._plan import Plan, parse_plan
from ._run import all_jobs, facts_of
from ._store import METRICS, Row, StoredPlan

ORACLE, DEFAULT = "oracle", "default"


@dataclass(frozen=True)
class Selected:
    """A cell with the setting that a selection gives it, and the results of its trials."""

    cell: Cell
    selection: str
    setting: Setting
    rows: tuple[Row, ...]
    n_settings: int
    table: str | None

    @property
    def uses_labels(self) -> bool:
        """Whether labels entered, by the selection or by the graph."""
        return self.selection == ORACLE or self.cell.uses_labels

    @property
    def own_features(self) -> bool:
        """Whether the features are not the paper's."""
        return self.cell.dataset.endswith(OWN_FEATURES)

    def values(self, metric: str) -> list[float]:
        """Return a metric of every trial, in percent."""
        return [100 * row.outcome.metrics[metric] for row in self.rows if row.outcome.metrics is not None]

    def mean(self, metric: str) -> float:
        """Return the mean over the trials, in percent."""
        return float(np.mean(self.values(metric)))

    def std(self, metric: str) -> float | None:
        """Return the standard deviation over the trials (with n − 1), in percent; None for a single one."""
        values = self.values(metric)
        return float(np.std(values, ddof=1)) if len(values) > 1 else None

    @property
    def seconds(self) -> float:
        """Mean seconds of a fit."""
        return float(np.mean([row.outcome.seconds for row in self.rows]))

    @property
    def transform_seconds(self) -> float | None:
        """Mean seconds that building the transform took of it."""
        times = [row.outcome.transform_seconds for row in self.rows if row.outcome.transform_seconds is not None]
        return float(np.mean(times)) if times else None

    def paper(self, metric: str) -> Printed | None:
        """Return the paper's figure."""
        return printed(self.table, self.cell.dataset, self.cell.method, self.cell.transform, metric)

    def difference(self, metric: str) -> float | None:
        """Return ours minus the paper's, in points, as printed with two decimals; None where it has none."""
        other = self.paper(metric)
        return None if other is None else round(self.mean(metric) - other.mean, 2)


@dataclass(frozen=True)
class PlanResults:
    """A plan with what the file holds, of it and of others."""

    plan: Plan
    command: str
    facts: Mapping[str, Facts]
    cells: tuple[Cell, ...]
    rows: Mapping[str, Row]

    @cached_property
    def accuracies(self) -> dict[str, float]:
        """Accuracy of every fit that did not fail."""
        return {key: row.outcome.metrics["ACC"] for key, row in self.rows.items() if row.outcome.metrics is not None}

    @cached_property
    def keys(self) -> set[str]:
        """Keys of the fits that the plan needs, as far as is known."""
        return {job.key for job in all_jobs(self.plan, list(self.cells), self.accuracies.get)}

    @property
    def n_fits(self) -> int:
        """How many these are."""
        return len(self.keys)

    @property
    def n_missing(self) -> int:
        """Fits that are not in the file."""
        return len(self.keys - self.rows.keys())

    @cached_property
    def failures(self) -> list[tuple[Cell, str, int]]:
        """Cells with an error, and how many fits ended with it."""
        found: dict[tuple[int, str], int] = {}
        for number, cell in enumerate(self.cells):
            settings = [*cell.grid, *([cell.default] if cell.default is not None else [])]
            keys = {cell.job(s, self.plan.seed + t).key for s in settings for t in range(self.plan.trials)}
            for key in keys & self.rows.keys():
                if (error := self.rows[key].outcome.error) is not None:
                    found[number, error] = found.get((number, error), 0) + 1
        return [(self.cells[number], error, count) for (number, error), count in found.items()]

    @cached_property
    def selected(self) -> list[Selected]:
        """Every cell under both selections, where all its trials are there."""
        found = []
        for cell in self.cells:
            candidates = [self._try(cell, ORACLE, setting) for setting in kept(self.plan, cell, self.accuracies.get)]
            complete = [one for one in candidates if one is not None]
            best = max(complete, key=lambda one: one.mean("ACC"), default=None)
            default = None if cell.default is None else self._try(cell, DEFAULT, cell.default)
            found += [one for one in (best, default) if one is not None]
        return found

    def _try(self, cell: Cell, selection: str, setting: Setting) -> Selected | None:
        rows = [self.rows.get(cell.job(setting, self.plan.seed + trial).key) for trial in range(self.plan.trials)]
        there = tuple(row for row in rows if row is not None and row.outcome.metrics is not None)
        if len(there) < self.plan.trials:
            return None
        n_settings = len(cell.grid) if selection == ORACLE else 1
        return Selected(cell, selection, setting, there, n_settings, self.plan.paper)

    def find(self, dataset: str, method: str, transform: str, selection: str, rate: float = 1.0) -> Selected | None:
        """Return a cell under a selection."""
        return self._by_name.get((dataset, method, transform, selection, rate))

    @cached_property
    def _by_name(self) -> dict[tuple[str, str, str, str, float], Selected]:
        return {
            (one.cell.dataset, one.cell.method, one.cell.transform, one.selection, one.cell.rate): one
            for one in self.selected
        }

    @property
    def baselines(self) -> list[Selected]:
        """The cells without a tensor."""
        return [one for one in self.selected if one.cell.transform == NO_TRANSFORM]

    @property
    def tensors(self) -> list[Selected]:
        """The cells with one."""
        return [one for one in self.selected if one.cell.transform != NO_TRANSFORM]

    def n_below(self, points: float, selection: str, metric: str = "ACC") -> tuple[int, int]:
        """Return how many cells are within so many points of the paper's or above, and how many have a figure there."""
        gaps = [
            gap
            for one in self.tensors
            if one.selection == selection and not one.own_features and (gap := one.difference(metric)) is not None
        ]
        return sum(gap >= -points for gap in gaps), len(gaps)


def read_results(stored: StoredPlan, rows: Mapping[str, Row]) -> PlanResults:
    """Return what a file holds of one of its plans."""
    plan = replace(parse_plan(stored.name, stored.text), seed=stored.seed)
    facts = facts_of(stored)
    return PlanResults(plan, stored.command, facts, tuple(cells(plan, facts)), rows)


__all__ = ["DEFAULT", "METRICS", "ORACLE", "PlanResults", "Selected", "read_results"]
