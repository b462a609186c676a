"""Every benchmark file of up to 10 000 samples ends with labels, in less than 4 GB."""

import csv
import os
import subprocess
import time

import pytest

from .conftest import ENVIRONMENT, command

FILES = {
    **{"MSRCv1": (210, 7), "NGs": (500, 5), "BBCSport": (544, 5), "100leaves": (1600, 100), "Handwritten": (2000, 10)},
    **{"Caltech101-20_recomputed": (2386, 20), "CCV": (6773, 20), "ALOI-100_recomputed": (7200, 100)},
    "Hdigit": (10000, 10),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_labels_in_less_than_4_gb(name, shared, tmp_path):
    file = shared / "data" / f"{name}.mat"
    if not file.exists():
        pytest.skip(f"there is no {name}.mat")
    n_samples, n_clusters = FILES[name]
    environment = {key: value for key, value in ENVIRONMENT.items() if not key.endswith("_NUM_THREADS")}
    arguments = command("cluster", file, "-k", n_clusters, "-o", "labels.csv")
    start = time.perf_counter()
    process = subprocess.Popen(arguments, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    print(  # noqa: T201, the figures of a file, with pytest -s
        f"\n{name}: {time.perf_counter() - start:.1f} s, {usage.ru_utime:.1f} s of CPU, {usage.ru_maxrss / 1e3:.0f} MB"
    )
    assert process.returncode == 0
    assert usage.ru_maxrss * 1024 < 4e9
    with open(tmp_path / "labels.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["sample"] for row in rows] == [str(i) for i in range(n_samples)]
    assert {int(row["cluster"]) for row in rows} == set(range(n_clusters))
