"""``tensormvc cluster --scheduler``: labels for samples that are more than one machine holds."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

from ._fit import fit_with_progress
from ._options import BasisName, Method, make_estimator
from ._outcome import BAD_DATA, MISSING_EXTRA, Failure, usage_error, working_on_data, writing_output
from ._screen import console, print_json

_METHODS = (Method.estmc, Method.asretr, Method.tlrlf4mvc)
_SECONDS_TO_CONNECT = 30


def cluster_on_scheduler(
    address: str,
    folder: Path,
    *,
    n_clusters: int | None,
    output: str | None,
    method: Method | None,
    basis: BasisName | None,
    parameters: list[str] | None,
    column: str,
    seed: int,
    force: bool,
    as_json: bool,
    names: list[str] | None,
) -> None:
    """Cluster the samples of a folder with the workers of a scheduler, and let these write the labels."""
    used = method or Method.estmc
    if used not in _METHODS or basis not in (None, "auto", "agft"):
        raise usage_error(
            "--scheduler goes with --method estmc, asretr or tlrlf4mvc, and with --basis agft, the default"
        )
    if n_clusters is None:
        raise usage_error("say how many clusters there shall be: -k N")
    target = _check_target(output, folder, force)
    estimator = make_estimator(used, BasisName("agft"), n_clusters, seed, parameters)
    try:
        from distributed import Client
    except ImportError as error:
        raise Failure(MISSING_EXTRA, "--scheduler needs Dask: pip install 'tensormvc[dask]'") from error
    try:
        client = Client(address, timeout=_SECONDS_TO_CONNECT)
    except (OSError, ValueError) as error:
        raise Failure(BAD_DATA, f"no scheduler answers at {address}: {error}") from error
    start = time.perf_counter()
    with client:
        with working_on_data():
            views = read_on_cluster(folder, names)
        try:
            fit_with_progress(estimator, views)
            sizes = _write(estimator.labels_, target, column)
        except RuntimeError as error:
            raise Failure(1, str(error)) from error
    result = {
        "file": folder, "output": target, "column": column, "seed": seed, "scheduler": address,
        "n_samples": int(sum(sizes)), "cluster_sizes": sizes, "n_iter": estimator.n_iter_,
        "converged": estimator.converged_, "seconds": round(time.perf_counter() - start, 3),
        "chosen": {"method": type(estimator).__name__, "basis": "agft"},
    }  # fmt: skip
    if as_json:
        print_json(result)
        return
    screen = console()
    state = "converged" if estimator.converged_ else "not converged"
    screen.print(f"{folder}: {result['n_samples']:,} samples, {len(views)} views; {type(estimator).__name__} with agft")
    screen.print(f"{len(sizes)} clusters of {', '.join(f'{size:,}' for size in sizes)} samples")
    screen.print(f"{state} after {estimator.n_iter_} rounds, {result['seconds']:.1f} s")
    screen.print(f"Labels: {target}")


def _check_target(output: str | None, folder: Path, force: bool) -> Path:
    if output is None:
        raise usage_error("say in which folder the labels shall go: -o labels, a Parquet file for each chunk")
    target = Path(output)
    if target.suffix in (".csv", ".tsv", ".h5mu", ".h5ad") or output == "-":
        raise usage_error(f"-o {output}: with --scheduler the labels go into a folder of Parquet files")
    if target.exists():
        if target.samefile(folder):
            raise usage_error(f"{output} is the folder that is read: choose another for the output")
        with writing_output(output):
            if not force:
                raise FileExistsError(f"{output} exists")
            if not target.is_dir():
                raise NotADirectoryError(20, f"{output} is no folder")
    return target


def read_on_cluster(folder: Path, names: list[str] | None) -> dict[str, Any]:
    """Return the views of a folder as collections of Dask: Parquet files, folders of them, or Zarr arrays.

    The rows of all views are in the same order; columns that are not numbers are an error.
    """
    import dask.array as da
    import dask.dataframe as dd

    views: dict[str, Any] = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if path.suffix == ".zarr":
            views[path.stem] = da.from_zarr(str(path))
        elif path.suffix == ".parquet" or (path.is_dir() and any(path.glob("*.parquet"))):
            views[path.stem] = dd.read_parquet(path)
    wanted = list(views) if names is None else names
    lacking = [name for name in wanted if name not in views]
    if lacking or not wanted:
        raise ValueError(
            f"{folder} has the views {', '.join(views) or 'none'}{', not ' + ', '.join(lacking) if lacking else ''}: "
            "with --scheduler it is a folder with a Parquet file, a folder of these, or a Zarr array for each view"
        )
    for name in wanted:
        kinds = getattr(views[name], "dtypes", {})
        text = [column for column, kind in dict(kinds).items() if getattr(kind, "kind", "O") not in "biuf"]
        if text:
            raise ValueError(f"{name} has columns that are no numbers: {', '.join(map(str, text))}; drop them")
    return {name: views[name] for name in wanted}


def _write(labels: Any, target: Path, column: str) -> list[int]:
    """Let the workers write a file for each chunk, in a folder that is there complete or not at all."""
    import dask.array as da
    import dask.dataframe as dd

    sizes = da.bincount(labels).compute()
    partial = target.with_name(target.name + ".partial")
    with writing_output(target):
        shutil.rmtree(partial, ignore_errors=True)
        dd.from_dask_array(labels[:, None], columns=[column]).to_parquet(partial, write_index=False)
        if target.exists():
            shutil.rmtree(target)
        partial.rename(target)
    return [int(size) for size in sizes]
