"""What a command prints: text and tables, or one JSON object, on stdout; progress on stderr if it is a terminal."""

import dataclasses
import json
import math
import os
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

TEXTS = tomllib.loads(files(__package__).joinpath("texts.toml").read_text(encoding="utf-8"))
# Width of text that goes to a file or another program.
_WIDTH = 110


def console(*, to_stderr: bool = False) -> Console:
    """Return a console without markup, since file names may contain brackets."""
    stream = sys.stderr if to_stderr else sys.stdout
    piped = not stream.isatty()
    width = _WIDTH if piped and "COLUMNS" not in os.environ else None
    return Console(file=stream, width=width, soft_wrap=piped, markup=False, highlight=False, emoji=False)


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], left: int = 1) -> Table:
    """Return a table whose first `left` columns are text and whose other columns are numbers."""
    result = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, column in enumerate(columns):
        result.add_column(column, justify="left" if number < left else "right", overflow="fold")
    for row in rows:
        result.add_row(*map(str, row))
    return result


def show(result: dict[str, Any], as_json: bool, lines: Iterable[Any], *, to_stderr: bool = False) -> None:
    """Print the result as one JSON object, or else as these lines and tables; lines that are None are left out."""
    if as_json:
        typer.echo(json.dumps(_plain(result), indent=2, allow_nan=False, ensure_ascii=False))
        return
    screen = console(to_stderr=to_stderr)
    for line in lines:
        if line is not None:
            screen.print(line)


def _plain(value: Any) -> Any:
    """Return a value as JSON knows it; numbers that JSON lacks become null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain(dataclasses.asdict(value))
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Path):
        return str(value)
    return value if value is None or isinstance(value, bool | int | str) else repr(value)


@contextmanager
def progress(title: str, total: int | None = None) -> Iterator[Callable[..., None]]:
    """Show a progress bar on a terminal; yields ``advance(done, total, remark)``, which updates it."""
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[remark]}", markup=False),
        TimeElapsedColumn(),
        console=console(to_stderr=True),
        disable=not sys.stderr.isatty(),
        transient=True,
    )
    with bar:
        task = bar.add_task(title, total=total, remark="")
        yield lambda done, total, remark: bar.update(task, completed=done, total=total, remark=remark)


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Collect the texts of warnings without repetitions, and print them on stderr at the end."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield texts
    texts += dict.fromkeys(str(warning.message) for warning in caught if issubclass(warning.category, UserWarning))
    for text in texts:
        typer.echo(f"warning: {text}", err=True)
