"""Results in one SQLite file, which several processes can work on, and which a killed one leaves in order."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ._cells import Job

METRICS = ("ACC", "NMI", "Purity", "F-score", "ARI")
# A claim whose holder has not been heard of for so many seconds is free again.
LEASE = 60.0
_HEARTBEAT = 5.0
_BUSY_SECONDS = 120.0
# What tells our files from those of others: "tmvc" in ASCII, and the version of the tables.
_APPLICATION, _VERSION = 0x746D7663, 1
_TABLES = """
CREATE TABLE results (
    key TEXT PRIMARY KEY, description TEXT NOT NULL, status TEXT NOT NULL CHECK (status IN ('done', 'failed')),
    "ACC" REAL, "NMI" REAL, "Purity" REAL, "F-score" REAL, "ARI" REAL,
    n_iter INTEGER, converged INTEGER, warnings TEXT NOT NULL, error TEXT,
    seconds REAL NOT NULL, transform_seconds REAL, finished REAL NOT NULL, environment TEXT NOT NULL
);
CREATE TABLE claims (
    key TEXT PRIMARY KEY, holder TEXT NOT NULL, host TEXT NOT NULL, process INTEGER NOT NULL, heartbeat REAL NOT NULL
);
CREATE TABLE plans (
    name TEXT PRIMARY KEY, text TEXT NOT NULL, seed INTEGER NOT NULL, datasets TEXT NOT NULL, command TEXT NOT NULL,
    started REAL NOT NULL
);
"""


class StoreError(ValueError):
    """A file that is not one of ours."""


@dataclass(frozen=True)
class Outcome:
    """How a fit ended."""

    metrics: Mapping[str, float] | None
    seconds: float
    transform_seconds: float | None = None
    n_iter: int | None = None
    converged: bool | None = None
    warnings: tuple[str, ...] = ()
    error: str | None = None


@dataclass(frozen=True)
class Row:
    """A result in the file."""

    key: str
    outcome: Outcome
    finished: float
    environment: Mapping[str, Any]


@dataclass(frozen=True)
class StoredPlan:
    """A plan in the file, with what was known of its data sets when it ran."""

    name: str
    text: str
    seed: int
    datasets: Mapping[str, Any]
    command: str


class Store:
    """The file of results, opened for reading and writing.

    Parameters
    ----------
    path : path
        Where it is; it is made unless `must_exist`.
    must_exist : bool
        Whether a missing file is an error.
    """

    def __init__(self, path: str | Path, *, must_exist: bool = False) -> None:
        self.path = Path(path)
        if must_exist and not self.path.is_file():
            raise StoreError(f"{path}: there is no such file of results")
        self.holder = uuid.uuid4().hex
        self._held: set[str] = set()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._connection = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)
        try:
            self._prepare()
        except sqlite3.OperationalError:
            self._connection.close()
            raise
        except sqlite3.DatabaseError as error:
            self._connection.close()
            raise StoreError(f"{path} is not a file of results: {error}") from error
        except StoreError:
            self._connection.close()
            raise

    def _prepare(self) -> None:
        self._connection.execute("PRAGMA synchronous = FULL")
        self._use_wal()
        with self._transaction() as connection:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            empty = not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if empty and not application:
                for statement in filter(str.strip, _TABLES.split(";")):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute(f"PRAGMA user_version = {_VERSION}")
            elif application != _APPLICATION:
                raise StoreError(f"{self.path} is a database of another program")
            elif version != _VERSION:
                raise StoreError(f"{self.path} has tables of version {version}; this program knows {_VERSION}")

    def _use_wal(self) -> None:
        """Let readers and a writer work at once; two that switch at the same time get in each other's way."""
        end = time.monotonic() + _BUSY_SECONDS
        while True:
            try:
                if self._connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
                    return
                # A database of others is left as it is.
                if self._connection.execute("PRAGMA application_id").fetchone()[0] not in (0, _APPLICATION):
                    return
                self._connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > end:
                    raise
            time.sleep(0.01)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give back what is claimed and close the file."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if self._held:
            with self._transaction() as connection:
                connection.execute("DELETE FROM claims WHERE holder = ?", (self.holder,))
        self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield self._connection
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def save_plan(self, plan: StoredPlan) -> None:
        """Note a plan, for the report; one of the same name is replaced."""
        row = (plan.name, plan.text, plan.seed, json.dumps(plan.datasets), plan.command, time.time())
        with self._transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO plans VALUES (?, ?, ?, ?, ?, ?)", row)

    def plans(self) -> list[StoredPlan]:
        """Return the plans in the order of their names."""
        rows = self._connection.execute("SELECT name, text, seed, datasets, command FROM plans ORDER BY name")
        return [StoredPlan(name, text, seed, json.loads(data), command) for name, text, seed, data, command in rows]

    def rows(self) -> dict[str, Row]:
        """Return all results by key."""
        columns = ", ".join(f'"{name}"' for name in METRICS)
        selected = self._connection.execute(
            "SELECT key, n_iter, converged, warnings, error, seconds, transform_seconds, finished, environment,"
            f" {columns} FROM results"
        )
        found = {}
        for key, n_iter, converged, warned, error, seconds, of_transform, finished, environment, *values in selected:
            outcome = Outcome(
                metrics=dict(zip(METRICS, values, strict=True)) if error is None else None,
                seconds=seconds,
                transform_seconds=of_transform,
                n_iter=n_iter,
                converged=None if converged is None else bool(converged),
                warnings=tuple(json.loads(warned)),
                error=error,
            )
            found[key] = Row(key, outcome, finished, json.loads(environment))
        return found

    def accuracies(self) -> dict[str, float]:
        """Return the accuracy of every fit that did not fail."""
        return dict(self._connection.execute("SELECT key, ACC FROM results WHERE status = 'done'").fetchall())

    def seconds(self) -> dict[str, float]:
        """Return how long every fit took that did not fail."""
        return dict(self._connection.execute("SELECT key, seconds FROM results WHERE status = 'done'").fetchall())

    def n_at_work(self) -> int:
        """Return how many fits are under way."""
        return len(self._live(time.time()))

    def finished(self, *, retry_before: float = 0.0) -> set[str]:
        """Return the keys of the results, without failures before that time, which are to be tried again."""
        rows = self._connection.execute(
            "SELECT key FROM results WHERE status = 'done' OR finished >= ?", (retry_before,)
        )
        return {key for (key,) in rows}

    def claim(self, jobs: Sequence[Job], *, retry_before: float = 0.0) -> Job | None:
        """Take the first fit that nobody has done or is doing; None if there is none at the moment."""
        with self._transaction() as connection:
            now = time.time()
            taken = self.finished(retry_before=retry_before) | self._live(now)
            free = next((job for job in jobs if job.key not in taken), None)
            if free is None:
                return None
            row = (free.key, self.holder, socket.gethostname(), os.getpid(), now)
            connection.execute("INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?, ?)", row)
        with self._lock:
            self._held.add(free.key)
        if self._thread is None:
            self._thread = threading.Thread(target=self._beat, daemon=True)
            self._thread.start()
        return free

    def _live(self, now: float) -> set[str]:
        """Return the claims of those who are still there."""
        rows = self._connection.execute("SELECT key, host, process, heartbeat FROM claims").fetchall()
        here = socket.gethostname()
        return {
            key
            for key, host, process, heartbeat in rows
            if abs(now - heartbeat) < LEASE and (host != here or _is_alive(process))
        }

    def finish(self, job: Job, outcome: Outcome, environment: Mapping[str, Any]) -> bool:
        """Store how a fit ended and give its claim back, in one transaction; False if others have taken it over."""
        values = [None] * len(METRICS) if outcome.metrics is None else [outcome.metrics[name] for name in METRICS]
        row = (
            *(job.key, json.dumps(job.description, sort_keys=True), "done" if outcome.error is None else "failed"),
            *values,
            *(outcome.n_iter, outcome.converged, json.dumps(outcome.warnings), outcome.error),
            *(outcome.seconds, outcome.transform_seconds, time.time(), json.dumps(environment, sort_keys=True)),
        )
        with self._transaction() as connection:
            ours = (job.key, self.holder)
            mine = connection.execute("DELETE FROM claims WHERE key = ? AND holder = ?", ours).rowcount == 1
            if mine:
                places = ", ".join("?" * len(row))
                connection.execute(f"INSERT OR REPLACE INTO results VALUES ({places})", row)
        with self._lock:
            self._held.discard(job.key)
        return mine

    def _beat(self) -> None:
        """Say, from time to time, that the holder of the claims is still there."""
        connection = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)
        try:
            while not self._stop.wait(_HEARTBEAT):
                with self._lock:
                    busy = bool(self._held)
                if busy:
                    connection.execute("UPDATE claims SET heartbeat = ? WHERE holder = ?", (time.time(), self.holder))
        finally:
            connection.close()


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def count_keys(jobs: Iterable[Job], keys: set[str]) -> int:
    """Return how many of the fits are among the keys."""
    return sum(job.key in keys for job in jobs)
