"""Plans: which data, methods, transforms and settings a benchmark tries. Read strictly: a slip is told at once."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

from ._methods import BASELINES, METHODS, TRANSFORM_NAMES, TRANSFORMS

# The tables of the paper that a plan can be laid beside.
PAPER_TABLES = ("clustering", "transform", "k_n", "k_a", "runtime")
_PER_CLUSTER = re.compile(r"([1-9][0-9]*)c")
_KEYS = {
    *("title", "paper", "datasets", "transforms", "methods", "baselines", "trials", "seed", "shuffle_rates"),
    *("defaults", "screen", "notes"),
}


class PlanError(ValueError):
    """A plan that says something that cannot be."""


@dataclass(frozen=True)
class Grid:
    """Parameters that are set, and parameters that are tried at several values."""

    fixed: Mapping[str, Any]
    tried: Mapping[str, Sequence[Any]]

    def settings(self) -> list[dict[str, Any]]:
        """Return every setting of the grid; a single one if nothing is tried."""
        combinations = product(*self.tried.values())
        return [{**self.fixed, **dict(zip(self.tried, values, strict=True))} for values in combinations]

    def updated(self, other: Grid) -> Grid:
        """Return the grid with the parameters of another one in place of its own."""
        named = {*other.fixed, *other.tried}
        return Grid(
            {**{k: v for k, v in self.fixed.items() if k not in named}, **other.fixed},
            {**{k: v for k, v in self.tried.items() if k not in named}, **other.tried},
        )


@dataclass(frozen=True)
class PlannedData:
    """A data set: its name, and how many samples of the embedded digits."""

    name: str
    n_samples: int | None = None


@dataclass(frozen=True)
class PlannedTransform:
    """A transform: its name in the tables, its basis, and the parameters of that."""

    name: str
    basis: str
    grid: Grid


@dataclass(frozen=True)
class PlannedMethod:
    """A method: its name, its parameters, and those that are other ones under some transforms."""

    name: str
    grid: Grid
    under: Mapping[str, Grid]


@dataclass(frozen=True)
class Note:
    """A remark on a cell, for the report."""

    dataset: str
    method: str
    transform: str
    text: str


@dataclass(frozen=True)
class Plan:
    """A benchmark, as a plan file describes it; see `load_plan`.

    Parameters
    ----------
    name : str
        Name of the file without its ending.
    text : str
        The file.
    title : str
        What it is, in words.
    paper : str or None
        The table of the paper to lay the results beside.
    datasets : tuple of PlannedData
        Data sets.
    transforms : tuple of PlannedTransform
        Transforms.
    methods : tuple of PlannedMethod
        Methods.
    baselines : tuple of str
        Clusterers without a tensor.
    trials : int
        Runs of each setting, each with its own permutation and seed.
    seed : int
        Seed of the first trial; that of trial t is larger by t.
    shuffle_rates : tuple of float
        Share of the class-sorted samples that is permuted.
    defaults : bool
        Whether the default parameters are run, too.
    screen_trials : int or None
        Trials that all settings of a grid run in; None for all trials.
    screen_keep : int or None
        The best so many of them, by mean ACC, run in the other trials.
    notes : tuple of Note
        Remarks.

    Examples
    --------
    >>> import tensormvc as tm
    >>> plan = tm.bench.load_plan("smoke")
    >>> plan.name, [data.name for data in plan.datasets]
    ('smoke', ['digits'])
    """

    name: str
    text: str
    title: str
    paper: str | None
    datasets: tuple[PlannedData, ...]
    transforms: tuple[PlannedTransform, ...]
    methods: tuple[PlannedMethod, ...]
    baselines: tuple[str, ...]
    trials: int
    seed: int
    shuffle_rates: tuple[float, ...]
    defaults: bool
    screen_trials: int | None
    screen_keep: int | None
    notes: tuple[Note, ...]


def shipped_plans() -> list[str]:
    """Return the names of the plans inside the package."""
    return sorted(file.name.removesuffix(".toml") for file in _folder().iterdir() if file.name.endswith(".toml"))


def load_plan(plan: str | Path, *, seed: int | None = None) -> Plan:
    """Read a plan: one that comes with the package, by its name, or a TOML file.

    Parameters
    ----------
    plan : str or path-like
        "ablation-basis", "ablation-ka", "ablation-kn", "clustering", "runtime", "shuffle-rate", "smoke", or a path.
    seed : int, optional
        Seed of the first trial, instead of the plan's.

    Returns
    -------
    Plan

    Examples
    --------
    >>> import tensormvc as tm
    >>> [method.name for method in tm.bench.load_plan("ablation-kn").methods]
    ['ESTMC']
    """
    if str(plan) in shipped_plans():
        name, text = str(plan), _folder().joinpath(f"{plan}.toml").read_text(encoding="utf-8")
    else:
        path = Path(plan)
        try:
            name, text = path.name.removesuffix(".toml"), path.read_text(encoding="utf-8")
        except FileNotFoundError as error:
            raise PlanError(f"{plan}: no such file; the plans by name are {', '.join(shipped_plans())}") from error
        except (OSError, UnicodeDecodeError) as error:
            raise PlanError(f"{plan} cannot be read: {error}") from error
    made = parse_plan(name, text)
    return made if seed is None else replace(made, seed=seed)


def _folder() -> Any:
    return files(__package__).joinpath("plans")


def parse_plan(name: str, text: str) -> Plan:
    """Return the plan of a text in TOML."""
    try:
        return _plan(name, text, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"plan {name}: this is not TOML: {error}") from error
    except PlanError as error:
        raise PlanError(f"plan {name}: {error}") from error


def _plan(name: str, text: str, read: dict[str, Any]) -> Plan:
    _known(read, _KEYS, "")
    paper = read.get("paper")
    if paper is not None and paper not in PAPER_TABLES:
        raise PlanError(f"paper = {paper!r}: expected one of {', '.join(PAPER_TABLES)}")
    transforms = tuple(_transform(entry, i) for i, entry in enumerate(_list(read, "transforms", [])))
    _distinct([transform.name for transform in transforms], "transforms")
    known = {transform.name for transform in transforms}
    tables = _table(read.get("methods", {}), "methods")
    methods = tuple(_method(method, table, known) for method, table in tables.items())
    datasets = tuple(_dataset(entry, i) for i, entry in enumerate(_list(read, "datasets")))
    _distinct([data.name for data in datasets], "datasets")
    baselines = tuple(_choice(entry, BASELINES, "baselines") for entry in _list(read, "baselines", []))
    _distinct(baselines, "baselines")
    if bool(methods) != bool(transforms):
        raise PlanError("methods and transforms go together: the plan has only one of them")
    if not methods and not baselines:
        raise PlanError("methods: there is nothing to run, neither methods nor baselines")
    trials = _whole(read, "trials", 5, 1)
    screen = _table(read.get("screen", {}), "screen")
    _known(screen, {"trials", "keep"}, "screen.")
    if screen and set(screen) != {"trials", "keep"}:
        raise PlanError("screen: it needs both trials and keep")
    screen_trials = _whole(screen, "trials", None, 1, "screen.") if screen else None
    if screen_trials is not None and screen_trials >= trials:
        raise PlanError(f"screen.trials = {screen_trials}: it must be less than trials = {trials}")
    defaults = read.get("defaults", True)
    if not isinstance(defaults, bool):
        raise PlanError(f"defaults = {defaults!r}: expected true or false")
    return Plan(
        name=name,
        text=text,
        title=_string(read, "title"),
        paper=paper,
        datasets=datasets,
        transforms=transforms,
        methods=methods,
        baselines=baselines,
        trials=trials,
        seed=_whole(read, "seed", 0, 0),
        shuffle_rates=_rates(read),
        defaults=defaults,
        screen_trials=screen_trials,
        screen_keep=_whole(screen, "keep", None, 1, "screen.") if screen else None,
        notes=tuple(_note(entry, i) for i, entry in enumerate(_list(read, "notes", []))),
    )


def _transform(entry: Any, number: int) -> PlannedTransform:
    where = f"transforms[{number}]"
    if isinstance(entry, str):
        return PlannedTransform(entry, TRANSFORM_NAMES[_choice(entry, TRANSFORM_NAMES, where)], Grid({}, {}))
    entry = _table(entry, where)
    name = _string(entry, "name", f"{where}.")
    basis = entry.get("basis", TRANSFORM_NAMES.get(name))
    if basis is None:
        raise PlanError(f"{where}.basis: it is missing, and {name!r} is not one of {', '.join(TRANSFORM_NAMES)}")
    transform = TRANSFORMS[_choice(basis, TRANSFORMS, f"{where}.basis")]
    rest = {key: value for key, value in entry.items() if key not in ("name", "basis")}
    grid = _grid(rest, transform.defaults, where, f"the basis {basis}")
    for setting in grid.settings():
        try:
            transform.make(**{**transform.defaults, **setting})
        except (TypeError, ValueError) as error:
            raise PlanError(f"{where}: {error}") from error
    return PlannedTransform(name, basis, grid)


def _method(name: str, entry: Any, transforms: set[str]) -> PlannedMethod:
    where = f"methods.{name}"
    method = METHODS[_choice(name, METHODS, "methods")]
    entry = dict(_table(entry, where))
    under = _table(entry.pop("transforms", {}), f"{where}.transforms")
    made = PlannedMethod(
        name,
        _grid(entry, method.defaults(), where, name),
        {
            _choice(key, transforms, f"{where}.transforms"): _grid(
                _table(value, f"{where}.transforms.{key}"), method.defaults(), f"{where}.transforms.{key}", name
            )
            for key, value in under.items()
        },
    )
    for grid in [made.grid, *(made.grid.updated(other) for other in made.under.values())]:
        for setting in grid.settings():
            for parameter, value in setting.items():
                try:
                    method.check({parameter: value})
                except (TypeError, ValueError) as error:
                    raise PlanError(f"{where}.{parameter}: {error}") from error
    return made


def _grid(entry: Mapping[str, Any], known: Mapping[str, Any], where: str, owner: str) -> Grid:
    for key, value in entry.items():
        if key not in known:
            raise PlanError(f"{where}.{key}: {owner} has no such parameter; it has {', '.join(known) or 'none'}")
        values = value if isinstance(value, list) else [value]
        if not values:
            raise PlanError(f"{where}.{key}: the list of values is empty")
        if len({repr(one) for one in values}) < len(values):
            raise PlanError(f"{where}.{key}: a value is there twice in {values}")
        for one in values:
            if key == "n_latent" and not (_is_whole(one) or (isinstance(one, str) and _PER_CLUSTER.fullmatch(one))):
                raise PlanError(f'{where}.{key} = {one!r}: expected a number, or one a cluster such as "4c"')
    return Grid(
        {key: value for key, value in entry.items() if not isinstance(value, list)},
        {key: value for key, value in entry.items() if isinstance(value, list)},
    )


def resolved(parameters: Mapping[str, Any], n_clusters: int) -> dict[str, Any]:
    """Return the parameters with numbers in the place of "4c".

    Examples
    --------
    >>> resolved({"n_latent": "4c", "alpha": 0.1}, 7)
    {'n_latent': 28, 'alpha': 0.1}
    """
    made = dict(parameters)
    if isinstance(latent := made.get("n_latent"), str):
        made["n_latent"] = int(latent[:-1]) * n_clusters
    return made


def _dataset(entry: Any, number: int) -> PlannedData:
    where = f"datasets[{number}]"
    if isinstance(entry, str):
        entry = {"name": entry}
    entry = _table(entry, where)
    _known(entry, {"name", "n_samples"}, f"{where}.")
    name = _string(entry, "name", f"{where}.")
    if name in (".", "..") or "/" in name or "\\" in name:
        raise PlanError(f"{where}.name = {name!r}: expected a name; its folder is an option of the command")
    if "n_samples" in entry and name != "digits":
        raise PlanError(f"{where}.n_samples: only the embedded digits can be cut")
    return PlannedData(name, _whole(entry, "n_samples", None, 2, f"{where}.") if "n_samples" in entry else None)


def _note(entry: Any, number: int) -> Note:
    where = f"notes[{number}]"
    entry = _table(entry, where)
    _known(entry, {"dataset", "method", "transform", "text"}, f"{where}.")
    parts = {
        key: _string(entry, key, f"{where}.") if key in entry else "" for key in ("dataset", "method", "transform")
    }
    return Note(**parts, text=_string(entry, "text", f"{where}."))


def _rates(read: Mapping[str, Any]) -> tuple[float, ...]:
    rates = _list(read, "shuffle_rates") if "shuffle_rates" in read else [1.0]
    for rate in rates:
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate <= 1:
            raise PlanError(f"shuffle_rates: {rate!r} is not a number from 0 to 1")
    _distinct([str(float(rate)) for rate in rates], "shuffle_rates")
    return tuple(float(rate) for rate in rates)


def _known(table: Mapping[str, Any], keys: set[str], prefix: str) -> None:
    for key in table:
        if key not in keys:
            raise PlanError(f"{prefix}{key}: there is no such key; the keys are {', '.join(sorted(keys))}")


def _list(read: Mapping[str, Any], key: str, default: list[Any] | None = None) -> list[Any]:
    value = read.get(key, default)
    if not isinstance(value, list) or (not value and default is None):
        raise PlanError(f"{key}: expected a list" + ("" if key in read else "; it is missing"))
    return value


def _table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise PlanError(f"{where} = {value!r}: expected a table")
    return value


def _string(table: Mapping[str, Any], key: str, prefix: str = "") -> str:
    value = table.get(key)
    if not isinstance(value, str) or not value.strip():
        raise PlanError(f"{prefix}{key}: expected a text" + ("" if key in table else "; it is missing"))
    return value


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _whole(table: Mapping[str, Any], key: str, default: Any, least: int, prefix: str = "") -> int:
    value = table.get(key, default)
    if not _is_whole(value) or value < least:
        raise PlanError(f"{prefix}{key} = {value!r}: expected a whole number from {least} on")
    return int(value)


def _choice(value: Any, known: Any, where: str) -> str:
    if not isinstance(value, str) or value not in known:
        raise PlanError(f"{where}: {value!r} is not known; known are {', '.join(sorted(known))}")
    return value


def _distinct(names: Sequence[str], where: str) -> None:
    if twice := sorted({name for name in names if list(names).count(name) > 1}):
        raise PlanError(f"{where}: {', '.join(twice)} is there twice")
