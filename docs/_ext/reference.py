"""Pages of the reference that come from the package itself: public names, and the command line."""

import inspect
import re
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name

from tensormvc._registry import GRAPHS, METHODS, TRANSFORMS

# Sections of the reference. A module stands for all of its names that no section before has listed.
SECTIONS = {
    "Clustering": ("tensormvc.MultiViewClustering", "tensormvc.impute_views", "tensormvc.auto"),
    "AnnData and MuData": ("tensormvc.tl",),
    "Order of the rows": ("tensormvc.audit_order", "tensormvc.shuffle_sweep", "tensormvc.audit", "tensormvc.testing"),
    "Model selection": ("tensormvc.estimate_n_clusters", "tensormvc.select_model", "tensormvc.selection"),
    "Explanations": ("tensormvc.explain",),
    "Model files": ("tensormvc.save", "tensormvc.load", "tensormvc.persistence"),
    "Data": ("tensormvc.datasets",),
    "Metrics": ("tensormvc.metrics",),
    "Figures": ("tensormvc.plotting",),
    "Reports": ("tensormvc.report",),
    "Tensor methods": tuple(METHODS.values()),
    "Transforms along the samples": tuple(TRANSFORMS.values()),
    "Graphs over the samples": (*GRAPHS.values(), "tensormvc.ideal_graph"),
    "Penalties": ("tensormvc.penalties",),
    "Tensor algebra": ("tensormvc.algebra",),
    "Shrinkage": ("tensormvc.shrinkage",),
    "Diagnostics": ("tensormvc.diagnostics",),
    "Published programs": ("tensormvc.published",),
    "Benchmark": ("tensormvc.bench",),
}


# Scripts of the gallery that come first; extensions come last.
FIRST = ("plot_finding.py", "plot_map.py", "plot_consensus.py", "plot_cluster_features.py", "plot_cluster_number.py")


class GalleryOrder:
    """Sort the scripts of the gallery: what a user asks first, what explains it, and extensions."""

    def __init__(self, folder: str) -> None:
        del folder

    def __call__(self, name: str) -> tuple[int, str]:
        """Return the key of a script."""
        return FIRST.index(name) if name in FIRST else len(FIRST) + name.startswith("custom_"), name


def public_names() -> dict[str, list[str]]:
    """Return the public names by section, each at its shortest path and once."""
    listed: list[object] = []
    sections: dict[str, list[str]] = {}
    for title, entries in SECTIONS.items():
        names = sections[title] = []
        for entry in entries:
            path = f"tensormvc.{entry.partition(':')[2]}" if ":" in entry else entry  # an entry of the registry
            value = resolve_name(path)
            members = [f"{path}.{name}" for name in value.__all__] if inspect.ismodule(value) else [path]
            for name in members:
                if all(resolve_name(name) is not other for other in listed):
                    listed.append(resolve_name(name))
                    names.append(name)
    return {title: names for title, names in sections.items() if names}


def is_foreign(app, what, name, obj, skip, options):
    """Leave members out that come from scikit-learn or the standard library, except what everybody calls."""
    if name == "fit_predict":
        return None
    module = getattr(inspect.unwrap(getattr(obj, "fget", None) or obj), "__module__", None)
    return True if module and not module.startswith("tensormvc") else None


def write(folder: Path) -> None:
    """Write the list of public names and the reference of the command line into a folder."""
    folder.mkdir(exist_ok=True)
    for name, text in {"index.rst": _names_page(), "command_line.md": _commands_page()}.items():
        path = folder / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:  # Sphinx builds again what is newer
            path.write_text(text, encoding="utf-8")


def _names_page() -> str:
    lines = ["API reference", "=============", "", "Every public name, with an example that runs.", ""]
    lines += [".. code-block:: python", "", "   import tensormvc as tm", "", ".. currentmodule:: tensormvc", ""]
    for title, names in public_names().items():
        lines += ["", title, "-" * len(title), ""]
        modules = {name.rpartition(".")[0] for name in names} - {"tensormvc"}
        for module in sorted(modules):
            lines += [f"{(inspect.getdoc(import_module(module)) or '').splitlines()[0]}", ""]
        names = [name.removeprefix("tensormvc.") for name in names]
        lines += [
            ".. autosummary::",
            "   :toctree: generated",
            "   :nosignatures:",
            "",
            *(f"   {name}" for name in names),
            "",
        ]
    return "\n".join(lines)


def _commands_page() -> str:
    import typer

    from tensormvc.cli import app

    program = typer.main.get_command(app)
    context = program.make_context("tensormvc", [], resilient_parsing=True)
    lines = ["# Command line reference", "", "From the program itself: what `tensormvc COMMAND --help` prints."]
    lines += ["[The command line](../command_line.md) is the guide, with examples.", ""]
    for name, command in program.commands.items():
        group = getattr(command, "commands", None)
        for path, part in [(f"{name} {sub}", part) for sub, part in group.items()] if group else [(name, command)]:
            lines += _command(path, part, context)
    exit_codes = app.info.epilog.strip().removeprefix("Exit codes: ").rstrip(".")
    lines += ["## Exit codes", "", "| code | meaning |", "|---|---|"]
    lines += ["| {} | {} |".format(*code.strip().split(" ", 1)) for code in exit_codes.split(";")]
    return "\n".join([*lines, ""])


def _command(path, command, parent) -> list[str]:
    context = type(parent)(command, info_name=f"tensormvc {path}")
    usage = re.sub(r"[{}]", "", command.get_usage(context).removeprefix("Usage: "))
    lines = [f"## `tensormvc {path}`", "", "```text", " ".join(usage.split()), "```", ""]
    for paragraph in command.help.split("\n\n"):
        example = paragraph.strip().partition("Example: ")[2]
        lines += ["```console", f"$ {example}", "```", ""] if example else [_with_code(paragraph.strip()), ""]
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record:
            name, text = (" ".join(part.split()) for part in record)
            name = name.replace(" <path>", "").replace("<int range>", "N").replace("<float range>", "X")
            lines += [f"`{name}`", f": {_with_code(text)}", ""]
    return lines


def _with_code(text: str) -> str:
    """Mark options, so that their hyphens stay two."""
    return re.sub(r"(?<![\w-])(--?[a-z][a-z-]*)", r"`\1`", text)
