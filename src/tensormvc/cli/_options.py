"""The options that several commands share, and what is made of them."""

from __future__ import annotations

import ast
import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._registry import BASIS_NAMES
from ._outcome import usage_error, working_on_data
from ._screen import progress

if TYPE_CHECKING:
    from ..datasets import Dataset

_READING = "Reading the file"


class Method(StrEnum):
    """The estimators."""

    auto = "auto"
    estmc = "estmc"
    asretr = "asretr"
    tsvdmvc = "tsvdmvc"
    tlspnm = "tlspnm"
    tlrlf4mvc = "tlrlf4mvc"
    gmc = "gmc"


# The transforms along the samples.
BasisName = StrEnum("BasisName", {name.replace("-", "_"): name for name in ("auto", *BASIS_NAMES)})  # type: ignore[misc]


class Samples(StrEnum):
    """Where the samples are in a matrix."""

    rows = "rows"
    columns = "columns"


class Join(StrEnum):
    """What to do when views name different samples."""

    inner = "inner"
    outer = "outer"


File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        show_default=False,
        help="A .mat, .npz, .h5mu, .h5ad, .h5, .csv or .parquet file, or a folder with a CSV or Parquet file a view.",
    ),
]
Clusters = Annotated[
    int | None,
    typer.Option(
        "-k", "--clusters", min=1, metavar="N", show_default=False, help="Number of clusters; looked for by default."
    ),
]
MethodOption = Annotated[
    Method | None,
    typer.Option(
        "--method",
        "-m",
        case_sensitive=False,
        show_default=False,
        help="Method; auto by default, which joins several, or estmc where a basis or a parameter is given.",
    ),
]
BasisOption = Annotated[
    BasisName | None,
    typer.Option(
        "--basis",
        "-b",
        case_sensitive=False,
        show_default=False,
        help="Transform along the samples; auto by default: gft-sum up to 4 000 samples and agft beyond. fft, dct, "
        "haar and random depend on the order of the rows.",
    ),
]
Parameters = Annotated[
    list[str] | None,
    typer.Option(
        "--param", "-p", metavar="NAME=VALUE", help="A parameter of the method, such as alpha=0.1; can be repeated."
    ),
]
Seed = Annotated[int, typer.Option("--seed", min=0, max=2**32 - 1, help="Seed of everything that is random.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Force = Annotated[bool, typer.Option("--force", "-f", help="Replace output that is there already.")]
ViewNames = Annotated[
    str | None,
    typer.Option("--views", metavar="NAME,NAME", rich_help_panel=_READING, help="Names of the views in the file."),
]
LabelName = Annotated[
    str | None, typer.Option("--labels", metavar="NAME", rich_help_panel=_READING, help="Name of the known classes.")
]
NoLabels = Annotated[bool, typer.Option("--no-labels", rich_help_panel=_READING, help="Do not look for known classes.")]
SamplesOption = Annotated[
    Samples | None, typer.Option("--samples", rich_help_panel=_READING, help="Where the samples are in a matrix.")
]
On = Annotated[
    str | None, typer.Option("--on", metavar="COLUMN", rich_help_panel=_READING, help="Id column of the tables.")
]
JoinOption = Annotated[
    Join | None,
    typer.Option("--join", rich_help_panel=_READING, help="Which samples to keep where the views name different ones."),
]


def load(
    file: Path,
    views: str | None,
    labels: str | None,
    no_labels: bool,
    samples: Samples | None,
    on: str | None,
    join: Join | None,
) -> Dataset:
    """Load a file as the options say."""
    from .. import datasets

    if no_labels and labels is not None:
        raise usage_error("--labels and --no-labels exclude each other")
    with working_on_data(), progress(f"reading {file.name}"):
        return datasets.load_dataset(
            file,
            views=None if views is None else [name.strip() for name in views.split(",")],
            labels=False if no_labels else labels,
            samples=None if samples is None else samples.value,
            on=on,
            join=None if join is None else join.value,
        )


def features_note(file: Path) -> str | None:
    """Return what stands beside results on features that were computed anew, which the name of a file tells."""
    if not file.stem.endswith("_recomputed"):
        return None
    return "The features were computed anew: results are not those of the published data set."


def refuse_same_file(file: Path, output: str | Path) -> None:
    """Refuse to write over the data."""
    if os.path.exists(output) and os.path.exists(file) and os.path.samefile(output, file):
        raise usage_error(f"{output} is the file that is read: choose another for the output")


def default_method(basis: BasisName | None, parameters: list[str] | None) -> Method:
    """Return the method for those who name none: who sets a basis or parameters does not want all of it chosen."""
    return Method.auto if basis is None and not parameters else Method.estmc


def n_clusters_of(clusters: int | None, method: Method) -> int | str:
    """Return the number of clusters, which known classes never decide."""
    if clusters is None and method is not Method.auto:
        raise usage_error(
            f"say how many clusters there shall be: -k N; only --method {Method.auto} looks for a number. Known "
            "classes in a file are never used for it; they only measure the result."
        )
    return "auto" if clusters is None else clusters


# Parameters of the estimators that have options of their own, or no use on the command line.
_OWN_OPTIONS = {"n_clusters": "-k", "basis": "--basis", "random_state": "--seed"}
_NOT_SETTABLE = ("view_sizes", "verbose", "callback", "progress", "keep")


def make_estimator(
    method: Method, basis: BasisName | None, n_clusters: int | str, seed: int, parameters: list[str] | None
) -> Any:
    """Return the estimator that the options describe."""
    from .. import MultiViewClustering, methods

    classes = {name.lower(): getattr(methods, name) for name in methods.__all__} | {"auto": MultiViewClustering}
    made = classes[method.value](n_clusters=n_clusters)
    known = set(made.get_params())
    if "random_state" in known:
        made.set_params(random_state=seed)
    if basis is not None:
        if "basis" not in known:
            raise usage_error(f"{type(made).__name__} uses no basis: leave --basis out")
        made.set_params(basis=basis.value)
    settable = sorted(known - set(_OWN_OPTIONS) - set(_NOT_SETTABLE))
    for parameter in parameters or ():
        name, equals, text = parameter.partition("=")
        name = name.strip()
        if name in _OWN_OPTIONS and name in known:
            raise usage_error(f"--param {name}: there is the option {_OWN_OPTIONS[name]} for it")
        if not equals or name not in settable:
            raise usage_error(
                f"--param {parameter}: expected NAME=VALUE; {type(made).__name__} has {', '.join(settable)}"
            )
        made.set_params(**{name: _value(text)})
    _check_penalty(made)
    return made


def _value(text: str) -> Any:
    """Return the number, None or text that is meant."""
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError):
        return text.strip()


def _check_penalty(estimator: Any) -> None:
    from ..penalties import make_penalty

    if isinstance(name := getattr(estimator, "penalty", None), str):
        try:
            make_penalty(name)
        except ValueError as error:
            raise usage_error(f"--param penalty={name}: {error}") from error
