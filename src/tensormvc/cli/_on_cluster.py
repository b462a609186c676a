"""``tensormvc cluster --scheduler``: labels for more samples than one machine holds."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from .._files import writing
from ._fit import fit_summary, fit_with_progress
from ._options import Choice, Source
from ._outcome import BAD_DATA, MISSING_EXTRA, Failure, check_output, usage_error, working_on_data, writing_output
from ._screen import show

_SECONDS_TO_CONNECT = 30


def cluster_on_scheduler(
    address: str, source: Source, choice: Choice, output: str | None, column: str, force: bool, as_json: bool
) -> None:
    """Cluster the samples of a folder on the workers of a Dask cluster, which also write the labels."""
    folder, method = source.file, choice.used_method
    if method not in ("auto", "estmc", "asretr", "tlrlf4mvc") or choice.basis not in (None, "auto", "agft"):
        raise usage_error(
            "--scheduler requires --method auto (the default), estmc, asretr or tlrlf4mvc; the last three with --basis "
            "agft (their default)"
        )
    target = _check_target(output, folder, force)
    basis = None if method == "auto" else "agft"
    estimator = replace(choice, method=method, basis=basis).estimator()
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
            views = _read(folder, source.view_names)
        try:
            fit_with_progress(estimator, views)
            sizes = _write(estimator.labels_, target, column, force)
        except RuntimeError as error:
            raise Failure(1, str(error)) from error
    name = type(estimator).__name__
    result = {
        **{"file": folder, "output": target, "column": column, "seed": choice.seed, "scheduler": address},
        **{"n_samples": int(sum(sizes)), "cluster_sizes": sizes, "n_iter": getattr(estimator, "n_iter_", None)},
        **{"converged": getattr(estimator, "converged_", None), "seconds": round(time.perf_counter() - start, 3)},
        "chosen": {"method": name, "basis": basis},
    }
    with_basis = f" with {basis}" if basis else ""
    head = f"{folder}: {result['n_samples']:,} samples, {len(views)} views; {name}{with_basis}"
    show(result, as_json, [head, *fit_summary(result), f"Labels: {target}"])


def _check_target(output: str | None, folder: Path, force: bool) -> Path:
    if output is None:
        raise usage_error("pass -o labels, the folder for the labels (one Parquet file per chunk)")
    target = Path(output)
    if target.suffix in (".csv", ".tsv", ".h5mu", ".h5ad") or output == "-":
        raise usage_error(f"-o {output}: with --scheduler the labels are written to a folder of Parquet files")
    if target.exists() and target.samefile(folder):
        raise usage_error(f"{output} is the input: choose another output")
    if target.is_file():
        raise usage_error(f"{output} is a file: choose a folder")
    check_output(target, force)
    return target


def _read(folder: Path, names: list[str] | None) -> dict[str, Any]:
    """Return the views in a folder as Dask collections: Parquet files, folders of them, or Zarr arrays."""
    import dask.array as da
    import dask.dataframe as dd

    views: dict[str, Any] = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if path.suffix == ".zarr":
            views[path.stem] = da.from_zarr(str(path))
        elif path.suffix == ".parquet" or (path.is_dir() and any(path.glob("*.parquet"))):
            views[path.stem] = dd.read_parquet(path)
    chosen = list(views) if names is None else names
    if not views:
        raise ValueError(f"{folder} does not contain Parquet files, folders of Parquet files, or Zarr arrays")
    if absent := [name for name in chosen if name not in views]:
        raise ValueError(f"{folder} has the views {', '.join(views)}, not {', '.join(absent)}")
    for name in chosen:
        types = dict(getattr(views[name], "dtypes", {}))
        text = [str(column) for column, kind in types.items() if getattr(kind, "kind", "O") not in "biuf"]
        if text:
            raise ValueError(f"view {name} has columns that are not numeric: {', '.join(text)}; remove them")
    return {name: views[name] for name in chosen}


def _write(labels: Any, target: Path, column: str, force: bool) -> list[int]:
    """Write one file per chunk on the workers, into a folder that appears once it is complete; return the sizes."""
    import dask.array as da
    import dask.dataframe as dd

    sizes = da.bincount(labels).compute()
    with writing_output(target), writing(target, overwrite=force, folder=True) as place:
        dd.from_dask_array(labels[:, None], columns=[column]).to_parquet(place, write_index=False)
    return [int(size) for size in sizes]
