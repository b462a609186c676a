"""What a command shows: text and tables on stdout, or one JSON object; progress on stderr if that is a terminal."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

# Of text that goes to a file or another program.
_WIDTH = 110


def console(*, to_stderr: bool = False) -> Console:
    """Return a console without markup: names of files may hold brackets."""
    stream = sys.stderr if to_stderr else sys.stdout
    piped = not stream.isatty()
    width = _WIDTH if piped and "COLUMNS" not in os.environ else None
    return Console(file=stream, width=width, soft_wrap=piped, markup=False, highlight=False, emoji=False)


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], left: int = 1) -> Table:
    """Return a table; the first `left` columns are text, the others numbers."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, column in enumerate(columns):
        made.add_column(column, justify="left" if number < left else "right", overflow="fold")
    for row in rows:
        made.add_row(*map(str, row))
    return made


def print_json(result: dict[str, Any]) -> None:
    """Print one JSON object; numbers that JSON lacks become null."""
    typer.echo(json.dumps(_plain(result), indent=2, allow_nan=False, ensure_ascii=False))


def _plain(value: Any) -> Any:
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
    """Show a bar on the terminal, and yield a function of how much is done, a remark and, if it changes, the total."""
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
        yield lambda done, remark, total=None: bar.update(task, completed=done, total=total, remark=remark)


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Collect warnings as texts, each once, and print them on stderr at the end."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield texts
    texts += dict.fromkeys(str(warning.message) for warning in caught if issubclass(warning.category, UserWarning))
    for text in texts:
        typer.echo(f"warning: {text}", err=True)
