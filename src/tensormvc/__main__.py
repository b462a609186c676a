"""``tensormvc`` and ``python -m tensormvc``."""

from __future__ import annotations

import sys

# As in cli/_outcome.py, which cannot be imported without these packages.
MISSING_EXTRA, INTERRUPTED = 5, 130


def main() -> None:
    """Run the command line, or print how to install what it needs."""
    try:
        from .cli import run
    except ImportError as error:
        if error.name not in ("typer", "rich"):
            raise
        print(f"error: the command line needs {error.name}: pip install 'tensormvc[cli]'", file=sys.stderr)  # noqa: T201
        sys.exit(MISSING_EXTRA)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    run()


if __name__ == "__main__":
    main()
