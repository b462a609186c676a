import json
import sqlite3

import pytest

PLAN = """
title = "k-means on a few digits"
datasets = [{ name = "digits", n_samples = 40 }]
baselines = ["kmeans-l2"]
trials = 2
"""
BROKEN = """
title = "Anchors that are no power of 2"
datasets = [{ name = "digits", n_samples = 40 }]
transforms = [{ name = "AGFT", n_anchors = 6 }]
trials = 1

[methods.ESTMC]
"""


@pytest.fixture
def plan(tmp_path):
    (tmp_path / "plan.toml").write_text(PLAN)
    return "plan.toml"


@pytest.mark.parametrize("command", ["run", "report", "paper"])
def test_help(command, run_script):
    ended = run_script("import atexit; atexit.register(lambda: print('numpy' in sys.modules))", "bench", command, "-h")
    assert ended.code == 0
    assert f"Example: tensormvc bench {command}" in ended.out
    assert "Exit codes: 0 success" in ended.out
    assert "--json" in ended.out
    assert ended.out.endswith("\nFalse\n")


def test_run(plan, run, run_program, tmp_path):
    ended = run("bench", "run", plan, "--dry-run")
    assert (ended.code, ended.out) == (0, "plan: 0 of 2 fits, about 0 s left (2 fits by a rule of thumb)\n")
    assert not (tmp_path / "plan.sqlite").exists()
    found = json.loads(run_program("bench", "run", plan, "--json").out)
    assert (found["n_fits"], found["n_before"], found["n_failed"]) == (2, 0, 0)
    ended = run("bench", "run", plan)
    assert ended.out.startswith("plan: 2 fits, 2 of them from earlier runs")


def test_report(plan, run, run_program, tmp_path):
    assert run("bench", "run", plan).code == 0
    ended = run_program("bench", "report", "plan.sqlite", "-o", "deep/report", "--json")
    assert (ended.code, ended.err) == (0, "")
    names = [name.rpartition("/")[2] for name in json.loads(ended.out)["files"]]
    several = ["settings.csv", "deviations.csv", "grid_edges.csv", "comparisons.csv", "comparisons.tex", "index.html"]
    assert names == ["plan.csv", "plan.tex", *several]
    assert "tensormvc bench run plan.toml" in (tmp_path / "deep" / "report" / "index.html").read_text()
    ended = run("bench", "report", "plan.sqlite", "-o", "deep/report")
    assert ended.code == 4
    assert "pass --force" in ended.err


RATES = """
title = "Shuffled digits"
datasets = [{ name = "digits", n_samples = 50 }]
baselines = ["front-door"]
transforms = ["FFT", "GFT(SimG)"]
shuffle_rates = [0.0, 1.0]
trials = 1

[methods.ESTMC]
tol = 0.01
"""


def test_the_paper_by_one_command(plan, run, tmp_path):
    (tmp_path / "rates.toml").write_text(RATES)
    arguments = ["bench", "paper", plan, "rates.toml", "-o", "paper"]
    ended = run(*arguments, "--dry-run")
    assert ended.code == 0
    assert "plan: k-means on a few digits\n  0 of 2 fits, about" in ended.out
    assert ended.out.splitlines()[-1].startswith("All: about ")
    assert not (tmp_path / "paper").exists()
    found = json.loads(run(*arguments, "--json").out)
    assert [(one["plan"], one["n_fits"], one["n_failed"]) for one in found["plans"]] == [
        ("plan", 2, 0),
        ("rates", 6, 0),
    ]
    folder = tmp_path / "paper"
    # The diagnostics of the paper's figures, in the formats of papers.
    for key in ("shuffle-rate", "total-variation", "spectra", "energy-ratio", "bases"):
        assert (folder / "figures" / f"{key}.pdf").read_bytes().startswith(b"%PDF")
        assert (folder / "figures" / f"{key}.png").read_bytes().startswith(b"\x89PNG")
    page = (folder / "index.html").read_text()
    assert "The paper: " in page
    assert "Basis matrices" in page
    ended = run(*arguments)
    assert ended.out.splitlines()[0].startswith("plan: 2 fits, 0 failed; ")
    assert run(*arguments, "--dry-run").out.splitlines()[-1] == "All: about 0 s. Grids may be widened, which adds fits."


def test_the_whole_paper_is_told_before_it_runs(run_program, tmp_path, shared):
    ended = run_program("bench", "paper", "--dry-run", "-o", "nowhere", "--data", shared / "data", "--json")
    assert ended.code == 0
    told = json.loads(ended.out)
    assert [one["plan"] for one in told["plans"]][:2] == ["clustering", "ablation-basis"]
    assert told["seconds"] == pytest.approx(sum(one["seconds"] for one in told["plans"]))
    assert told["seconds"] > 3600
    assert not (tmp_path / "nowhere").exists()


def test_another_seed_is_another_result(plan, run, tmp_path):
    for seed in (0, 50):
        assert run("bench", "run", plan, "--seed", seed).code == 0
    connection = sqlite3.connect(tmp_path / "plan.sqlite")
    assert connection.execute("SELECT count(*) FROM results").fetchone() == (4,)
    connection.close()


@pytest.mark.parametrize(
    ("code", "words", "arguments"),
    [
        (2, "plan wrong: colour: there is no such key", ["run", "wrong.toml"]),
        (2, "no such file; the plans by name are", ["run", "nothing.toml"]),
        (3, "there is no data set Nowhere in .", ["run", "far.toml", "--data", "."]),
        (3, "1 fits failed, the first with: ValueError", ["run", "broken.toml"]),
        (4, "is not a results file", ["run", "plan.toml", "-o", "wrong.toml"]),
        (4, "no/where.sqlite", ["run", "plan.toml", "-o", "no/where.sqlite"]),
        (3, "there is no such results file", ["report", "nothing.sqlite"]),
        (3, "is not a results file", ["report", "wrong.toml"]),
    ],
)
def test_failures(code, words, arguments, plan, run, tmp_path):
    (tmp_path / "broken.toml").write_text(BROKEN)
    (tmp_path / "wrong.toml").write_text(PLAN + "colour = 1\n")
    (tmp_path / "far.toml").write_text(PLAN.replace('{ name = "digits", n_samples = 40 }', '"Nowhere"'))
    ended = run("bench", *arguments)
    assert ended.code == code
    assert words in ended.err
