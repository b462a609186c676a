import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import tensormvc as tm
from tensormvc.bench._cells import all_jobs, cells, n_later
from tensormvc.bench._data import _digest, default_folder, load
from tensormvc.bench._fit import evaluate
from tensormvc.bench._methods import BASELINES, METHODS, TRANSFORMS, timed
from tensormvc.bench._plan import PlannedData, parse_plan
from tensormvc.bench._run import outlook, plan_outlook
from tensormvc.bench._store import METRICS, Store

from ..cli.conftest import ENVIRONMENT, command
from .conftest import FACTS, TINY, fill, outcome


def contents(path):
    """All results of a file apart from times and the environment."""
    with Store(path, must_exist=True) as store:
        unlike = {"seconds": 0.0, "transform_seconds": None, "environment": {}}
        return {key: replace(outcome, **unlike) for key, outcome in store.outcomes().items()}


def finished(path):
    if not path.exists():
        return {}
    connection = sqlite3.connect(path)
    try:
        return dict(connection.execute("SELECT key, finished FROM results"))
    except sqlite3.OperationalError:  # killed before the tables were there
        return {}
    finally:
        connection.close()


def test_a_run_is_what_the_estimators_say(tiny_results):
    plan = parse_plan("tiny", TINY)
    data = load(plan.datasets[0], None)
    stored = contents(tiny_results)
    wanted = cells(plan, {"digits": data.facts})
    cell = next(cell for cell in wanted if (cell.method, cell.transform) == ("ESTMC", "GFT(SimG)"))
    views, y = tm.datasets.load_digits_views(40, class_sorted=True)
    for seed in (0, 1):
        moved, moved_y, _ = tm.datasets.shuffle_samples(views, y, random_state=seed)
        model = tm.ESTMC(10, basis="gft-sim", tol=0.01, random_state=seed).fit(moved)
        found = stored[cell.job(cell.default, seed).key]
        assert found.metrics == tm.metrics.clustering_report(moved_y, model.labels_)
        assert (found.n_iter, found.converged) == (model.n_iter_, model.converged_)
    ideal = next(cell for cell in wanted if cell.transform == "GFT(Ideal)")
    moved, moved_y, _ = tm.datasets.shuffle_samples(views, y, random_state=0)
    model = tm.ESTMC(10, basis="gft", alpha=0.1, tol=0.01, random_state=0).fit(
        moved, sample_graph=tm.ideal_graph(moved_y)
    )
    assert stored[ideal.job(ideal.grid[0], 0).key].metrics == tm.metrics.clustering_report(moved_y, model.labels_)


def test_a_second_run_does_nothing(tiny, tiny_results):
    before = finished(tiny_results)
    summary = tm.bench.run_plan(tiny, tiny_results)
    assert (summary.n_fits, summary.n_before, summary.n_failed) == (len(before), len(before), 0)
    assert finished(tiny_results) == before
    with Store(tiny_results) as store:
        assert not store.running()


@pytest.mark.parametrize("device", [None, "cpu"])
def test_more_trials_reuse_those_that_are_there(tiny, tiny_results, tmp_path, device):
    """On NumPy, and with PyTorch: the environment says on which device a fit ran."""
    if device:
        pytest.importorskip("torch", reason="PyTorch is not installed (extra 'torch')")
    copy = tmp_path / "copy.sqlite"
    with Store(tiny_results), sqlite3.connect(tiny_results) as source, sqlite3.connect(copy) as target:
        source.backup(target)
    source.close()
    target.close()
    before = finished(copy)
    tiny.write_text(TINY.replace("trials = 2", "trials = 3"))
    tm.bench.run_plan(tm.bench.load_plan(tiny, device=device), copy)
    after = finished(copy)
    assert {key: after[key] for key in before} == before
    with Store(copy) as store:
        devices = {key: one.environment.get("device") for key, one in store.outcomes().items()}
    assert {devices[key] for key in before} == {None}
    assert {devices[key] for key in after.keys() - before.keys()} == {None, device}


@pytest.mark.parametrize("name", BASELINES)
def test_baselines_find_plain_clusters(name):
    """Three groups far apart, dense and sparse, in two views."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 20)
    views = [10 * np.eye(3)[y] + rng.uniform(size=(60, 3)), sp.csr_array(10 * np.eye(4)[y] + rng.uniform(size=(60, 4)))]
    plan = parse_plan("p", f'title = "t"\ndatasets = ["d"]\nbaselines = ["{name}"]\ntrials = 1')
    facts = replace(FACTS["NGs"], n_clusters=3, n_features=(3, 4))
    data = type("Data", (), {"views": views, "y": y, "facts": facts})()
    jobs = all_jobs(plan, cells(plan, {"d": facts}))
    assert len(jobs) == (4 if name == "best-view" else 1)
    for job in jobs:
        found = evaluate(job, data)
        assert found.error is None
        assert found.metrics["ACC"] == 1.0


@pytest.mark.parametrize("name", TRANSFORMS)
def test_timed_bases_are_the_same(name):
    views, y = tm.datasets.load_digits_views(60)
    transform = TRANSFORMS[name]
    basis = transform.make(**transform.defaults)
    graph = {"sample_graph": tm.ideal_graph(y)} if transform.uses_labels else {}
    labels = []
    for one in (basis, timed(basis)):
        model = METHODS["ESTMC"].make(10, one, 0, {"tol": 0.01}).fit(views, **graph)
        labels.append(model.labels_)
    np.testing.assert_array_equal(*labels)
    assert model.basis_.fit_seconds_ >= 0
    assert isinstance(model.basis_, type(basis))


def test_defaults_of_transforms_are_those_of_the_library():
    for name in ("gft-sim", "gft-sum", "gft-gmc", "agft"):
        transform = TRANSFORMS[name]
        made = transform.make(**transform.defaults)
        plain = {"gft-sim": tm.SimGraph, "gft-sum": tm.SumGraph, "gft-gmc": tm.GMCGraph}.get(name)
        wanted, ours = (tm.AGFT(), made) if plain is None else (plain(), made.graph)
        assert ours.get_params() == wanted.get_params()


def test_digests():
    view, y = np.arange(12.0).reshape(4, 3), np.array([0, 0, 1, 1])
    base = _digest([view], y)
    assert base == _digest([view.copy()], y + 5)  # classes count, not their numbers
    other = view.copy()
    other[0, 0] = 1e-300
    for views, labels in (
        ([other], y),
        ([view.astype(np.float32)], y),
        ([view, view], y),
        ([view], np.array([0, 1, 1, 1])),
        ([view.reshape(3, 4)[:, :3]], y[:3]),
        ([sp.csr_array(view)], y),
    ):
        assert _digest(views, labels) != base
    messy = sp.coo_array(([1.0, 2.0, 3.0], ([0, 1, 0], [1, 1, 0])), shape=(4, 3))
    assert _digest([messy], y) == _digest([sp.csr_array(messy.toarray())], y)


def test_data_are_found_by_name(tmp_path, monkeypatch):
    views, y = tm.datasets.load_digits_views(40)
    tm.datasets.save_views(tmp_path / "mine.npz", views, y)
    found = load(PlannedData("mine"), tmp_path)
    assert (np.diff(found.y) >= 0).all()
    assert found.facts == load(PlannedData("digits", 40), None).facts
    with pytest.raises(tm.datasets.DataError, match=r"there is no data set yours in .*--data"):
        load(PlannedData("yours"), tmp_path)
    tm.datasets.save_views(tmp_path / "bare.npz", views)
    with pytest.raises(tm.datasets.DataError, match="bare has no classes"):
        load(PlannedData("bare"), tmp_path)
    monkeypatch.setenv("TENSORMVC_SHARED", "somewhere")
    assert str(default_folder()) == "somewhere/data"
    monkeypatch.delenv("TENSORMVC_SHARED")
    assert str(default_folder()) == "../shared/data"


FAILING = TINY.replace('"GFT(Ideal)"', '{ name = "AGFT", n_anchors = [6, 8] }')


def test_failures_are_stored_and_retried(tmp_path):
    plan, path = tmp_path / "failing.toml", tmp_path / "failing.sqlite"
    plan.write_text(FAILING)
    summary = tm.bench.run_plan(plan, path)
    assert summary.n_failed == 2  # two settings of alpha with six anchors, in the screening
    assert "power of 2" in summary.errors[0]
    assert summary.errors[0].startswith("ValueError: ")
    before = finished(path)
    assert tm.bench.run_plan(plan, path).n_failed == 2
    assert finished(path) == before
    assert tm.bench.run_plan(plan, path, retry=True).n_failed == 2
    after = finished(path)
    assert sum(after[key] != before[key] for key in before) == 2
    assert after.keys() == before.keys()


def test_the_time_left_is_told_from_times(tmp_path):
    text = 'title = "t"\ndatasets = ["MSRCv1", "NGs"]\nbaselines = ["kmeans-l2"]\ntrials = 4'
    plan = parse_plan("made", text)
    wanted = cells(plan, FACTS)
    jobs = all_jobs(plan, wanted)
    with Store(tmp_path / "r.sqlite") as store:
        ahead = outlook(plan, wanted, store)
        assert (ahead.n_done, ahead.n_fits, ahead.n_untimed) == (0, 8, 8)
        assert ahead.in_words() == "0 of 8 fits, about 5 s left (8 fits by a rule of thumb)"  # 4 (0.42¹·⁵ + 1)
        for job, seconds in zip(jobs[:3:2], (10.0, 30.0), strict=True):  # two trials of MSRCv1
            assert job.dataset == "MSRCv1"
            store.claim([job])
            store.finish(job, outcome(0.5, seconds))
        ahead = outlook(plan, wanted, store)
        assert (ahead.n_done, ahead.seconds_left, ahead.n_untimed) == (2, 40.0 + 4 * 1.0, 4)
        assert ahead.in_words() == "2 of 8 fits, about 44 s left (4 fits by a rule of thumb)"
        store.claim([jobs[1]])
        store.finish(jobs[1], outcome(0.5, 600.0))
        with Store(tmp_path / "r.sqlite") as one, Store(tmp_path / "r.sqlite") as two:
            one.claim(jobs)
            two.claim(jobs)
            assert outlook(plan, wanted, store).seconds_left == (2 * 20 + 3 * 600) / 2  # two are at it
        assert outlook(plan, wanted, store).in_words() == "3 of 8 fits, about 31 min left"


def test_the_outlook_counts_what_the_screening_will_keep(tiny, tiny_results, tmp_path):
    plan = tm.bench.load_plan(tiny)
    before = plan_outlook(plan, tmp_path / "none.sqlite")
    assert not (tmp_path / "none.sqlite").exists()
    after = plan_outlook(plan, tiny_results)
    assert after.n_done == after.n_fits
    assert after.n_fits <= before.n_fits  # a setting that is kept may be the default, which runs anyway

    # One fit is lacking: what the other cells need after their screening is known, and there.
    wanted = cells(plan, {data.name: load(data, None).facts for data in plan.datasets})
    tried = next(cell for cell in wanted if n_later(plan, cell))
    lacking = tmp_path / "lacking.sqlite"
    shutil.copy(tiny_results, lacking)
    with closing(sqlite3.connect(lacking)) as connection, connection:
        connection.execute("DELETE FROM results WHERE key = ?", (tried.job(tried.grid[0], plan.seed).key,))
    ahead = plan_outlook(plan, lacking)
    assert 1 <= ahead.n_fits - ahead.n_done <= 1 + n_later(plan, tried)


def is_at_work(process, results):
    """Whether a process has claimed a fit."""
    if not results.exists():
        return False
    connection = sqlite3.connect(results)
    try:
        found = connection.execute("SELECT count(*) FROM claims WHERE process = ?", (process.pid,)).fetchone()[0]
        return found > 0
    except sqlite3.OperationalError:
        return False
    finally:
        connection.close()


def run_until_killed(plan, results, rng):
    """Start a run and kill it: anywhere from its start on, or while it is fitting."""
    process = subprocess.Popen(
        command("bench", "run", plan, "-o", results),
        **{"env": ENVIRONMENT, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE},
    )
    if rng.random() < 0.3:
        seconds = rng.uniform(0.0, 2.0)  # a fast machine ends the tiny plan in 3
    else:
        end = time.monotonic() + 60
        while process.poll() is None and not is_at_work(process, results) and time.monotonic() < end:
            time.sleep(0.01)
        seconds = rng.uniform(0.0, 0.5)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
    error = process.communicate()[1].decode()
    assert process.returncode in (0, -signal.SIGKILL), error
    assert error == ""
    return process.returncode != 0


def kill_and_resume(plan, results, wanted, kills):
    rng = random.Random(kills)
    done, killed = {}, 0
    for _ in range(kills):
        killed += run_until_killed(plan, results, rng)
        now = finished(results)
        assert {key: now.get(key) for key in done} == done, "a result was lost or computed again"
        done = now
    assert killed
    summary = tm.bench.run_plan(plan, results)
    assert summary.n_before == len(done)
    after = finished(results)
    assert {key: after[key] for key in done} == done, "a result was computed again"
    assert contents(results) == wanted


def test_killed_twice(tiny, tiny_results, tmp_path):
    kill_and_resume(tiny, tmp_path / "killed.sqlite", contents(tiny_results), 2)


@pytest.mark.slow
def test_smoke_killed_twenty_times(tmp_path):
    """What is left of the plan ends with the same tables, seconds excepted."""
    tm.bench.run_plan("smoke", tmp_path / "whole.sqlite")
    kill_and_resume("smoke", tmp_path / "killed.sqlite", contents(tmp_path / "whole.sqlite"), 20)
    folders = tmp_path / "whole", tmp_path / "killed"
    for folder in folders:
        tm.bench.write_bench_report(tmp_path / f"{folder.name}.sqlite", folder)
    for name in ("smoke.csv", "smoke.tex", "deviations.csv", "grid_edges.csv", "comparisons.csv"):
        one, other = ((folder / name).read_text() for folder in folders)
        # The command lines differ.
        assert [line for line in one.splitlines() if "Made by" not in line] == [
            line for line in other.splitlines() if "Made by" not in line
        ]


COUNTERS = """
CREATE TABLE counted (what TEXT, key TEXT);
CREATE TRIGGER a AFTER INSERT ON results BEGIN INSERT INTO counted VALUES ('result', new.key); END;
CREATE TRIGGER b AFTER INSERT ON claims BEGIN INSERT INTO counted VALUES ('claim', new.key); END;
"""


def check_each_once(path, wanted):
    connection = sqlite3.connect(path)
    for what in ("claim", "result"):
        counts = dict(connection.execute("SELECT key, count(*) FROM counted WHERE what = ? GROUP BY key", (what,)))
        assert counts == dict.fromkeys(wanted, 1)
    assert connection.execute("SELECT count(*) FROM claims").fetchone() == (0,)
    connection.close()
    assert contents(path) == wanted


def with_counters(path):
    with Store(path):
        connection = sqlite3.connect(path)
        connection.executescript(COUNTERS)
        connection.close()
    return path


def test_two_processes_on_one_file(tiny, tiny_results, tmp_path):
    path = with_counters(tmp_path / "shared.sqlite")
    processes = [
        subprocess.Popen(
            command("bench", "run", tiny, "-o", path),
            **{"env": ENVIRONMENT, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True},
        )
        for _ in range(2)
    ]
    for process in processes:
        out, err = process.communicate(timeout=120)
        assert (process.returncode, err) == (0, ""), out + err
    check_each_once(path, contents(tiny_results))


def test_two_processes_make_the_file_at_once(tiny, tiny_results, tmp_path):
    """Both find no file, and both make it."""
    path = tmp_path / "new.sqlite"
    code = (
        "import sys, time\nfrom tensormvc.bench._store import Store\n"
        "time.sleep(max(0, float(sys.argv[2]) - time.time()))\nfor _ in range(5): Store(sys.argv[1]).close()"
    )
    start = str(time.time() + 3)
    processes = [
        subprocess.Popen([sys.executable, "-c", code, str(path), start], env=ENVIRONMENT, stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    for process in processes:
        assert process.communicate(timeout=120)[1] == b""
        assert process.returncode == 0
    with Store(path, must_exist=True) as store:
        assert store.outcomes() == {}


def test_workers_of_one_command(tiny, tiny_results, tmp_path):
    path = with_counters(tmp_path / "workers.sqlite")
    ended = subprocess.run(
        command("bench", "run", tiny, "-o", path, "--jobs", 2),
        **{"env": ENVIRONMENT, "capture_output": True, "text": True, "timeout": 120, "check": False},
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    check_each_once(path, contents(tiny_results))


def test_smoke(tmp_path):
    summary = tm.bench.run_plan("smoke", tmp_path / "smoke.sqlite")
    assert summary.n_failed == 0
    written = tm.bench.write_bench_report(tmp_path / "smoke.sqlite", tmp_path / "report")
    assert (tmp_path / "report" / "smoke.csv") in written


def test_results_made_by_hand_are_complete(tmp_path):
    results = fill(tmp_path / "made.sqlite", TINY, lambda job: 0.5, facts={"digits": FACTS["NGs"]})
    assert results.keys <= results.outcomes.keys()
    assert {metric for one in results.selected for metric in METRICS} == set(METRICS)


def test_an_interrupt_ends_all_workers(tiny, tiny_results, tmp_path):
    path = tmp_path / "interrupted.sqlite"
    process = subprocess.Popen(
        command("bench", "run", tiny, "-o", path, "--jobs", 2),
        **{"env": ENVIRONMENT, "start_new_session": True, "stderr": subprocess.PIPE, "text": True},
    )
    end = time.monotonic() + 60
    while process.poll() is None and not finished(path) and time.monotonic() < end:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    err = process.communicate(timeout=60)[1]
    assert (process.returncode, err) == (130, "error: interrupted\n")
    done = finished(path)
    tm.bench.run_plan(tiny, path)
    assert {key: finished(path)[key] for key in done} == done
    assert contents(path) == contents(tiny_results)
