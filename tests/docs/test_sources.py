"""The sources of the site hold together: names have pages, links lead somewhere, nothing comes from elsewhere."""

import importlib.util
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from pkgutil import resolve_name

import pytest

import tensormvc as tm

from ..test_public_names import public_objects

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [*ROOT.glob("*.md"), *DOCS.glob("*.md"), *DOCS.glob("guide/*.md"), *DOCS.glob("tutorials/*.md")]
PAGES += [*DOCS.glob("results/*.md"), ROOT / "benchmarks" / "README.md"]
# Written when the site is built.
BUILT = ("docs/api/", "docs/gallery/", "docs/tutorials/built/")


@pytest.fixture(scope="module")
def reference():
    spec = importlib.util.spec_from_file_location("reference", DOCS / "_ext" / "reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_public_name_has_a_page(reference):
    documented = [resolve_name(name) for names in reference.public_names().values() for name in names]
    assert len(set(map(id, documented))) == len(documented)
    missing = [param.id for param in public_objects() if all(param.values[0] is not obj for obj in documented)]
    assert missing == []


def test_command_line_reference_has_every_option(reference):
    pytest.importorskip("typer", reason="typer is not installed (extra 'cli')")
    page = reference._commands_page()
    for command in ("cluster", "predict", "explain", "audit", "info", "convert", "demo", "bench run", "bench report"):
        assert f"## `tensormvc {command}`" in page
    for option in ("--view-weights NAME=NUMBER", "--scheduler ADDRESS", "--min-confidence", "--dry-run"):
        assert f"`{option}" in page, option
    assert "| 5 | an optional package is missing |" in page


def without_code(text):
    return re.sub(r"^ *(```+|:::+)(?!\{(?:figure|grid)).*?^ *\1$|`[^`\n]+`", "", text, flags=re.MULTILINE | re.DOTALL)


def slug(heading):
    """The anchor of a heading, as GitHub and MyST make it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower().replace("`", "")).replace(" ", "-")


def anchors(path):
    return {slug(heading) for heading in re.findall(r"^#+ (.*)$", path.read_text("utf-8"), flags=re.MULTILINE)}


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links(page):
    text = page.read_text("utf-8")
    links = re.findall(r"\]\(([^)\s]+)\)", without_code(text))
    links += re.findall(r"^```\{(?:figure|include)\} (\S+)$", text, flags=re.MULTILINE)
    for link in links:
        target, _, anchor = link.partition("#")
        if target.startswith("https://"):
            continue
        path = (page.parent / target).resolve() if target else page
        if path.as_posix().startswith(tuple(f"{ROOT.as_posix()}/{folder}" for folder in BUILT)):
            continue
        assert path.exists(), link
        if anchor:
            assert anchor in anchors(path), link


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.stem)
def test_pages_of_contents_and_cards(page):
    text = page.read_text("utf-8")
    listed = [
        entry for block in re.findall(r"```\{toctree\}\n(.*?)```", text, flags=re.DOTALL) for entry in block.split("\n")
    ]
    listed = [entry for entry in listed if entry and not entry.startswith(":")]
    for entry in [*listed, *re.findall(r"^:link: (\S+)$", text, flags=re.MULTILINE)]:
        path = (page.parent / entry).resolve()
        built = path.as_posix().startswith(tuple(f"{ROOT.as_posix()}/{folder}" for folder in BUILT))
        assert built or path.with_suffix(".md").is_file(), entry


def test_pictures_have_words():
    pictures = [
        (page.name, words) for page in PAGES for words in re.findall(r"!\[([^\]]*)\]\(", page.read_text("utf-8"))
    ]
    assert pictures
    assert [name for name, words in pictures if len(words) < 15] == []


def test_nothing_comes_from_elsewhere():
    """Pages, style sheets and scripts load nothing over the network; nothing is looked up when the site is built."""
    for path in [*DOCS.rglob("*.md"), *DOCS.glob("_static/site.*"), *DOCS.glob("_templates/**/*.*")]:
        loaded = re.findall(r"(?:src=\"|url\(|@import |!\[[^\]]*\]\()[\"']?https?:[^\s)]+", path.read_text("utf-8"))
        assert loaded == [], path
    settings = runpy.run_path(str(DOCS / "conf.py"))
    assert settings["release"] == tm.__version__
    assert not [name for name in settings["extensions"] if "intersphinx" in name or "mathjax" in name]
    assert "http" not in (DOCS / "conf.py").read_text("utf-8")


def test_shipped_tutorials_have_the_code_of_their_scripts():
    scripts = sorted(DOCS.glob("tutorials/*.py"))
    assert [script.stem for script in scripts] == ["auditing", "million_rows", "single_cells"]
    for script in scripts:
        page = script.with_suffix(".md").read_text("utf-8")
        code = [
            part.strip() for part in re.split(r"^# %%.*\n(?:#.*\n)*", script.read_text("utf-8"), flags=re.MULTILINE)
        ]
        assert [part for part in code[1:] if part not in page] == []


@pytest.mark.slow
def test_builds_without_a_warning(tmp_path):
    """All pages but those that the scripts of the gallery write; `make docs` builds these, too."""
    for module in ("sphinx", "pydata_sphinx_theme", "sphinx_gallery", "myst_parser", "numpydoc", "sphinx_design"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed (extra 'docs')")
    for name in ("docs", "examples", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"):
        source = ROOT / name
        if source.is_dir():
            left_out = shutil.ignore_patterns("_build", "api", "gallery", "built", "__pycache__")
            shutil.copytree(source, tmp_path / name, ignore=left_out)
        else:
            shutil.copy(source, tmp_path / name)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    command += [str(tmp_path / "docs"), str(tmp_path / "html")]
    environment = {**os.environ, "TENSORMVC_GALLERY": "show"}
    built = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert built.returncode == 0, built.stderr
    for page in (tmp_path / "html").rglob("*.html"):
        assert re.findall(r"(?:src|<link[^>]+href)=\"https?:[^\"]+", page.read_text("utf-8")) == [], page
