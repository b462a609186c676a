"""Plans of a few seconds, and files of results made by hand."""

from dataclasses import asdict

import pytest

import tensormvc as tm
from tensormvc.bench._cells import all_jobs, cells
from tensormvc.bench._data import Facts
from tensormvc.bench._plan import parse_plan
from tensormvc.bench._store import METRICS, Outcome, Store, StoredPlan
from tensormvc.bench._tables import read_results

TINY = """
title = "A few digits"
datasets = [{ name = "digits", n_samples = 40 }]
baselines = ["kmeans-l2", "best-view"]
transforms = ["FFT", "GFT(SimG)", "GFT(Ideal)"]
trials = 2
screen = { trials = 1, keep = 1 }

[methods.ESTMC]
alpha = [0.1, 2.0]
tol = 0.01
"""
# Eight samples are too few to be wrong about: nothing is read from these.
FACTS = {
    "MSRCv1": Facts("a" * 32, 210, 7, (24, 576)),
    "NGs": Facts("b" * 32, 500, 5, (2000, 2000)),
    "ALOI-100_recomputed": Facts("c" * 32, 7200, 100, (77,)),
}
ENVIRONMENT = {"python": "3", "threads": {}}


@pytest.fixture
def tiny(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return path


@pytest.fixture(scope="session")
def tiny_results(tmp_path_factory):
    """A file of results of the tiny plan."""
    folder = tmp_path_factory.mktemp("tiny")
    (folder / "tiny.toml").write_text(TINY)
    summary = tm.bench.run_plan(folder / "tiny.toml", folder / "tiny.sqlite")
    assert summary.n_failed == 0
    return folder / "tiny.sqlite"


def outcome(accuracy, seconds=1.0):
    metrics = {**dict.fromkeys(METRICS, 0.5), "ACC": accuracy}
    return Outcome(metrics, seconds, transform_seconds=0.25, environment=ENVIRONMENT)


def fill(path, text, accuracy, name="made", facts=FACTS):
    """Write results whose accuracy is a function of the job, and return what the report reads."""
    plan = parse_plan(name, text)
    wanted = cells(plan, facts)
    with Store(path) as store:
        known = {data.name: asdict(facts[data.name]) for data in plan.datasets}
        store.save_plan(StoredPlan(plan.name, plan.text, plan.seed, known, "tensormvc bench run made"))
        while (job := store.claim(all_jobs(plan, wanted, store.scores().get))) is not None:
            found = accuracy(job)
            store.finish(job, found if isinstance(found, Outcome) else outcome(found))
        return read_results(store.plans()[0], store.outcomes())
