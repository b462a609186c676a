"""Grids that are widened until the best setting is inside, or a bound is reached."""

import csv
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensormvc as tm
from tensormvc.bench._cells import all_jobs, cells, kept, tried
from tensormvc.bench._ladders import ladder, number
from tensormvc.bench._plan import PlanError, parse_plan
from tensormvc.bench._report import grid_edges_csv
from tensormvc.bench._store import Outcome
from tensormvc.bench._tables import ORACLE

from .conftest import FACTS, fill

WIDE = """
title = "Widened"
datasets = ["MSRCv1"]
transforms = ["FFT", "GFT(SimG)"]
trials = 2
defaults = false
screen = { trials = 1, keep = 1 }

[methods.ESTMC]
alpha = [0.5, 1.0, 2.0]
n_latent = ["2c", "4c"]
bounds = { alpha = [0.01, 100.0], n_latent = ["1c", "16c"] }
"""


def peak_at(alpha, latent=28):
    """Accuracy that falls with the distance to one setting, on a logarithmic scale."""

    def accuracy(job):
        found = job.description["parameters"]
        steps = abs(math.log2(found["alpha"] / alpha)) + abs(math.log2(found["n_latent"] / latent))
        return 0.9 - 0.05 * steps

    return accuracy


@given(st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=5, unique=True), st.floats(1, 100), st.floats(1, 100))
def test_a_ladder_goes_on_to_its_bounds(values, below, above):
    low, high = min(values) / below, max(values) * above
    rungs = ladder(values, [low, high])
    assert list(rungs) == sorted(set(rungs))
    assert (rungs[0], rungs[-1]) == (low, high)
    assert set(values) <= set(rungs)
    outside = [rung for rung in rungs if rung > max(values)]
    # Every step but the last one, which ends at the bound, is at least a doubling up to rounding to two digits.
    for lower, upper in zip([max(values), *outside[:-2]], outside[:-1], strict=False):
        assert upper >= 1.9 * lower


def test_ladders_of_other_forms():
    assert ladder([16, 32], [4, 100]) == (4, 8, 16, 32, 64, 100)
    assert all(type(rung) is int for rung in ladder([16, 32], [4, 100]))
    assert ladder(["2c", "4c", "6c", "8c"], ["1c", "32c"]) == ("1c", "2c", "4c", "6c", "8c", "16c", "32c")
    assert ladder([0.0, 1.0]) == ladder([1.0]) == ladder(["etr", "log"]) == ladder([True, False]) == ()
    assert number(True) is None


def test_no_more_anchors_than_samples_are_tried():
    plan = tm.bench.load_plan("clustering")
    for n_samples, most in [(210, 128), (500, 256), (544, 512), (9000, 512)]:
        facts = {data.name: replace(FACTS["NGs"], n_samples=n_samples) for data in plan.datasets}
        rungs = [cell.ladders["n_kernel_anchors"] for cell in cells(plan, facts) if cell.method == "TLRLF4MVC"]
        assert {(one[0], one[-1]) for one in rungs} == {(16, most)}
        assert {rung.bit_count() for one in rungs for rung in one} == {1}, "powers of two"


@pytest.mark.parametrize("alpha", [0.02, 0.2, 1.0, 30.0])
@pytest.mark.parametrize("latent", [7, 14, 56])
def test_the_peak_is_found_and_bracketed(tmp_path, alpha, latent):
    made = fill(tmp_path / "made.sqlite", WIDE, peak_at(alpha, latent))
    assert made.keys <= made.outcomes.keys()
    for cell in made.cells:
        best = made.find(*cell.group, ORACLE)
        found = best.setting.described["parameters"]
        rungs = cell.ladders["alpha"]
        nearest = min(rungs, key=lambda rung: abs(math.log2(rung / alpha)))
        assert (found["alpha"], found["n_latent"]) == (nearest, latent)
        labels = {setting.label for setting in best.tried}
        assert all(beside.label in labels for name in cell.ladders for beside in cell.beside(best.setting, name))
        assert len(best.tried) < 40, "the search goes along the ladders and does not fill the plane"
        assert len(best.trials) == 2
    assert not [edge for edge in made.edges if edge.parameter == "alpha"]
    # The number of clusters itself is the bound of the latent dimension.
    assert len(made.edges) == (2 if latent == 7 else 0)


def test_what_ends_at_a_bound_is_listed(tmp_path):
    made = fill(tmp_path / "made.sqlite", WIDE, lambda job: 0.5 + job.description["parameters"]["alpha"] / 1000)
    rows = list(csv.DictReader(grid_edges_csv([made]).splitlines()))
    assert [(row["transform"], row["parameter"], row["value"], row["highest"]) for row in rows] == [
        (name, "alpha", "100.0", "100.0") for name in ("FFT", "GFT(SimG)")
    ]
    assert float(rows[0]["screened_ACC"]) == pytest.approx(60.0)
    assert float(rows[0]["ACC_inside"]) == pytest.approx(50 + 0.1 * 64)


def test_a_plateau_needs_no_widening(tmp_path):
    made = fill(tmp_path / "made.sqlite", WIDE, lambda job: 0.5)
    assert made.edges == []
    # The first setting is the best of equals; what is beside it is tried, and nothing further.
    assert {len(made.find(*cell.group, ORACLE).tried) for cell in made.cells} == {8}


def test_failures_beyond_the_list_are_passed_over(tmp_path):
    def accuracy(job):
        if job.description["parameters"]["alpha"] > 2:
            return Outcome(None, 1.0, error="ValueError: too large")
        return peak_at(30.0)(job)

    made = fill(tmp_path / "made.sqlite", WIDE, accuracy)
    assert made.keys <= made.outcomes.keys()
    assert {one.setting.written["alpha"] for one in made.selected} == {2.0}


def test_the_search_does_not_depend_on_the_order_of_the_results():
    plan = parse_plan("wide", WIDE)
    (cell, _) = cells(plan, FACTS)
    scores, accuracy = {}, peak_at(8.0)
    while new := [job for job in all_jobs(plan, [cell], scores.get) if job.key not in scores]:
        scores[new[-1].key] = accuracy(new[-1])  # the last first
    forward = {}
    while new := [job for job in all_jobs(plan, [cell], forward.get) if job.key not in forward]:
        forward[new[0].key] = accuracy(new[0])
    assert scores == forward
    assert kept(plan, cell, tried(plan, cell, scores.get), scores.get)[0].written == {"alpha": 8.0, "n_latent": "4c"}
    assert len(tried(plan, cell, scores.get)) == len({job.key for job in all_jobs(plan, [cell], scores.get)}) - 1


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ("{ alpha = 3 }", "methods.ESTMC.bounds.alpha = 3: expected two positive numbers around"),
        ("{ alpha = [0.01] }", "expected two positive numbers"),
        ("{ alpha = [0.6, 10.0] }", "expected two positive numbers"),
        ("{ alpha = [10.0, 0.1] }", "expected two positive numbers"),
        ("{ tol = [1e-8, 1e-2] }", r"methods.ESTMC.bounds.tol = \[1e-08, 0.01\]: expected two positive numbers"),
        ("{ lam = [0.1, 1.0] }", "methods.ESTMC.bounds.lam: ESTMC has no such parameter"),
        ("{ alpha = [-1.0, 10.0] }", "methods.ESTMC.bounds.alpha: The 'alpha' parameter of ESTMC"),
    ],
)
def test_wrong_bounds_are_named(bounds, message):
    text = WIDE.replace('{ alpha = [0.01, 100.0], n_latent = ["1c", "16c"] }', bounds)
    with pytest.raises(PlanError, match=message):
        parse_plan("wrong", text)
