"""Run the tutorials that need data or minutes, docs/tutorials/*.py, and write them with their outputs as pages.

A tutorial is a script whose docstring begins with its title; ``# %%`` begins a part, comments after it are text.
"""

import contextlib
import io
import re
import sys
import textwrap
import warnings
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt

FOLDER = Path(__file__).parent / "tutorials"
DOTS_PER_INCH = 110


def main(*names: str) -> None:
    """Run the tutorials of these names, or all."""
    for script in sorted(FOLDER.glob("*.py")):
        if not names or script.stem in names:
            page = script.with_suffix(".md")
            page.write_text(run(script), encoding="utf-8")
            print(page.relative_to(FOLDER.parent))


def run(script: Path) -> str:
    """Return a tutorial as Markdown: text, code, and what the code prints and draws."""
    head, *parts = re.split(r"^# %%.*\n", script.read_text(encoding="utf-8"), flags=re.MULTILINE)
    title, _, words = head.strip().strip('"').strip().split("\n", 2)
    note = f"This page was written by running {{download}}`{script.name}`; it is not run when the site is built."
    lines = [f"# {title}", "", words.strip(), "", f":::{{note}}\n{note}\n:::", ""]
    names = {"__name__": "__main__", "__file__": str(script)}
    for number, part in enumerate(parts):
        text = re.match(r"(# ?.*\n)*", part)[0]
        code = part[len(text) :].strip()
        words = textwrap.dedent(re.sub(r"^# ?", "", text, flags=re.MULTILINE)).strip()
        lines += [words, ""]
        if code:
            lines += ["```python", code, "```", ""]
            lines += outputs(code, names, FOLDER / "figures" / f"{script.stem}_{number}.png", words)
    return "\n".join(lines).rstrip() + "\n"


def outputs(code: str, names: dict, path: Path, words: str) -> list[str]:
    """Run code; return what it printed as a block, and its figure as an image."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        exec(compile(code, "<tutorial>", "exec"), names)
    # What a reader would see, without the notes of other packages to their developers.
    ours = [str(warning.message) for warning in warned if "tensormvc" in warning.filename]
    printed.write("".join(f"UserWarning: {message}\n" for message in ours))
    lines = ["```text", printed.getvalue().rstrip(), "```", ""] if printed.getvalue().strip() else []
    for figure in map(plt.figure, plt.get_fignums()):
        path.parent.mkdir(exist_ok=True)
        figure.savefig(path, dpi=DOTS_PER_INCH, metadata={"Software": None})
        caption = " ".join(words.split("\n\n")[-1].split(". ")[0].split()).rstrip(".").replace("`", "")
        lines += [f"![{caption}](figures/{path.name})", ""]
    plt.close("all")
    return lines


if __name__ == "__main__":
    main(*sys.argv[1:])
