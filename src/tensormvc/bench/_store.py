"""Results in one SQLite file, which several processes can share and which survives a process being killed."""

import json
import math
import os
import socket
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from ._cells import Job

METRICS = ("ACC", "NMI", "Purity", "F-score", "ARI")
# Seconds without a heartbeat after which a claim expires.
LEASE = 60.0
_HEARTBEAT = 5.0
_BUSY_SECONDS = 120.0
# Failures before a time, the parameter, are not finished.
_FINISHED = "status = 'done' OR finished >= ?"
# They mark a database as ours: "tmvc" in ASCII, and the version of the tables.
_APPLICATION, _VERSION = 0x746D7663, 1


class StoreError(ValueError):
    """A file that is not a results file of this version."""


@dataclass(frozen=True)
class Outcome:
    """How a fit ended, and in which environment; `metrics` is None if it failed."""

    metrics: Mapping[str, float] | None
    seconds: float
    transform_seconds: float | None = None
    n_iter: int | None = None
    converged: bool | None = None
    warnings: tuple[str, ...] = ()
    error: str | None = None
    environment: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class StoredPlan:
    """A plan, with the facts about its data sets at the time it ran."""

    name: str
    text: str
    seed: int
    datasets: Mapping[str, Any]
    command: str


class Store(AbstractContextManager["Store"]):
    """A results file, opened for reading and writing.

    Parameters
    ----------
    path : path
        The SQLite file.
    must_exist : bool
        Whether a missing file is an error; by default it is created.
    """

    def __init__(self, path: str | Path, *, must_exist: bool = False) -> None:
        self.path = Path(path)
        if must_exist and not self.path.is_file():
            raise StoreError(f"{path}: there is no such results file")
        self.holder = uuid.uuid4().hex
        self._held: set[str] = set()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._connection = self._connect()
        try:
            self._prepare()
        except Exception as error:
            self._connection.close()
            if type(error) is sqlite3.DatabaseError:
                raise StoreError(f"{path} is not a results file: {error}") from error
            raise

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)
        connection.row_factory = sqlite3.Row
        return connection

    @contextmanager
    def _transaction(self) -> Iterator[Callable[..., sqlite3.Cursor]]:
        with self._connection:  # commits, or rolls back after an exception
            self._connection.execute("BEGIN IMMEDIATE")
            yield self._connection.execute

    def _pragma(self, name: str) -> Any:
        return self._connection.execute(f"PRAGMA {name}").fetchone()[0]

    def _prepare(self) -> None:
        # A killed process loses nothing; after a power failure, the last fits run again.
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._use_wal()
        with self._transaction() as execute:
            application, version = self._pragma("application_id"), self._pragma("user_version")
            empty = not execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if empty and not application:
                tables = files(__package__).joinpath("results.sql").read_text(encoding="utf-8")
                marks = f"PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {_VERSION}"
                for statement in f"{tables}; {marks}".split(";"):
                    execute(statement)
            elif application != _APPLICATION:
                raise StoreError(f"{self.path} is a database of another program")
            elif version != _VERSION:
                raise StoreError(f"{self.path} has version {version}; this version of tensormvc reads {_VERSION}")

    def _use_wal(self) -> None:
        """Switch to the journal mode in which readers do not block a writer; a database of others is left as it is.

        Two processes that switch at the same time see the database locked, whatever their timeout: hence the loop.
        """
        end = time.monotonic() + _BUSY_SECONDS
        while True:
            try:
                is_empty = not self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
                usable = {_APPLICATION, 0} if is_empty else {_APPLICATION}
                if self._pragma("journal_mode") == "wal" or self._pragma("application_id") not in usable:
                    return
                self._connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > end:
                    raise
            time.sleep(0.01)

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Release all claims and close the file."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if self._held:
            with self._transaction() as execute:
                execute("DELETE FROM claims WHERE holder = ?", (self.holder,))
        self._connection.close()

    def save_plan(self, plan: StoredPlan) -> None:
        """Store a plan for the report; it replaces one of the same name."""
        row = (plan.name, plan.text, plan.seed, json.dumps(plan.datasets), plan.command, time.time())
        with self._transaction() as execute:
            execute(_replace("plans", row), row)

    def plans(self) -> list[StoredPlan]:
        """Return the plans, sorted by name."""
        rows = self._connection.execute("SELECT name, text, seed, datasets, command FROM plans ORDER BY name")
        return [StoredPlan(name, text, seed, json.loads(data), command) for name, text, seed, data, command in rows]

    def outcomes(self) -> dict[str, Outcome]:
        """Return all results by key."""
        return {
            row["key"]: Outcome(
                metrics={name: row[name] for name in METRICS} if row["error"] is None else None,
                converged=None if row["converged"] is None else bool(row["converged"]),
                warnings=tuple(json.loads(row["warnings"])),
                environment=json.loads(row["environment"]),
                **{name: row[name] for name in ("seconds", "transform_seconds", "n_iter", "error")},
            )
            for row in self._connection.execute("SELECT * FROM results")
        }

    def successful(self, column: str) -> dict[str, float]:
        """Return a column of the results, such as ``"ACC"`` or ``"seconds"``, for every successful fit by key."""
        return dict(map(tuple, self._connection.execute(f"SELECT key, {column} FROM results WHERE status = 'done'")))

    def scores(self, *, retry_before: float = 0.0) -> dict[str, float]:
        """Return the ACC of every finished fit by key, NaN for a failure.

        Failures before a time are left out: they are to be run again.
        """
        query = f'SELECT key, "ACC" FROM results WHERE {_FINISHED}'
        return {
            key: math.nan if score is None else score for key, score in self._connection.execute(query, (retry_before,))
        }

    def claim(self, jobs: Iterable[Job], *, retry_before: float = 0.0) -> Job | None:
        """Claim the first fit that is neither finished nor claimed; None if there is none at the moment."""
        with self._transaction() as execute:
            running, query = self.running(), f"SELECT 1 FROM results WHERE key = ? AND ({_FINISHED})"
            left = {claim["key"] for claim in execute("SELECT key FROM claims")}
            # Last those that a process did not survive: others must not wait for them if they kill every process.
            for free in sorted(jobs, key=lambda job: job.key in left):
                if free.key not in running and execute(query, (free.key, retry_before)).fetchone() is None:
                    break
            else:
                return None
            row = (free.key, self.holder, socket.gethostname(), os.getpid(), time.time())
            execute(_replace("claims", row), row)
        self._held.add(free.key)
        if self._thread is None:
            self._thread = threading.Thread(target=self._beat, daemon=True)
            self._thread.start()
        return free

    def running(self) -> set[str]:
        """Return the keys of the fits that are running now, in any process, as far as can be told."""
        now, here = time.time(), socket.gethostname()
        claims = self._connection.execute("SELECT * FROM claims WHERE abs(? - heartbeat) < ?", (now, LEASE))
        return {claim["key"] for claim in claims if claim["host"] != here or _is_alive(claim["process"])}

    def finish(self, job: Job, outcome: Outcome) -> bool:
        """Store an outcome and release its claim in one transaction; False if another process has taken the claim."""
        metrics = outcome.metrics or dict.fromkeys(METRICS)
        row = (
            *(job.key, json.dumps(job.description, sort_keys=True), "done" if outcome.error is None else "failed"),
            *(metrics[name] for name in METRICS),
            *(outcome.n_iter, outcome.converged, json.dumps(outcome.warnings), outcome.error),
            *(outcome.seconds, outcome.transform_seconds, time.time(), json.dumps(outcome.environment, sort_keys=True)),
        )
        with self._transaction() as execute:
            released = execute("DELETE FROM claims WHERE key = ? AND holder = ?", (job.key, self.holder)).rowcount
            if released:
                execute(_replace("results", row), row)
        self._held.discard(job.key)
        return bool(released)

    def _beat(self) -> None:
        """Renew the claims from time to time, so that other processes respect them."""
        with closing(self._connect()) as connection:
            query = "UPDATE claims SET heartbeat = ? WHERE holder = ?"
            while not self._stop.wait(_HEARTBEAT):
                if self._held:
                    with suppress(sqlite3.OperationalError):  # a full disk may have room the next time
                        connection.execute(query, (time.time(), self.holder))


def _replace(table: str, row: Sequence[Any]) -> str:
    return f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * len(row))})"


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError as error:  # a process of another user must not be signalled, but it runs
        return not isinstance(error, ProcessLookupError)
    return True
