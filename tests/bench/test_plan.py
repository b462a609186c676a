import csv
import math
import re

import pytest

import tensormvc as tm
from tensormvc.bench._cells import all_jobs, cells, kept, n_later, tried
from tensormvc.bench._data import Facts
from tensormvc.bench._data import load as load_data
from tensormvc.bench._paper import _figures, printed
from tensormvc.bench._plan import PlanError, PlannedData, parse_plan, shipped_plans

from .conftest import FACTS, TINY

SHIPPED = ["ablation-basis", "ablation-basis-caltech", "ablation-ka", "ablation-kn", "clustering"]
SHIPPED += ["clustering-caltech", "runtime", "shuffle-rate", "shuffle-rate-caltech", "smoke"]
ANY = Facts("d" * 32, 400, 5, (10, 10))


def test_shipped_plans_are_valid():
    assert shipped_plans() == SHIPPED
    for name in SHIPPED:
        plan = tm.bench.load_plan(name)
        wanted = cells(plan, {data.name: ANY for data in plan.datasets})
        assert plan.baselines[0] == "front-door"
        assert plan.heading
        skipped = len(plan.skip) * len(plan.datasets)
        assert len(wanted) + skipped == len(plan.datasets) * len(plan.shuffle_rates) * (
            len(plan.baselines) + len(plan.methods) * len(plan.transforms)
        )


@pytest.mark.parametrize("name", [name for name in SHIPPED if not name.startswith(("shuffle", "smoke"))])
def test_every_cell_of_a_plan_is_in_the_papers_table(name):
    plan = tm.bench.load_plan(name)
    metric = "seconds" if plan.paper == "runtime" else "ACC"
    for data in plan.datasets:
        for method in plan.methods:
            for transform in plan.transforms:
                assert printed(plan.paper, data.name, method.name, transform.name, metric) is not None


def test_generated_data_are_compared_by_their_timings_only():
    assert printed("runtime", "synthetic-Animal", "ESTMC", "AGFT", "seconds").mean == 196.55
    assert printed("runtime", "synthetic-Animal", "ESTMC", "AGFT", "transform seconds").mean == 35.66
    assert printed("runtime", "synthetic-Animal", "ESTMC", "AGFT", "ACC") is None
    assert load_data(PlannedData("synthetic-Animal"), None).facts.n_samples == 11673
    with pytest.raises(tm.datasets.DataError, match="there are synthetic-Caltech101-all, synthetic-Animal"):
        load_data(PlannedData("synthetic-Zebra"), None)


@pytest.mark.parametrize("name", ["clustering", "clustering-caltech"])
def test_all_transforms_have_the_same_grids(name):
    plan = tm.bench.load_plan(name)
    for method in plan.methods:
        assert not method.under
        assert method.bounds
    by_method = {}
    for cell in cells(plan, {data.name: ANY for data in plan.datasets}):
        if cell.transform not in ("AGFT", "none"):
            by_method.setdefault(cell.method, set()).add((len(cell.grid), tuple(cell.ladders.items())))
    assert {len(kinds) for kinds in by_method.values()} == {1}


def test_a_plan_on_a_device():
    plan, plain = tm.bench.load_plan("runtime", device="cuda:0"), tm.bench.load_plan("runtime")
    assert (plan.name, plan.device, plan.label) == ("runtime-cuda0", "cuda:0", "Run time (cuda:0)")
    assert parse_plan(plan.name, plan.text) == plan
    facts = {data.name: ANY for data in plan.datasets}
    there, here = all_jobs(plan, cells(plan, facts)), all_jobs(plain, cells(plain, facts))
    assert {job.key for job in there} & {job.key for job in here} == {
        job.key for job in here if "baseline" in job.description
    }
    assert {job.description["device"] for job in there if "baseline" not in job.description} == {"cuda:0"}


def test_fits_on_a_device_are_the_same_unless_the_plan_is_about_seconds():
    plan, plain = tm.bench.load_plan("smoke", device="cuda"), tm.bench.load_plan("smoke")
    assert (plan.name, plan.text, plan.label, plan.device) == (plain.name, plain.text, plain.label, "cuda")
    facts = {data.name: ANY for data in plan.datasets}
    assert all_jobs(plan, cells(plan, facts)) == all_jobs(plain, cells(plain, facts))


def test_cells_can_be_left_out():
    skip = '\nskip = [{ method = "ESTMC", transform = "FFT", text = "too slow" }]'
    plan = parse_plan("grids", GRIDS.replace("\ntrials = 3", "\ntrials = 3" + skip))
    assert [cell.transform for cell in cells(plan, FACTS)] == ["AGFT"]


def test_the_clustering_plan_is_the_papers_table():
    plan = tm.bench.load_plan("clustering")
    assert (len(plan.datasets), len(plan.methods), len(plan.transforms), plan.trials) == (3, 5, 6, 5)
    ours = {(d.name, m.name, t.name) for d in plan.datasets for m in plan.methods for t in plan.transforms}
    theirs = {key[1:4] for key in _figures() if key[0] == "clustering" and key[1] != "caltech101-20"}
    assert {(d.casefold(), m, t) for d, m, t in ours} == theirs


def read(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def test_the_papers_figures_are_the_papers(shared):
    table = {}
    for row in read(shared / "paper" / "clustering.csv"):
        found = printed("clustering", row["dataset"], row["method"], row["transform"], row["metric"])
        assert (found.mean, found.std) == (float(row["mean"]), float(row["std"]))
        table[row["dataset"]] = table.get(row["dataset"], 0) + 1
    assert set(table.values()) == {150}
    transform = {"transform": "{}", "k_n": "GFT(SimG, k_n={})", "k_a": "AGFT(k_a={})"}
    for row in read(shared / "paper" / "ablations.csv"):
        name = transform[row["table"]].format(row["setting"])
        assert printed(row["table"], row["dataset"], "ESTMC", name, "ACC").mean == float(row["ACC"])
    for row in read(shared / "paper" / "runtime.csv"):
        place = ("runtime", row["dataset"], row["method"], row["transform"])
        assert printed(*place, "seconds").mean == float(row["seconds_main"])
        assert printed(*place, "transform seconds").mean == float(row["seconds_transform"])
    assert len(_figures()) == 600 + 47 + 3 * 40


WRONG = {
    'colour = "red"': "colour: there is no such key",
    "trials = 0": "trials = 0: expected an integer of at least 1",
    "trials = true": "trials = True",
    "seed = -1": "seed = -1",
    "shuffle_rates = [1.5]": "shuffle_rates[0] = 1.5: expected a number from 0 to 1",
    "shuffle_rates = []": "shuffle_rates = []: expected a list that is not empty",
    "shuffle_rates = [0, 0.0]": "shuffle_rates: 0.0 is listed twice",
    'paper = "appendix"': "paper = 'appendix'",
    'baselines = ["k-means"]': "baselines[0] = 'k-means': expected one of best-view, ",
    'baselines = ["kmeans-l2", "kmeans-l2"]': "baselines: kmeans-l2 is listed twice",
    'transforms = ["FFT", "FFT"]': "transforms: FFT is listed twice",
    'transforms = ["GFT"]': "transforms[0] = 'GFT': expected one of AGFT, ",
    'transforms = [{ name = "mine" }]': "transforms[0].basis is missing",
    'transforms = [{ name = "mine", basis = "wave" }]': "transforms[0].basis: unknown basis 'wave'",
    'transforms = [{ name = "mine", basis = "agft", anchors = 8 }]': "transforms[0].anchors: the basis agft has",
    "transforms = []": "methods and transforms go together",
    "datasets = []": "datasets = []: expected a list",
    'datasets = ["../secret"]': "datasets[0].name = '../secret'",
    'datasets = [{ name = "NGs", n_samples = 5 }]': "datasets[0].n_samples: only the embedded digits",
    'defaults = "no"': "defaults = 'no'",
    "screen = { trials = 2, keep = 1 }": "screen.trials = 2: must be less than trials = 2",
    "screen = { trials = 1 }": "screen.keep is missing",
    "title = 3": "title = 3: expected a non-empty string",
    "notes = [{ text = 3 }]": "notes[0].text = 3: expected a non-empty string",
    "notes = [{ txt = 'a' }]": "notes[0].txt: there is no such key",
}


@pytest.mark.parametrize("line", WRONG)
def test_what_is_wrong_is_named(line):
    key = line.split(" = ")[0]
    lines = [old for old in TINY.splitlines() if not old.startswith(f"{key} = ")]
    text = "\n".join([line, *lines])
    with pytest.raises(PlanError, match=re.escape(f"plan wrong: {WRONG[line]}")):
        parse_plan("wrong", text)


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        (
            "alfa = [1]",
            "methods.ESTMC.alfa: ESTMC has no such parameter; it has alpha, max_iter",
        ),
        ("alpha = []", "methods.ESTMC.alpha: the list of values is empty"),
        ("alpha = [0.1, 0.1]", "methods.ESTMC.alpha: a value is listed twice"),
        ("alpha = [0.1, -1.0]", "methods.ESTMC.alpha: The 'alpha' parameter of ESTMC"),
        ("alpha = 'large'", "methods.ESTMC.alpha: The 'alpha' parameter of ESTMC"),
        ("penalty = ['norm']", "methods.ESTMC.penalty: unknown penalty 'norm'"),
        ("penalty = [{ name = 'etr', gamma = 1 }]", "methods.ESTMC.penalty: "),
        ("n_latent = ['c']", "methods.ESTMC.n_latent: 'c' is neither an integer nor"),
        ("random_state = 3", "methods.ESTMC.random_state: ESTMC has no such parameter"),
        ("[methods.ESTMC.transforms.DCT]", "methods.ESTMC.transforms = 'DCT': expected one of FFT, "),
        ("[methods.ESTMC.transforms.FFT]\nlam = 1", "methods.ESTMC.transforms.FFT.lam: ESTMC has no such"),
        ("[methods.KMeans]", "methods = 'KMeans': expected one of ASR-ETR"),
    ],
)
def test_what_is_wrong_with_a_grid_is_named(grid, message):
    text = TINY.replace("alpha = [0.1, 2.0]", grid)
    with pytest.raises(PlanError, match=re.escape(message)):
        parse_plan("wrong", text)


def test_no_plan():
    with pytest.raises(PlanError, match="no such file; the plans by name are ablation-basis"):
        tm.bench.load_plan("nowhere.toml")
    with pytest.raises(PlanError, match="this is not TOML"):
        parse_plan("wrong", "title")


GRIDS = """
title = "Grids"
datasets = ["MSRCv1"]
transforms = ["FFT", { name = "AGFT", n_anchors = ["paper", 64], n_neighbors = 5 }]
trials = 3

[methods.ESTMC]
alpha = [0.1, 2.0]
n_latent = ["2c", 5]
max_iter = 30

[methods.ESTMC.transforms.FFT]
alpha = 1.0
"""


def test_a_list_is_tried_and_a_value_is_set():
    fft, agft = cells(parse_plan("grids", GRIDS), FACTS)
    assert [setting.written for setting in fft.grid] == [
        {"max_iter": 30, "alpha": 1.0, "n_latent": "2c"},
        {"max_iter": 30, "alpha": 1.0, "n_latent": 5},
    ]
    assert [setting.described["parameters"]["n_latent"] for setting in fft.grid] == [14, 5]
    assert len(agft.grid) == 8
    assert agft.grid[1].described["basis_parameters"] == {"n_anchors": 64, "n_neighbors": 5}
    # The default selection keeps what is set, and our defaults for what is tried.
    assert agft.default.written == {"max_iter": 30, "n_neighbors": 5}
    assert agft.default.described["basis_parameters"] == {"n_anchors": "auto", "n_neighbors": 5}
    assert agft.default.described["parameters"]["alpha"] == tm.ESTMC().alpha


def test_a_default_that_is_in_the_grid_is_fitted_once():
    plan = parse_plan("tiny", TINY)
    wanted = cells(plan, {"digits": ANY})
    for cell in wanted:
        if cell.method == "ESTMC":
            assert cell.job(cell.grid[1], 0).key == cell.job(cell.default, 0).key  # alpha = 2.0
    jobs = all_jobs(plan, wanted)
    assert len({job.key for job in jobs}) == len(jobs)
    # k-means twice, 2 views × 2 ways once, ESTMC: two settings in trial 0, the default in trial 1, three transforms.
    assert len(jobs) == 2 + 4 + 3 * 3


def test_screening_keeps_the_best():
    plan = parse_plan("grids", "screen = { trials = 1, keep = 2 }\n" + GRIDS)
    agft = cells(plan, FACTS)[1]
    # The second of two equals is passed over: often it is the same clustering.
    scores = [0.3, 0.9, 0.5, None, 0.9, 0.1, 0.2, 0.4]
    known = {agft.job(setting, 0).key: score for setting, score in zip(agft.grid, scores, strict=True)}
    assert kept(plan, agft, tried(plan, agft, known.get), known.get) == [agft.grid[1], agft.grid[2]]
    known = {key: math.nan if score is None else score for key, score in known.items()}
    assert kept(plan, agft, tried(plan, agft, known.get), known.get) == [agft.grid[1], agft.grid[2]]
    first = {job.key for job in all_jobs(plan, [agft])}
    later = [job for job in all_jobs(plan, [agft], known.get) if job.key not in first]
    assert [job.description["seed"] for job in later] == [1, 1, 2, 2]
    assert n_later(plan, agft) == len(later)


def test_keys_are_of_what_determines_a_result():
    def keys(text, facts=FACTS, name="grids"):
        plan = parse_plan(name, text)
        return [job.key for job in all_jobs(plan, cells(plan, facts))]

    base = keys(GRIDS)
    assert len(set(base)) == len(base)
    same = GRIDS.replace('"Grids"', '"Other title"').replace("alpha = [0.1, 2.0]", "alpha = [2.0, 0.1]")
    assert set(keys(same, name="other")) == set(base)
    other_data = {**FACTS, "MSRCv1": Facts("e" * 32, 210, 7, (24, 576))}
    for text, facts in (
        (GRIDS, other_data),
        ("shuffle_rates = [0.5]\n" + GRIDS, FACTS),
        ("seed = 100\n" + GRIDS, FACTS),
        (GRIDS.replace("max_iter = 30", "max_iter = 31"), FACTS),
    ):
        assert not set(keys(text, facts)) & set(base)


def test_a_new_revision_makes_new_keys(monkeypatch):
    from tensormvc.bench import _methods

    plan = parse_plan("grids", GRIDS)
    base = {job.key for job in all_jobs(plan, cells(plan, FACTS))}
    changed = _methods.Method("ESTMC", _methods.METHODS["ESTMC"].revision + 1)
    monkeypatch.setitem(_methods.METHODS, "ESTMC", changed)
    assert not base & {job.key for job in all_jobs(plan, cells(plan, FACTS))}
