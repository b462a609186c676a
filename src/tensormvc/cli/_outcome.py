"""How a command ends: exit codes, and errors as one line."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

import typer

USAGE, BAD_DATA, BAD_OUTPUT, MISSING_EXTRA, INTERRUPTED, TERMINATED = 2, 3, 4, 5, 130, 143
EXIT_CODES = (
    "Exit codes: 0 done; 1 unexpected error; 2 wrong usage; 3 the data cannot be read or clustered; 4 the output "
    "exists or cannot be written; 5 an optional package is missing; 130 interrupted; 143 terminated."
)
# What the functions of Python call the options, as their messages have it.
_OPTIONS = {
    "views=": "--views NAME,NAME",
    "labels=False": "--no-labels",
    "labels=NAME": "--labels NAME",
    "samples=": "--samples rows|columns",
    " on=": "--on NAME",
    "join=": "--join inner|outer",
    "basis=": "--basis NAME",
    "n_clusters=": "-k N",
    "max_iter": "--param max_iter=N",
}

P = ParamSpec("P")
R = TypeVar("R")


class Failure(Exception):
    """The end of a command with a message and an exit code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def say_error(message: str) -> None:
    """Print an error on stderr."""
    typer.echo(f"error: {message}", err=True)


def usage_error(message: str) -> Failure:
    """Return the failure of an option or argument that makes no sense."""
    return Failure(USAGE, message)


@contextmanager
def working_on_data() -> Iterator[None]:
    """Turn what the loaders and estimators raise about the data, or about a parameter, into a `Failure`."""
    from sklearn.utils._param_validation import InvalidParameterError

    try:
        yield
    except InvalidParameterError as error:
        raise usage_error(str(error)) from error
    except (ValueError, TypeError, MemoryError) as error:
        message = str(error) or type(error).__name__
        options = [option for name, option in _OPTIONS.items() if name in message]
        hint = f"\nOptions of the command: {', '.join(options)}" if options else ""
        raise Failure(BAD_DATA, message + hint) from error


@contextmanager
def writing_output(target: object) -> Iterator[None]:
    """Turn what goes wrong while a file is written into a `Failure`."""
    try:
        yield
    except BrokenPipeError:
        raise
    except FileExistsError as error:
        raise Failure(BAD_OUTPUT, f"{error}: pass --force to replace it") from error
    except OSError as error:
        reason = error.strerror or str(error)
        message = reason if str(target) in reason else f"{target} cannot be written: {reason}"
        raise Failure(BAD_OUTPUT, message) from error


def with_outcome(command: Callable[P, R]) -> Callable[P, R]:
    """Let a command end with the exit code of what happened."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            # What else goes wrong with a file has been turned into a failure before.
            with writing_output("standard output"):
                result = command(*args, **kwargs)
                sys.stdout.flush()
            return result
        except Failure as failure:
            say_error(str(failure))
            _forget_what_cannot_be_written()
            raise typer.Exit(failure.code) from failure
        except ImportError as error:
            if "pip install" not in str(error):
                raise
            say_error(str(error))
            raise typer.Exit(MISSING_EXTRA) from error
        except KeyboardInterrupt:
            say_error("interrupted")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            _forget_what_cannot_be_written()
            raise typer.Exit(1) from None

    return run


def _forget_what_cannot_be_written() -> None:
    """Send what is left for stdout nowhere if its reader has gone or its disk is full: Python would try at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
