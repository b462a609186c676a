"""Run the gallery, examples/plot_*.py, and write its figures to docs/figures."""

import runpy
import sys
import warnings
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt

ROOT = Path(__file__).parents[1]
DOTS_PER_INCH = 140


def main(folder: Path = ROOT / "docs" / "figures") -> None:
    """Write the figure of every example into a folder, as a PNG with the example's name."""
    folder.mkdir(parents=True, exist_ok=True)
    examples = ROOT / "examples"
    for example in sorted(examples.glob("plot_*.py")):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "FigureCanvasAgg is non-interactive")
            runpy.run_path(str(example), run_name="__main__")
        path = folder / f"{example.stem.removeprefix('plot_')}.png"
        # Without the version of matplotlib in it, the same picture is the same file.
        plt.gcf().savefig(path, dpi=DOTS_PER_INCH, metadata={"Software": None})
        plt.close("all")
        print(f"{path.relative_to(folder.parent)}  {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
