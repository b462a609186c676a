"""The wheel and the sdist install and import; the lowest supported versions work."""

import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import tensormvc as tm

ROOT = Path(__file__).parents[1]
CORE_TESTS = ["test_algebra.py", "test_bases.py", "test_metrics.py", "test_penalties.py", "test_shrinkage.py"]


def run(*command, **kwargs):
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **kwargs)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    """Build the sdist, and the wheel from it, with the build backend that is installed here."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    return {path.suffix: path for path in folder.iterdir()}


@pytest.mark.parametrize("suffix", [".whl", ".gz"])
def test_installs_and_imports(distributions, suffix, tmp_path):
    """Installed by itself into an empty folder, with the dependencies of this environment, outside the checkout."""
    target = tmp_path / "site"
    command = ["--no-deps", "--no-build-isolation", "--target", target, distributions[suffix]]
    run(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *command)
    assert (target / "tensormvc" / "py.typed").is_file()
    assert (target / "tensormvc" / "report" / "page.css").is_file()
    for name in ("plans/smoke.toml", "paper.csv", "table.js"):
        assert (target / "tensormvc" / "bench" / name).is_file()
    code = "import tensormvc as tm; tm.testing.check_basis('fft'); print(tm.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(target)}
    assert str(target) in run(sys.executable, "-P", "-c", code, cwd=tmp_path, env=environment)


def test_the_wheel_is_small_and_says_what_it_is(distributions):
    wheel = distributions[".whl"]
    assert wheel.stat().st_size < 1_000_000
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = next(archive.read(name).decode() for name in names if name.endswith(".dist-info/METADATA"))
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert {name.split("/")[0] for name in names} == {"tensormvc", f"tensormvc-{tm.__version__}.dist-info"}
    assert f"Version: {tm.__version__}\n" in metadata
    assert "License-Expression: BSD-3-Clause\n" in metadata
    assert "License ::" not in metadata
    assert "Project-URL" not in metadata
    for version in ("3.11", "3.12", "3.13", "3.14"):
        assert f"Classifier: Programming Language :: Python :: {version}\n" in metadata


def test_one_version_everywhere():
    assert f"version: {tm.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"## {tm.__version__}\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".whl", ".gz"])
@pytest.mark.parametrize("extras", ["", "[cli,plot,io]"])
def test_installs_into_an_empty_environment(distributions, suffix, extras, tmp_path):
    """With its dependencies, and nothing else: a clustering in Python, and on the command line."""
    environment = tmp_path / "venv"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    command = [
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        f"{distributions[suffix]}{extras}",
    ]
    installed = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if installed.returncode and "Could not find a version" in installed.stderr:
        pytest.skip("cannot download the dependencies: no package index")
    assert installed.returncode == 0, installed.stderr
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    code = (
        "import tensormvc as tm; views, y = tm.datasets.load_digits_views(100); "
        "tm.datasets.save_views('digits.npz', views, y); "
        "print(len(tm.MultiViewClustering(10, random_state=0).fit(views).labels_))"
    )
    assert run(python, "-P", "-c", code, cwd=tmp_path, env=clean) == "100\n"
    program = environment / "bin" / "tensormvc"
    if extras:
        run(program, "cluster", "digits.npz", "-k", 10, "-o", "labels.csv", "--report", "page", cwd=tmp_path, env=clean)
        assert len((tmp_path / "labels.csv").read_text(encoding="utf-8").splitlines()) == 101
    else:
        ended = subprocess.run([program, "--help"], capture_output=True, text=True, check=False, env=clean)
        assert ended.returncode == 5
        assert "tensormvc[cli]" in ended.stderr


def lowest_requirements():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [requirement.replace(">=", "==") for requirement in project["dependencies"]]


def test_no_upper_pins():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for requirement in [*project["dependencies"], *(r for extra in extras.values() for r in extra)]:
        assert not re.search(r"<|==|~=", requirement), requirement


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the lowest versions have wheels for Python 3.11 only")
def test_lowest_supported_versions(distributions, tmp_path):
    environment = tmp_path / "venv"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]
    download = subprocess.run(
        list(map(str, [*install, *lowest_requirements(), "pytest", "hypothesis"])),
        capture_output=True,
        text=True,
        check=False,
    )
    if download.returncode and "No matching distribution" not in download.stderr:
        pytest.skip("cannot download the lowest versions: no package index")
    assert download.returncode == 0, download.stderr
    run(*install, "--no-deps", distributions[".whl"])
    tests = [ROOT / "tests" / name for name in CORE_TESTS]
    output = run(python, "-P", "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", ROOT, *tests, cwd=tmp_path)
    assert " passed" in output
