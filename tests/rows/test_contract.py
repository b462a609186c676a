"""One contract for every place where rows can be: NumPy arrays, PyTorch tensors, files, the workers of a Dask cluster.

And wrong declarations, which must fail in memory, where they are cheap to find.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import tensormvc as tm
from tensormvc.backend.arrays import Array, is_tensor, namespace, on_host
from tensormvc.backend.scratch import scratch_array
from tensormvc.rows import InMemory, OnDisk, RowArrays, piece_size, pieces, row_blocks, row_work

from ..conftest import CLUSTER_LEFTOVERS, local_cluster
from ..memory import is_on_disk

pytestmark = CLUSTER_LEFTOVERS

# Eight blocks, two per partition of a cluster with two threads; wide work cuts them into pieces.
N = 70_000
WIDTH = 100
PLACES = ["numpy", "torch", "disk", "dask"]
IN_PROCESS = ["numpy", "torch", "disk"]


@dataclass
class Table(RowArrays):
    """Two views and the numbers of their rows, and arrays that tests create."""

    views: list[Array]
    numbers: Array
    total: Array
    scaled: list[Array]
    counts: Array
    made: Any
    seen: Any


def data():
    rng = np.random.default_rng(0)
    return [rng.normal(size=(N, 3)), rng.normal(size=(N, 2))], np.arange(N)


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed", reason="distributed is not installed (extra 'dask')")
    with local_cluster(n_workers=2, threads_per_worker=1) as cluster, distributed.Client(cluster) as client:
        yield client


def rows_in_memory():
    views, numbers = data()
    rows = InMemory(views[0])
    rows.hold(views=views, numbers=numbers)
    return rows


def rows_of_tensors():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra 'torch')")
    views, numbers = data()
    rows = InMemory(torch.tensor(views[0]))
    rows.hold(views=[torch.tensor(view) for view in views], numbers=torch.tensor(numbers))
    return rows


def rows_on_disk():
    views, numbers = data()
    rows, files = OnDisk(views[0]), [scratch_array(view.shape, view.dtype) for view in views]
    for file, view in zip(files, views, strict=True):
        file[...] = view
    rows.hold(views=files, numbers=numbers)
    return rows


def rows_on_dask(client):
    from tensormvc.rows._dask import OnDask, partitions

    views, numbers = data()
    parts = partitions(N, row_bytes=40, n_threads=2)
    assert [len(part.blocks) for part in parts] == [2, 2, 2, 2]
    places = [slice(part.start, part.stop) for part in parts]
    constants = [{"views": [view[rows] for view in views], "numbers": numbers[rows]} for rows in places]
    return OnDask(client, parts, client.scatter(constants, hash=False), ("views", "numbers"))


@pytest.fixture(params=PLACES)
def place(request):
    return request.param


@pytest.fixture
def rows(place, request):
    if place == "dask":
        rows = rows_on_dask(request.getfixturevalue("client"))
        yield rows
        rows.close()
    else:
        yield {"numpy": rows_in_memory, "torch": rows_of_tensors, "disk": rows_on_disk}[place]()


@pytest.fixture(scope="module")
def reference():
    """The same rows as NumPy arrays."""
    return rows_in_memory()


@row_work(reads="seen")
def copied(rows: Table) -> list[list[Any]]:
    return [[np.array(on_host(array)) for array in (rows.seen if isinstance(rows.seen, list) else [rows.seen])]]


def values(rows, name):
    """Return all rows of an array, or of each array of a list, as a list."""
    rows.alias("seen", name)
    parts = rows.reduce(copied, operator.add)
    rows.drop("seen")
    return [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]


def assert_same(result, expected, place):
    """Sums over the same blocks have the same bits; those of tensors run over all rows at once."""
    if place == "torch":
        np.testing.assert_allclose(on_host(result), expected, rtol=1e-11, atol=1e-10)
    else:
        np.testing.assert_array_equal(result, expected)


@row_work(reads="views")
def sums(rows: Table) -> list[Array]:
    return [namespace(view).sum(view, axis=0) for view in rows.views]


@row_work(reads="views", products=True)
def products(rows: Table) -> Array:
    return rows.views[0].T @ rows.views[1]


@row_work(reads="numbers", exact=True)
def residues(rows: Table) -> Any:
    return np.bincount(on_host(rows.numbers) % 3, minlength=3)


@row_work(reads="numbers")
def spans(rows: Table) -> list[tuple[int, int, int]]:
    return [(rows.first, len(rows), int(rows.numbers[0]))]


@row_work(reads="views", sets="total")
def set_total(rows: Table, weights: Array) -> None:
    rows.total[...] = rows.views[0] @ weights


@row_work(reads="views", writes="total", sets="scaled")
def add_and_scale(rows: Table, factor: float, *, more: float = 0.0) -> None:
    rows.total += rows.views[1][:, 0]
    for view, scaled in zip(rows.views, rows.scaled, strict=True):
        scaled[...] = factor * view + more


@row_work(reads="total")
def sum_of_total(rows: Table) -> Array:
    return namespace(rows.total).sum(rows.total, axis=0)


# ----------------------------------------------------------------------------------------------------------------------


def test_numbers_of_rows(rows):
    assert rows.n_rows == N
    [numbers] = values(rows, "numbers")
    np.testing.assert_array_equal(numbers, np.arange(N))


@pytest.mark.parametrize("wide", [False, True])
def test_create(rows, place, wide):
    rows.create("float32", value=2.5, wide=wide, total=(2,), scaled=[(), (3, 2)])
    rows.create("int64", value=7, counts=())
    [total], [flat, deep], [counts] = values(rows, "total"), values(rows, "scaled"), values(rows, "counts")
    for array, shape, dtype, value in (
        (total, (N, 2), np.float32, 2.5),
        (flat, (N,), np.float32, 2.5),
        (deep, (N, 3, 2), np.float32, 2.5),
        (counts, (N,), np.int64, 7),
    ):
        assert (array.shape, array.dtype) == (shape, dtype)
        assert (array == value).all()
    if place in IN_PROCESS:
        assert is_tensor(rows["total"]) == (place == "torch")
        assert is_on_disk(rows["total"]) == (wide and place == "disk")
    rows.create(total=())
    [total] = values(rows, "total")
    assert (total == 0).all()
    assert (total.shape, total.dtype) == ((N,), np.float64)


def test_names(rows):
    assert "views" in rows
    assert "total" not in rows
    rows.create(total=())
    rows.alias("seen", "total")
    assert "total" in rows
    assert "seen" in rows
    rows.drop("seen", "unknown")
    assert "seen" not in rows
    assert "total" in rows
    rows.drop("total")
    assert "total" not in rows
    with pytest.raises(KeyError, match="total"):
        rows.sum(sum_of_total)


def test_an_alias_is_the_array_itself(rows):
    rows.create(total=(), value=1.0)
    rows.alias("made", "total")
    rows.each(add_one)
    assert (values(rows, "total")[0] == 2).all()


@row_work(writes="made")
def add_one(rows: Table) -> None:
    rows.made += 1


def test_work_on_each_row(rows, place, reference):
    views, weights = reference["views"], np.array([1.0, -2.0, 0.5])
    rows.create(total=(), scaled=[(3,), (2,)])
    rows.each(set_total, rows.place(weights))
    rows.each(add_and_scale, 3.0, more=1.0)
    [total], scaled = values(rows, "total"), values(rows, "scaled")
    np.testing.assert_allclose(total, views[0] @ weights + views[1][:, 0], atol=1e-14)
    for array, view in zip(scaled, views, strict=True):
        np.testing.assert_array_equal(array, 3 * view + 1)
    # What is written is there for the next work.
    rows.each(add_and_scale, 0.0)
    np.testing.assert_allclose(values(rows, "total")[0], views[0] @ weights + 2 * views[1][:, 0], atol=1e-14)


@pytest.mark.parametrize("width", [1, WIDTH])
def test_sums_run_over_the_same_blocks_in_the_same_order(rows, place, reference, width):
    for result, expected in zip(rows.wide(width).sum(sums), reference.wide(width).sum(sums), strict=True):
        assert_same(result, expected, place)
    # By hand: pieces are added up to blocks, and these to the sum.
    by_hand = np.zeros(3)
    for b, block in enumerate(row_blocks(N)):
        parts = [reference["views"][0][piece].sum(axis=0) for piece in pieces(block, piece_size(max(3, width)))]
        by_hand = sum(parts[1:], parts[0]) if b == 0 else by_hand + sum(parts[1:], parts[0])
    assert_same(rows.wide(width).sum(sums)[0], by_hand, place)


def test_products(rows, place, reference):
    assert_same(rows.sum(products), reference.sum(products), place)
    views = reference["views"]
    np.testing.assert_allclose(on_host(rows.sum(products)), views[0].T @ views[1], atol=1e-9)


def test_arrays_at_odd_addresses(reference):
    """What another process has sent may lie anywhere, and NumPy would multiply it without BLAS."""
    bytes_of_views = [np.empty(view.nbytes + 1, np.uint8)[1:] for view in reference["views"]]
    odd = [part.view(np.float64).reshape(N, -1) for part in bytes_of_views]
    for part, view in zip(odd, reference["views"], strict=True):
        part[...] = view
    assert not odd[0].flags.aligned
    rows = InMemory(odd[0])
    rows.hold(views=odd)
    np.testing.assert_array_equal(rows.sum(products), reference.sum(products))


def test_products_may_change_rows(rows):
    rows.create(total=())
    square = rows.sum(products_and_total)
    np.testing.assert_allclose(float(square), np.trace(on_host(rows.sum(gram))), rtol=1e-12)
    [total], [first, _] = values(rows, "total"), values(rows, "views")
    np.testing.assert_allclose(total, (first**2).sum(axis=1))


@row_work(reads="views", sets="total", products=True)
def products_and_total(rows: Table) -> Array:
    rows.total[...] = namespace(rows.total).sum(rows.views[0] ** 2, axis=1)
    return namespace(rows.total).sum(rows.total, axis=0)


@row_work(reads="views", products=True)
def gram(rows: Table) -> Array:
    return rows.views[0].T @ rows.views[0]


def test_exact_results(rows):
    np.testing.assert_array_equal(rows.sum(residues), np.bincount(np.arange(N) % 3))


def test_a_later_sum_is_that_of_the_rows_as_they_were(rows, place, reference):
    rows.create(total=())
    weights = np.array([1.0, -2.0, 0.5])
    placed = rows.place(weights.copy())
    rows.each(set_total, placed)
    # Arguments are those of the call, whenever the work is run.
    placed *= 0
    before = rows.sum_later(sum_of_total)
    rows.create(scaled=[(3,), (2,)])
    rows.each(add_and_scale, 1.0)
    after = rows.sum_later(sum_of_total)
    views = reference["views"]
    np.testing.assert_allclose(float(before()), (views[0] @ weights).sum(), rtol=1e-10)
    np.testing.assert_allclose(float(after()), (views[0] @ weights).sum() + views[1][:, 0].sum(), rtol=1e-10)
    assert float(before()) == float(before())


def test_results_are_joined_in_the_order_of_the_rows(rows, place):
    """Whatever the pieces: first row numbers follow each other, and `wide` makes pieces smaller."""
    counts = []
    for width in (1, 10_000):
        found = rows.wide(width).reduce(spans, operator.add)
        firsts, lengths, numbers = map(np.array, zip(*found, strict=True))
        np.testing.assert_array_equal(firsts, numbers)
        np.testing.assert_array_equal(firsts, np.cumsum([0, *lengths[:-1]]))
        assert lengths.sum() == N
        counts.append(len(found))
    assert counts[0] == (1 if place == "torch" else len(list(row_blocks(N))))
    assert counts[1] > counts[0]


def test_wide_rows_are_the_same_rows(rows):
    rows.wide(WIDTH).create(total=(), value=3.0)
    assert "total" in rows
    assert float(rows.sum(sum_of_total)) == 3 * N
    rows.create(scaled=[(3,), (2,)])
    rows.wide(WIDTH).each(add_and_scale, 1.0)
    np.testing.assert_array_equal(values(rows, "scaled")[1], values(rows, "views")[1])


@row_work(reads="views numbers")
def largest(rows: Table, lost: int) -> list[Any]:
    xp = namespace(rows.views[0])
    here = rows.first <= lost < rows.first + len(rows)
    return [xp.max(rows.views[0]), math.nan if here else float(rows.first), int(rows.numbers[-1])]


@pytest.mark.parametrize("lost", [0, N // 2, N - 1])
def test_the_largest_of_each_entry_and_not_a_number_wins(rows, reference, lost):
    value, nan, number = rows.wide(10_000).max(largest, lost)
    assert float(value) == reference["views"][0].max()
    assert math.isnan(nan)
    assert number == N - 1
    assert not math.isnan(rows.max(largest, -1)[1])


@row_work(reads="views")
def positive(rows: Table, scale: float) -> sp.csr_array:
    return sp.csr_array(scale * np.maximum(on_host(rows.views[0]), 0))


@row_work(reads="made")
def column_sums(rows: Table) -> Any:
    return np.asarray(rows.made.sum(axis=0))


def test_make(rows, place, reference):
    rows.make("made", positive, 2.0)
    assert "made" in rows
    np.testing.assert_allclose(rows.sum(column_sums), 2 * np.maximum(reference["views"][0], 0).sum(axis=0), rtol=1e-10)
    rows.drop("made")
    assert "made" not in rows
    # Of an array that no work has used yet.
    rows.create(value=4.0, total=())
    rows.make("made", doubled)
    assert (values(rows, "made")[0] == 8).all()


@row_work(reads="total")
def doubled(rows: Table) -> Array:
    return 2 * rows.total


def test_place(rows, place):
    small = np.arange(6.0).reshape(2, 3)
    placed = rows.place(small)
    assert is_tensor(placed) == (place == "torch")
    np.testing.assert_array_equal(on_host(placed), small)


@row_work(reads="views")
def sums_by_temporaries(rows: Table) -> Array:
    first = rows.views[0]
    squares, halves = rows.room("squares", first.shape, first), rows.room("halves", first.shape[:1], first)
    assert (squares.shape, squares.dtype, halves.shape) == (first.shape, first.dtype, first.shape[:1])
    squares[...] = first * first
    halves[...] = 0.5
    return halves @ squares


def test_temporaries(rows, place, reference):
    result = rows.wide(WIDTH).sum(sums_by_temporaries)
    assert_same(result, reference.wide(WIDTH).sum(sums_by_temporaries), place)
    np.testing.assert_allclose(on_host(result), (reference["views"][0] ** 2).sum(axis=0) / 2, rtol=1e-10)


def test_work_runs_on_whole_arrays_built_by_hand():
    views, numbers = data()
    table = Table(views, numbers, np.empty(N), [], numbers, None, None)
    assert (len(table), table.first) == (N, 0)
    set_total(table, np.ones(3))
    np.testing.assert_allclose(sum_of_total(table), views[0].sum())
    np.testing.assert_allclose(sums_by_temporaries(table), (views[0] ** 2).sum(axis=0) / 2)


# --- Wrong declarations -----------------------------------------------------------------------------------------------


@row_work(reads="views")
def reads_undeclared(rows: Table) -> Any:
    return rows.numbers[0]


@row_work(reads="views numbers")
def writes_what_it_reads(rows: Table) -> float:
    rows.views[1][...] = 0
    return 0.0


@row_work(reads="total")
def adds_to_what_it_reads(rows: Table) -> float:
    rows.total += 1
    return 0.0


@row_work(writes="total")
def binds_another_array(rows: Table) -> float:
    rows.total = rows.total + 1
    return 0.0


def unmarked(rows: Table) -> float:
    return 0.0


@pytest.mark.parametrize(
    ("work", "error", "match"),
    [
        (reads_undeclared, AttributeError, "has no 'numbers' here: does the work declare"),
        (writes_what_it_reads, ValueError, "read-only|declares only to read"),
        (adds_to_what_it_reads, ValueError, "read-only|declares only to read"),
        (binds_another_array, AttributeError, r"write total\[\.\.\.\] ="),
        (unmarked, TypeError, "not marked by row_work"),
    ],
)
def test_wrong_work_fails_wherever_the_rows_are(rows, work, error, match):
    rows.create(total=())
    with pytest.raises(error, match=match):
        rows.sum(work)


def test_an_array_that_the_dataclass_does_not_name():
    with pytest.raises(TypeError, match="Table has no array 'weights'"):

        @row_work(reads="views", writes="weights")
        def work(rows: Table) -> None: ...


@row_work(sets="total counts")
def reads_what_it_sets(rows: Table) -> None:
    rows.total += 1
    rows.counts += 1


@pytest.mark.parametrize("place", IN_PROCESS)
def test_garbage_shows_that_an_array_declared_to_be_set_is_read(rows, monkeypatch):
    rows.create(total=())
    rows.create("int64", counts=())
    monkeypatch.setattr("tensormvc.rows._memory.POISON", False)
    rows.each(reads_what_it_sets)
    [total], [counts] = values(rows, "total"), values(rows, "counts")
    assert (total == 1).all()
    assert (counts == 1).all()
    monkeypatch.setattr("tensormvc.rows._memory.POISON", True)
    rows.each(reads_what_it_sets)
    [total], [counts] = values(rows, "total"), values(rows, "counts")
    assert np.isnan(total).all()
    assert (counts == 0).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("basis", ["agft", "gft-sum"])
@pytest.mark.parametrize("cls", [tm.ESTMC, tm.ASRETR, tm.TLRLF4MVC])
@pytest.mark.parametrize("tensors", [False, True])
def test_no_method_reads_what_it_declares_to_set(cls, basis, tensors, monkeypatch):
    views, _ = tm.datasets.make_multiview(300, n_clusters=3, n_features=(6, 5), random_state=0)
    if tensors:
        torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra 'torch')")
        views = [torch.tensor(view) for view in views]
    fits = []
    for poison in (False, True):
        monkeypatch.setattr("tensormvc.rows._memory.POISON", poison)
        fits.append(cls(3, basis, max_iter=8, random_state=0).fit(views))
    np.testing.assert_array_equal(fits[1].labels_, fits[0].labels_)
    np.testing.assert_array_equal(fits[1].embedding_, fits[0].embedding_)
