"""Arguments and options that several commands share. A dataclass is a group of options with what they stand for."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import os
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from .._registry import BASIS_NAMES, METHODS
from ._outcome import usage_error, working_on_data
from ._screen import TEXTS, progress

if TYPE_CHECKING:
    from ..datasets import Dataset
    from ..datasets._dataset import Encoding

    Method = str
    BasisName = str
else:
    Method = Literal["auto", *METHODS]
    BasisName = Literal["auto", *BASIS_NAMES]

# Parameters of the estimators that have an option of their own.
_OWN_OPTIONS = {"n_clusters": "-k", "basis": "--basis", "random_state": "--seed"}
# Parameters of --method auto.
_OF_AUTO = {"normalisation", "view_weights", "time_budget", "effort", "device", "n_jobs", "verbose"}


def argument(group: str, name: str) -> Any:
    """Return an argument; its help text is in texts.toml."""
    return typer.Argument(metavar=name, help=TEXTS["help"][group][name.lower()])


def option(group: str, *names: str, **settings: Any) -> Any:
    """Return an option; its help text is in texts.toml, by its long name."""
    long_name = max(names, key=len).removeprefix("--")
    return typer.Option(*names, help=TEXTS["help"][group][long_name], **settings)


_reading = partial(option, "reading", rich_help_panel="Reading the file")

Seed = Annotated[int, option("shared", "--seed", min=0, max=2**32 - 1)]
Json = Annotated[bool, option("shared", "--json")]
Force = Annotated[bool, option("shared", "--force", "-f")]


@dataclasses.dataclass(frozen=True)
class Source:
    """The file that a command reads, and how."""

    file: Annotated[Path, argument("reading", "FILE")]
    views: Annotated[str | None, _reading("--views", metavar="NAME,NAME")] = None
    labels: Annotated[str | None, _reading("--labels", metavar="NAME")] = None
    no_labels: Annotated[bool, _reading("--no-labels")] = False
    samples: Annotated[Literal["rows", "columns"] | None, _reading("--samples")] = None
    on: Annotated[str | None, _reading("--on", metavar="COLUMN")] = None
    join: Annotated[Literal["inner", "outer"] | None, _reading("--join")] = None

    @property
    def view_names(self) -> list[str] | None:
        """The names in ``--views``."""
        return None if self.views is None else [name.strip() for name in self.views.split(",")]

    @property
    def reading(self) -> list[str]:
        """The options that say how to read the file, for another command on it."""
        given = {name: getattr(self, name) for name in ("views", "labels", "samples", "on", "join")}
        words = [word for name, value in given.items() if value for word in (f"--{name}", value)]
        return words + ["--no-labels"] * self.no_labels

    def load(self, categories: Encoding = "auto") -> Dataset:
        """Read the file, and say what was made of its samples and columns."""
        from .. import datasets

        if self.no_labels and self.labels is not None:
            raise usage_error("--labels and --no-labels exclude each other")
        with working_on_data(), progress(f"reading {self.file.name}"):
            labels: str | Literal[False] | None = False if self.no_labels else self.labels
            data = datasets.load_dataset(
                self.file,
                views=self.view_names,
                labels=labels,
                samples=self.samples,
                on=self.on,
                join=self.join or "auto",
                categories=categories,
            )
        if data.absent:
            lacking = ", ".join(f"{name} lacks {count:,}" for name, count in data.absent.items())
            remedy = "--join inner keeps only those in all views"
            typer.echo(f"note: views have different samples; of {data.n_samples:,}, {lacking} ({remedy})", err=True)
        for name, columns in data.categories.items() if categories == "auto" else ():
            counts = ", ".join(f"{column} ({len(values):,} categories)" for column, values in columns.items())
            typer.echo(f"note: {name}: one feature for each category of {counts}", err=True)
        return data

    def refuse_as_output(self, output: str | Path) -> None:
        """Refuse to overwrite the input."""
        if os.path.exists(output) and os.path.exists(self.file) and os.path.samefile(output, self.file):
            raise usage_error(f"{output} is the input: choose another output")


@dataclasses.dataclass(frozen=True)
class Choice:
    """The method and its parameters."""

    clusters: Annotated[int | None, option("choice", "-k", "--clusters", min=1, metavar="N")] = None
    method: Annotated[Method | None, option("choice", "--method", "-m", case_sensitive=False)] = None
    basis: Annotated[BasisName | None, option("choice", "--basis", "-b", case_sensitive=False)] = None
    param: Annotated[list[str] | None, option("choice", "--param", "-p", metavar="NAME=VALUE")] = None
    view_weights: Annotated[str | None, option("choice", "--view-weights", metavar="NAME=NUMBER,…")] = None
    seed: Seed = 0

    @property
    def used_method(self) -> Method:
        """The method asked for, or the default."""
        set_for_auto = all(name.partition("=")[0].strip() in _OF_AUTO for name in self.param or ())
        return self.method or ("auto" if self.basis is None and set_for_auto else "estmc")

    def estimator(self) -> Any:
        """Return the estimator that the options describe."""
        from .. import MultiViewClustering

        if self.clusters is None and self.used_method != "auto":
            raise usage_error(TEXTS["no_number"])
        method = self.used_method
        estimator_class = MultiViewClustering if method == "auto" else resolve_name(METHODS[method])
        estimator = estimator_class(n_clusters=self.clusters or "auto")
        known = estimator.get_params()
        if "random_state" in known:
            estimator.set_params(random_state=self.seed)
        if self.basis is not None:
            if "basis" not in known:
                raise usage_error(f"{type(estimator).__name__} uses no basis: remove --basis")
            estimator.set_params(basis=self.basis)
        for parameter in self.param or ():
            estimator.set_params(**_parsed(parameter, estimator))
        if self.view_weights is not None:
            if "view_weights" not in known:
                raise usage_error(f"{type(estimator).__name__} has no weights of views: remove --view-weights")
            estimator.set_params(view_weights=_weights(self.view_weights))
        _check_penalty(estimator)
        return estimator


def _parsed(parameter: str, estimator: Any) -> dict[str, Any]:
    """Return the name and value of ``--param NAME=VALUE``; a value is a Python literal or text."""
    from ..methods import SILENT_PARAMETERS

    name, equals, text = (part.strip() for part in parameter.partition("="))
    known = estimator.get_params()
    settable = sorted(set(known) - set(_OWN_OPTIONS) - SILENT_PARAMETERS)
    if name in _OWN_OPTIONS and name in known:
        raise usage_error(f"--param {name}: use the option {_OWN_OPTIONS[name]}")
    if not equals or name not in settable:
        raise usage_error(
            f"--param {parameter}: expected NAME=VALUE, where {type(estimator).__name__} has {', '.join(settable)}"
        )
    try:
        return {name: ast.literal_eval(text)}
    except (ValueError, SyntaxError):
        return {name: text}


def _weights(text: str) -> dict[str, float]:
    """Return the weights in ``--view-weights``, by view."""
    try:
        return {(pair := part.rpartition("="))[0].strip(): float(pair[2]) for part in text.split(",")}
    except ValueError:
        raise usage_error(f"--view-weights {text}: expected NAME=NUMBER, separated by commas") from None


def _check_penalty(estimator: Any) -> None:
    from ..penalties import make_penalty

    if isinstance(name := getattr(estimator, "penalty", None), str):
        try:
            make_penalty(name)
        except ValueError as error:
            raise usage_error(f"--param penalty={name}: {error}") from error


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the fields of each dataclass among its parameters as parameters of their own."""
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hints[name] for name in hints if dataclasses.is_dataclass(hints[name])}
    parameters = []
    for name, parameter in inspect.signature(command).parameters.items():
        owner = groups.get(name, command)
        own = inspect.signature(owner).parameters.values() if name in groups else [parameter]
        types = get_type_hints(owner, include_extras=True)
        parameters += [p.replace(kind=p.KEYWORD_ONLY, annotation=types[p.name]) for p in own]

    @wraps(command)
    def run(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in dataclasses.fields(group)})
        command(**values)

    # Typer reads both.
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
