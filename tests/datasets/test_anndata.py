"""Files of AnnData and MuData, written by hand and, where they are installed, by the libraries."""

import struct
import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse

from tensormvc.datasets import DataError, RowSource, load_dataset, load_views

h5py = pytest.importorskip("h5py", reason="h5py is not installed (extra 'io')")

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(40, 6)), RNG.normal(size=(40, 9))
Y = np.arange(40) % 3
IDS = [f"cell {i}" for i in range(40)]


def put_frame(file, name, ids, **columns):
    file[f"{name}/_index"] = list(ids)
    file[name].attrs["_index"] = "_index"
    for column, values in columns.items():
        if isinstance(values, tuple):
            file[f"{name}/{column}/codes"], file[f"{name}/{column}/categories"] = values
        else:
            file[f"{name}/{column}"] = values


def put_sparse(file, name, value):
    group = file.create_group(name)
    group["data"], group["indices"], group["indptr"] = value.data, value.indices, value.indptr
    group.attrs["shape"], group.attrs["encoding-type"] = value.shape, f"{value.format}_matrix"


def mudata_file(path, ids_of_b=IDS, order=None, **columns):
    with h5py.File(path, "w") as file:
        file["mod/rna/X"] = A
        put_frame(file, "mod/rna/obs", IDS)
        put_sparse(file, "mod/atac/X", scipy.sparse.csc_array(B[: len(ids_of_b)]))
        put_frame(file, "mod/atac/obs", ids_of_b)
        put_frame(file, "obs", IDS, **columns)
        if order:
            file["mod"].attrs["mod-order"] = order
    return path


def test_modalities_in_their_order(tmp_path):
    views, y = load_views(mudata_file(tmp_path / "a.h5mu", order=["rna", "atac"], cell_type=(Y, ["a", "b", "c"])))
    np.testing.assert_array_equal(views[0], A)
    assert views[1].format == "csr"
    np.testing.assert_array_equal(views[1].toarray(), B)
    np.testing.assert_array_equal(y, Y)


def test_samples_are_matched_by_name(tmp_path):
    views, y = load_views(mudata_file(tmp_path / "a.h5mu", IDS[::-1], ["rna", "atac"], label=Y))
    np.testing.assert_array_equal(views[1].toarray(), B[::-1])
    np.testing.assert_array_equal(y, Y)
    views, _ = load_views(tmp_path / "a.h5mu", views=["rna"], lazy=True)
    assert isinstance(views[0], RowSource)


def test_samples_that_differ(tmp_path):
    path = mudata_file(tmp_path / "a.h5mu", IDS[5:], ["rna", "atac"], label=Y)
    with pytest.raises(DataError, match=r"'rna' and modality 'atac' do not have the same samples.*join='inner'"):
        load_views(path)
    views, y = load_views(path, join="inner")
    assert [view.shape for view in views] == [(35, 6), (35, 9)]
    np.testing.assert_array_equal(views[0], A[5:])
    np.testing.assert_array_equal(y, Y[5:])
    views, y = load_views(path, join="outer")
    assert views[1].format == "csr"
    assert np.isnan(views[1].toarray()[:5]).all()
    np.testing.assert_array_equal(views[1].toarray()[5:], B[:35])


def anndata_file(path, blocks=True, **columns):
    with h5py.File(path, "w") as file:
        file["X"] = A
        put_frame(file, "obs", IDS, **columns)
        if blocks:
            file["obsm/pca"] = A[:, :3]
            put_sparse(file, "obsm/words", scipy.sparse.csr_array(B))
            file["obsm/table/u"], file["obsm/table/v"] = A[:, 0], B[:, 0]
            file["obsm/table"].attrs["column-order"] = ["v", "u"]
    return path


def test_blocks_of_anndata(tmp_path):
    path = anndata_file(tmp_path / "a.h5ad", leiden=Y, kind=np.array(["x", "y", "z"], dtype="S")[Y])
    views, y = load_views(path)
    assert y is None
    np.testing.assert_array_equal(views[0], A[:, :3])
    np.testing.assert_array_equal(views[1], np.column_stack([B[:, 0], A[:, 0]]))
    np.testing.assert_array_equal(views[2].toarray(), B)
    np.testing.assert_array_equal(load_views(path, labels="kind")[1], Y)
    views, y = load_views(path, views=["X", "words"], labels="leiden")
    np.testing.assert_array_equal(views[0], A)
    np.testing.assert_array_equal(y, Y)


def test_matrix_of_anndata_without_blocks(tmp_path):
    views, _ = load_views(anndata_file(tmp_path / "a.h5ad", blocks=False))
    np.testing.assert_array_equal(views, [A])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"views": ["umap"]}, "'umap', which is not in the file.*pca"),
        ({"labels": "tissue"}, "labels='tissue' is not a column of obs, whose columns are leiden"),
    ],
)
def test_names_that_are_not_there(options, message, tmp_path):
    with pytest.raises(DataError, match=message):
        load_views(anndata_file(tmp_path / "a.h5ad", leiden=Y), **options)


def test_cells_without_a_category(tmp_path):
    with pytest.raises(DataError, match="without a category: pass labels=False"):
        load_views(anndata_file(tmp_path / "a.h5ad", label=(Y - 1, ["a", "b"])))


def test_other_hdf5_as_mudata(tmp_path):
    with h5py.File(tmp_path / "a.h5mu", "w") as file:
        file["X1"] = A
    with pytest.raises(DataError, match=r"no group 'mod'.*X1: \(40, 6\)"):
        load_views(tmp_path / "a.h5mu")


def test_damaged_heap_of_texts(tmp_path):
    """The HDF5 library does not come back from a heap whose free space has no length."""
    path = mudata_file(tmp_path / "a.h5mu", order=["rna", "atac"])
    content = path.read_bytes()
    heaps = content.split(b"GCOL\x01\0\0\0")
    assert len(heaps) > 1
    broken = [heaps[0]] + [heap[:8] + b"\0" * 64 + heap[72:] for heap in heaps[1:]]
    path.write_bytes(b"GCOL\x01\0\0\0".join(broken))
    with pytest.raises(DataError, match="heap of texts is damaged"):
        load_views(path)


@pytest.mark.skipif(sys.platform == "win32", reason="no ru_maxrss here")
@pytest.mark.parametrize("chunks", [None, (16,)])
def test_false_length_of_a_text(chunks, tmp_path):
    """The HDF5 library would allocate the two gigabytes that are declared."""
    path = tmp_path / "a.h5ad"
    with h5py.File(path, "w") as file:
        file["X"] = A
        file.create_dataset("obs/_index", data=IDS, dtype=h5py.string_dtype(), chunks=chunks)
    content = path.read_bytes()
    reference = struct.pack("<IQ", len(IDS[3]), content.index(b"GCOL"))
    assert reference in content
    path.write_bytes(content.replace(reference, struct.pack("<I", 2**31 - 1) + reference[4:], 1))
    code = f"""
import resource
from tensormvc.datasets import DataError, load_views
try:
    load_views({str(path)!r})
except DataError as error:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, error)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    memory, message = ended.stdout.split(" ", 1)
    assert "longer than the file" in message
    # It counts what this process held when it started the other one, too.
    assert int(memory) * (1 if sys.platform == "darwin" else 1024) < 2e9


@pytest.mark.parametrize("options", [{"compression": "gzip"}, {"compression": "gzip", "shuffle": True}])
def test_compressed_texts(options, tmp_path):
    with h5py.File(tmp_path / "a.h5ad", "w") as file:
        file["X"] = A
        file.create_dataset("obs/_index", data=IDS, dtype=h5py.string_dtype(), chunks=(16,), **options)
    assert load_dataset(tmp_path / "a.h5ad").sample_ids.tolist() == IDS


@pytest.mark.parametrize("compression", [None, "gzip"])
@pytest.mark.filterwarnings("ignore")
def test_files_of_the_libraries(compression, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        anndata = pytest.importorskip("anndata", reason="anndata is not installed (extra 'mudata')")
        mudata = pytest.importorskip("mudata", reason="mudata is not installed (extra 'mudata')")
    pandas = pytest.importorskip("pandas")
    kinds = pandas.Categorical(np.array(["T", "B", "NK"])[Y])
    obs = pandas.DataFrame({"cell_type": kinds}, index=IDS)
    first = anndata.AnnData(A, obs=obs)
    second = anndata.AnnData(scipy.sparse.csr_matrix(B[::-1]), obs=obs[[]][::-1])
    mudata.MuData({"rna": first, "atac": second}).write(tmp_path / "a.h5mu", compression=compression)
    views, y = load_views(tmp_path / "a.h5mu")
    np.testing.assert_array_equal(views[0], A)
    np.testing.assert_array_equal(views[1].toarray(), B)
    np.testing.assert_array_equal(y, kinds.codes)
    names = {name: features.tolist() for name, features in load_dataset(tmp_path / "a.h5mu").feature_names.items()}
    assert names == {"rna": first.var_names.tolist(), "atac": second.var_names.tolist()}
    first.obsm["pca"], first.obsm["protein"] = A[:, :2], pandas.DataFrame(B[:, :3], index=IDS, columns=list("uvw"))
    first.write_h5ad(tmp_path / "a.h5ad", compression=compression)
    views, y = load_views(tmp_path / "a.h5ad")
    np.testing.assert_array_equal(views[0], A[:, :2])
    np.testing.assert_array_equal(views[1], B[:, :3])
    np.testing.assert_array_equal(y, kinds.codes)
    assert {n: f.tolist() for n, f in load_dataset(tmp_path / "a.h5ad").feature_names.items()} == {
        "protein": list("uvw")
    }
    assert list(load_dataset(tmp_path / "a.h5ad", views=["X"]).feature_names) == ["X"]
