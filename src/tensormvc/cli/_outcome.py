"""How a command ends: exit codes, and errors in one line."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import NoReturn

import typer

USAGE, BAD_DATA, BAD_OUTPUT, MISSING_EXTRA, INTERRUPTED, TERMINATED = 2, 3, 4, 5, 130, 143
_READING = "Say how to read the file with --views, --labels or --no-labels, --samples, --on and --join (see --help)."


class Failure(Exception):
    """The end of a command with a message and an exit code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def usage_error(message: str) -> Failure:
    """Return the failure for an option or argument that makes no sense."""
    return Failure(USAGE, message)


@contextmanager
def working_on_data() -> Iterator[None]:
    """Turn errors of the loaders and estimators, about the data or about a parameter, into a `Failure`."""
    from sklearn.utils._param_validation import InvalidParameterError

    from ..datasets._errors import LayoutError

    try:
        yield
    except InvalidParameterError as error:
        raise usage_error(str(error)) from error
    except LayoutError as error:
        raise Failure(BAD_DATA, f"{error}\n{_READING}") from error
    except (ValueError, TypeError, ArithmeticError, MemoryError) as error:
        raise Failure(BAD_DATA, str(error) or type(error).__name__) from error


@contextmanager
def writing_output(target: object) -> Iterator[None]:
    """Turn errors while a file is written into a `Failure`."""
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


def check_output(target: str | os.PathLike[str], force: bool, *, make_folder: bool = False) -> None:
    """Refuse, before anything is computed, a file that exists or that could not be written."""
    from .._files import check_target

    with writing_output(target):
        check_target(target, overwrite=force, make_folder=make_folder)


def with_outcome(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the exit code of its outcome."""

    @wraps(command)
    def run(*args: object, **kwargs: object) -> None:
        try:
            # All other files are written inside a `writing_output` of their own.
            with writing_output("standard output"):
                command(*args, **kwargs)
                sys.stdout.flush()
        except Failure as failure:
            _end(failure.code, str(failure))
        except ImportError as error:
            if "pip install" not in str(error):
                raise
            _end(MISSING_EXTRA, str(error))
        except KeyboardInterrupt:
            _end(INTERRUPTED, "interrupted")
        except BrokenPipeError:
            _end(1)

    return run


def _end(code: int, message: str = "") -> NoReturn:
    if message:
        typer.echo(f"error: {message}", err=True)
    try:
        sys.stdout.flush()
    except OSError:
        # The reader has gone or the disk is full; Python would try once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise typer.Exit(code)
