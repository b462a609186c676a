import os
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest

from tensormvc.bench._cells import Job
from tensormvc.bench._store import LEASE, Outcome, Store, StoredPlan, StoreError

from .conftest import ENVIRONMENT, outcome

JOBS = [Job("d", "m", "t", {"seed": seed}) for seed in range(3)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results.sqlite"


def test_a_result_comes_back(path):
    with Store(path) as store:
        assert store.claim(JOBS) is JOBS[0]
        metrics = {"ACC": 0.1, "NMI": 0.2, "Purity": 0.3, "F-score": 0.4, "ARI": -0.5}
        given = Outcome(metrics, 2.0, 0.5, 7, True, ("w",), environment=ENVIRONMENT)
        assert store.finish(JOBS[0], given)
        assert store.claim(JOBS) is JOBS[1]
        assert store.finish(JOBS[1], Outcome(None, 1.0, error="ValueError: no"))
    with Store(path, must_exist=True) as store:
        stored = store.outcomes()
        assert stored[JOBS[0].key] == given
        assert stored[JOBS[1].key].error == "ValueError: no"
        assert store.successful("ACC") == {JOBS[0].key: 0.1}
        assert store.scores().keys() == {JOBS[0].key, JOBS[1].key}
        assert store.scores(retry_before=time.time()).keys() == {JOBS[0].key}
        assert store.claim(JOBS, retry_before=time.time()) is JOBS[1]


def test_two_holders_get_different_jobs(path):
    with Store(path) as a, Store(path) as b:
        assert [a.claim(JOBS), b.claim(JOBS), a.claim(JOBS)] == JOBS
        assert b.claim(JOBS) is None
        assert len(b.running()) == 3
        assert a.finish(JOBS[0], outcome(0.5))
        assert b.claim(JOBS) is None
    with Store(path) as c:  # what was claimed and not done is free again
        assert c.claim(JOBS) is JOBS[1]


def steal(path, **changes):
    connection = sqlite3.connect(path)
    assignments = ", ".join(f"{column} = ?" for column in changes)
    connection.execute(f"UPDATE claims SET {assignments}", list(changes.values()))
    connection.commit()
    connection.close()


def dead_process():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.mark.parametrize(
    ("changes", "free"),
    [
        ({}, False),
        ({"process": dead_process}, True),
        ({"process": dead_process, "host": lambda: "elsewhere"}, False),
        ({"host": lambda: "elsewhere", "heartbeat": lambda: time.time() - LEASE - 1}, True),
        ({"heartbeat": lambda: time.time() - LEASE - 1}, True),
        ({"heartbeat": lambda: time.time() - LEASE / 2}, False),
    ],
)
def test_stale_claims(path, changes, free):
    with Store(path) as gone, Store(path) as other:
        gone.claim(JOBS[:1])
        if changes:
            steal(path, **{column: value() for column, value in changes.items()})
        assert other.claim(JOBS[:1]) is (JOBS[0] if free else None)
        if free:
            # Whoever was given up stores nothing when it comes back.
            assert not gone.finish(JOBS[0], outcome(0.1))
            assert other.finish(JOBS[0], outcome(0.9))
            assert other.successful("ACC") == {JOBS[0].key: 0.9}


def test_a_fit_that_ends_its_process_lets_others_pass(path):
    with Store(path) as gone:
        assert gone.claim(JOBS) is JOBS[0]
        steal(path, process=dead_process())
        with Store(path) as other:
            assert [other.claim(JOBS) for _ in JOBS] == [*JOBS[1:], JOBS[0]]


def test_claims_are_kept_alive(path, monkeypatch):
    monkeypatch.setattr("tensormvc.bench._store._HEARTBEAT", 0.02)
    with Store(path) as store:
        store.claim(JOBS)
        steal(path, heartbeat=0.0)
        end = time.monotonic() + 10
        while not store.running():
            assert time.monotonic() < end
            time.sleep(0.01)
        with closing(sqlite3.connect(path)) as connection:
            (row,) = connection.execute("SELECT host, process FROM claims").fetchall()
        assert row == (socket.gethostname(), os.getpid())


def test_plans(path):
    with Store(path) as store:
        store.save_plan(StoredPlan("b", "old", 0, {}, ""))
        store.save_plan(StoredPlan("b", "new", 1, {"d": {"digest": "x"}}, "command"))
        store.save_plan(StoredPlan("a", "text", 0, {}, ""))
        assert [plan.text for plan in store.plans()] == ["text", "new"]
        assert store.plans()[1] == StoredPlan("b", "new", 1, {"d": {"digest": "x"}}, "command")


@pytest.mark.parametrize("application", [0, 7])
def test_files_of_others_are_left_alone(application, path, tmp_path):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (x)")
    connection.execute(f"PRAGMA application_id = {application}")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another program"):
        Store(path)
    assert path.read_bytes() == before
    (tmp_path / "text").write_text("no database " * 100)
    with pytest.raises(StoreError, match="not a results file"):
        Store(tmp_path / "text")
    with pytest.raises(StoreError, match="no such results file"):
        Store(tmp_path / "nowhere", must_exist=True)
    assert not (tmp_path / "nowhere").exists()
    with Store(tmp_path / "later"):
        pass
    connection = sqlite3.connect(tmp_path / "later")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreError, match="version 99"):
        Store(tmp_path / "later")
