"""Benchmark plans: TOML files that name the data sets, methods, transforms and parameter values to run.

A plan is validated when it is read, so that a mistake shows before the first fit; only values that depend on the data,
such as a number of anchors, are left to the fits.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import partial
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

from ._ladders import ladder, number
from ._methods import BASELINES, METHODS, TRANSFORM_NAMES, find_transform

# The tables of the paper that a plan can be compared with.
PAPER_TABLES = ("clustering", "transform", "k_n", "k_a", "runtime")
# The files that a report has beside those of its plans.
REPORTED = ("settings", "deviations", "grid_edges", "comparisons", "index")


class PlanError(ValueError):
    """A plan that cannot be read or run."""


# A check takes a value and its place in the plan, and returns the value as it is used or raises a PlanError.
_Check = Callable[[Any, str], Any]


def _expects(expected: str, is_valid: Callable[[Any], bool], convert: Callable[[Any], Any] | None = None) -> _Check:
    def check(value: Any, where: str) -> Any:
        if value is None:  # TOML has no null
            raise PlanError(f"{where} is missing: expected {expected}")
        if not is_valid(value):
            raise PlanError(f"{where} = {value!r}: expected {expected}")
        return convert(value) if convert else value

    return check


_table = _expects("a table", lambda value: isinstance(value, dict), dict)
_text = _expects("a non-empty string", lambda value: isinstance(value, str) and bool(value.strip()))
_flag = _expects("true or false", lambda value: isinstance(value, bool))
_rate = _expects("a number from 0 to 1", lambda value: type(value) in (int, float) and 0 <= value <= 1, float)


def _integer(least: int) -> _Check:
    return _expects(f"an integer of at least {least}", lambda value: type(value) is int and value >= least)


def _one_of(names: Collection[str]) -> _Check:
    return _expects(f"one of {', '.join(sorted(names))}", lambda value: isinstance(value, str) and value in names)


def _items(check: _Check, *, least: int = 0) -> _Check:
    """Return the check of a list whose items have different names or values."""
    expected = "a list that is not empty" if least else "a list"
    is_list = _expects(expected, lambda value: isinstance(value, list) and len(value) >= least)

    def check_all(value: Any, where: str) -> tuple[Any, ...]:
        items = tuple(check(item, f"{where}[{i}]") for i, item in enumerate(is_list(value, where)))
        names = [getattr(item, "name", item) for item in items]
        if repeated := [name for i, name in enumerate(names) if name in names[:i]]:
            raise PlanError(f"{where}: {repeated[0]} is listed twice")
        return items

    return check_all


def _key(check: _Check, default: Any = MISSING) -> Any:
    """Declare a key of a plan file; without a default it is required."""
    return field(default=default, metadata={"check": check})


def _keys(kind: type) -> dict[str, tuple[_Check, Any]]:
    """Return the check and the default of every key that a dataclass declares."""
    return {key.name: (key.metadata["check"], key.default) for key in fields(kind) if key.metadata}


def _fields(value: Any, where: str, checks: Mapping[str, tuple[_Check, Any]]) -> dict[str, Any]:
    """Return the checked values of a table; `checks` holds the check and the default of every key."""
    table, prefix = _table(value, where), f"{where}." if where else ""
    for key in table:
        if key not in checks:
            raise PlanError(f"{prefix}{key}: there is no such key; the keys are {', '.join(sorted(checks))}")
    return {
        key: check(table.get(key), f"{prefix}{key}") if key in table or default is MISSING else default
        for key, (check, default) in checks.items()
    }


@dataclass(frozen=True)
class Grid:
    """Parameters with one fixed value, and parameters of which several values are tried."""

    fixed: Mapping[str, Any]
    tried: Mapping[str, Sequence[Any]]

    def settings(self) -> list[dict[str, Any]]:
        """Return every combination of values; a single one if no parameter is tried."""
        combinations = product(*self.tried.values())
        return [{**self.fixed, **dict(zip(self.tried, values, strict=True))} for values in combinations]

    def updated(self, other: Grid) -> Grid:
        """Return this grid with the parameters of `other` replaced by those of `other`."""
        named = {*other.fixed, *other.tried}
        fixed = {name: value for name, value in self.fixed.items() if name not in named}
        tried = {name: values for name, values in self.tried.items() if name not in named}
        return Grid({**fixed, **other.fixed}, {**tried, **other.tried})


def _grid(value: Any, where: str, owner: str, known: Collection[str], check: Callable[..., Any] = dict) -> Grid:
    table = _table(value, where)
    tried = {name: values for name, values in table.items() if isinstance(values, list)}
    fixed = {name: value for name, value in table.items() if name not in tried}
    for name in table:
        place, values = f"{where}.{name}", tried.get(name, [table[name]])
        if name not in known:
            raise PlanError(f"{place}: {owner} has no such parameter; it has {', '.join(known) or 'none'}")
        if not values:
            raise PlanError(f"{place}: the list of values is empty")
        if len(set(map(repr, values))) < len(values):
            raise PlanError(f"{place}: a value is listed twice in {values}")
        for value in values:
            with _errors_at(place):
                check({name: value})
    return Grid(fixed, tried)


@contextmanager
def _errors_at(where: str) -> Iterator[None]:
    try:
        yield
    except (TypeError, ValueError) as error:
        raise PlanError(f"{where}: {error}") from error


@dataclass(frozen=True)
class PlannedData:
    """A data set by name; `n_samples` limits the number of embedded digits."""

    name: str = _key(_text)
    n_samples: int | None = _key(_integer(2), None)


def _dataset(value: Any, where: str) -> PlannedData:
    table = {"name": value} if isinstance(value, str) else value
    data = PlannedData(**_fields(table, where, _keys(PlannedData)))
    if data.name in (".", "..") or "/" in data.name or "\\" in data.name:
        raise PlanError(f"{where}.name = {data.name!r}: expected a name without a folder; pass the folder as --data")
    if data.n_samples is not None and data.name != "digits":
        raise PlanError(f"{where}.n_samples: only the embedded digits can be limited in number")
    return data


@dataclass(frozen=True)
class PlannedTransform:
    """A transform: its name in the tables, the name of its basis, and the values of its parameters."""

    name: str
    basis: str
    grid: Grid


def _transform(value: Any, where: str) -> PlannedTransform:
    table = {"name": _one_of(TRANSFORM_NAMES)(value, where)} if isinstance(value, str) else _table(value, where)
    name = _text(table.pop("name", None), f"{where}.name")
    basis = _text(table.pop("basis", TRANSFORM_NAMES.get(name)), f"{where}.basis")
    with _errors_at(f"{where}.basis"):
        known = find_transform(basis).defaults
    return PlannedTransform(name, basis, _grid(table, where, f"the basis {basis}", known))


@dataclass(frozen=True)
class PlannedMethod:
    """A method: its name, the values of its parameters, and values that replace them under some transforms.

    `bounds` has the lowest and the highest value up to which the list of a parameter is widened.
    """

    name: str
    grid: Grid
    under: Mapping[str, Grid]
    bounds: Mapping[str, Sequence[Any]]


def _method(value: Any, name: str, transforms: Collection[str]) -> PlannedMethod:
    where = f"methods.{name}"
    method = METHODS[_one_of(METHODS)(name, "methods")]
    grid = partial(_grid, owner=name, known=method.defaults(), check=method.check)
    table = _table(value, where)
    bounds = _table(table.pop("bounds", {}), f"{where}.bounds")
    under = _table(table.pop("transforms", {}), f"{where}.transforms")
    for transform in under:
        _one_of(transforms)(transform, f"{where}.transforms")
    by_transform = {key: grid(value, f"{where}.transforms.{key}") for key, value in under.items()}
    planned = PlannedMethod(name, grid(table, where), by_transform, bounds)
    for key, ends in bounds.items():
        grid({key: ends}, f"{where}.bounds")
        lists = [one.tried[key] for one in (planned.grid, *by_transform.values()) if key in one.tried]
        for values in lists or [[]]:
            _check_bounds(ends, values, f"{where}.bounds.{key}")
    return planned


def _check_bounds(ends: Any, values: Sequence[Any], where: str) -> None:
    """Check the bounds of a parameter against the list of its values."""
    pair = ends if isinstance(ends, list) and len(ends) == 2 else [None, None]
    low, high, *inner = (number(value) or 0.0 for value in (*pair, *values))
    if not ladder(values) or not 0 < low <= min(inner) <= max(inner) <= high:
        raise PlanError(f"{where} = {ends!r}: expected two positive numbers around the two or more of {list(values)}")


@dataclass(frozen=True)
class Note:
    """A remark on all cells that match; an empty name matches any."""

    text: str = _key(_text)
    dataset: str = _key(_text, "")
    method: str = _key(_text, "")
    transform: str = _key(_text, "")

    def matches(self, dataset: str, method: str, transform: str) -> bool:
        """Return whether it is about this cell."""
        place = dataset, method, transform
        return place == (self.dataset or dataset, self.method or method, self.transform or transform)


def _note(value: Any, where: str) -> Note:
    return Note(**_fields(value, where, _keys(Note)))


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A benchmark as described by a plan file; see `load_plan`.

    Parameters
    ----------
    name : str
        Name of the file without its extension.
    text : str
        Contents of the file.
    title : str
        One line that describes the benchmark.
    heading : str
        A few words that name the benchmark in the report; the name by default.
    paper : str or None
        Table of the paper to compare the results with.
    datasets : tuple of PlannedData
        Data sets.
    transforms : tuple of PlannedTransform
        Transforms.
    methods : tuple of PlannedMethod
        Methods, each of which runs under every transform.
    baselines : tuple of str
        Clustering methods without a tensor.
    trials : int
        Runs per setting, each with its own permutation of the samples and its own seed.
    seed : int
        Seed of the first trial; trial t uses ``seed + t``.
    shuffle_rates : tuple of float
        Fraction of the samples to permute, starting from samples sorted by class.
    defaults : bool
        Whether to run the default parameters as well.
    screen_trials : int or None
        Number of trials in which every setting of the grid runs; None for all trials.
    screen_keep : int or None
        Number of settings per cell, those with the best mean ACC, that run in the remaining trials.
    device : str or None
        PyTorch device that runs the fits, such as "cuda"; None for NumPy.
    notes : tuple of Note
        Remarks for the report.
    skip : tuple of Note
        Cells that do not run, with the reason.

    Examples
    --------
    >>> import tensormvc as tm
    >>> plan = tm.bench.load_plan("smoke")
    >>> plan.name, [data.name for data in plan.datasets]
    ('smoke', ['digits'])
    """

    name: str
    text: str
    title: str = _key(_text)
    heading: str = _key(_text, "")
    paper: str | None = _key(_one_of(PAPER_TABLES), None)
    datasets: tuple[PlannedData, ...] = _key(_items(_dataset, least=1))
    transforms: tuple[PlannedTransform, ...] = _key(_items(_transform), ())
    methods: tuple[PlannedMethod, ...]
    baselines: tuple[str, ...] = _key(_items(_one_of(BASELINES)), ())
    trials: int = _key(_integer(1), 5)
    seed: int = _key(_integer(0), 0)
    shuffle_rates: tuple[float, ...] = _key(_items(_rate, least=1), (1.0,))
    defaults: bool = _key(_flag, True)
    device: str | None = _key(_text, None)
    screen_trials: int | None
    screen_keep: int | None
    notes: tuple[Note, ...] = _key(_items(_note), ())
    skip: tuple[Note, ...] = _key(_items(_note), ())

    @property
    def is_timed(self) -> bool:
        """Whether the plan is about seconds: its fits run alone, and those of each device are a table of their own."""
        return self.paper == "runtime"

    @property
    def label(self) -> str:
        """Name of the plan for readers."""
        named = self.heading and self.is_timed and self.device
        return (self.heading or self.name) + (f" ({self.device})" if named else "")


def _folder() -> Any:
    return files(__package__).joinpath("plans")


def shipped_plans() -> list[str]:
    """Return the names of the plans that come with the package."""
    return sorted(file.name.removesuffix(".toml") for file in _folder().iterdir() if file.name.endswith(".toml"))


def load_plan(plan: str | Path, *, seed: int | None = None, device: str | None = None) -> Plan:
    """Read a plan that comes with the package, or a TOML file.

    Parameters
    ----------
    plan : str or path-like
        "ablation-basis", "ablation-basis-caltech", "ablation-ka", "ablation-kn", "clustering", "clustering-caltech",
        "runtime", "shuffle-rate", "shuffle-rate-caltech", "smoke", or a path.
    seed : int, optional
        Seed of the first trial; that of the plan by default.
    device : str, optional
        PyTorch device that runs the fits, such as "cuda". It becomes part of the name of a plan about seconds.

    Returns
    -------
    Plan

    Examples
    --------
    >>> import tensormvc as tm
    >>> [method.name for method in tm.bench.load_plan("ablation-kn").methods]
    ['ESTMC']
    """
    file = _folder().joinpath(f"{plan}.toml") if str(plan) in shipped_plans() else Path(plan)
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise PlanError(f"{plan}: no such file; the plans by name are {', '.join(shipped_plans())}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"{plan} cannot be read: {error}") from error
    name = file.name.removesuffix(".toml")
    if name in REPORTED:
        raise PlanError(f"{plan}: the report has a table of this name: rename the file")
    parsed = parse_plan(name, text)
    if device is not None and parsed.is_timed:
        if parsed.device is not None:
            raise PlanError(f"plan {name} measures times on {parsed.device}: leave out --device")
        parsed = parse_plan(f"{name}-{device.replace(':', '')}", f'device = "{device}"\n{text}')
    return replace(parsed, seed=parsed.seed if seed is None else seed, device=device or parsed.device)


def parse_plan(name: str, text: str) -> Plan:
    """Return the plan that a TOML text describes."""
    try:
        return _plan(name, text, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"plan {name}: this is not TOML: {error}") from error
    except PlanError as error:
        raise PlanError(f"plan {name}: {error}") from error


def _plan(name: str, text: str, table: dict[str, Any]) -> Plan:
    tables = {"methods": (_table, {}), "screen": (_screen, {"trials": None, "keep": None})}
    values = _fields(table, "", {**_keys(Plan), **tables})
    transforms, screen = [transform.name for transform in values["transforms"]], values.pop("screen")
    methods = tuple(_method(table, name, transforms) for name, table in values.pop("methods").items())
    if bool(methods) != bool(transforms):
        raise PlanError("methods and transforms go together, but the plan has only one of them")
    if not methods and not values["baselines"]:
        raise PlanError("nothing to run: add methods and transforms, or baselines")
    if screen["trials"] is not None and screen["trials"] >= values["trials"]:
        raise PlanError(f"screen.trials = {screen['trials']}: must be less than trials = {values['trials']}")
    values |= {"screen_trials": screen["trials"], "screen_keep": screen["keep"]}
    return Plan(name=name, text=text, methods=methods, **values)


def _screen(value: Any, where: str) -> dict[str, Any]:
    return _fields(value, where, dict.fromkeys(("trials", "keep"), (_integer(1), MISSING)))
