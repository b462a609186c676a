"""``tensormvc`` and ``python -m tensormvc``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line, or say what it lacks."""
    try:
        from .cli import run
    except ImportError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit(f"error: the command line needs {error.name}: pip install 'tensormvc[cli]'")
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
