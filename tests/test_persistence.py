"""Models in files: restored to the last bit, and nothing but clear errors from files that `save` did not write."""

import dataclasses
import hashlib
import io
import json
import pickle
import struct
import sys
import tracemalloc
import zipfile
from contextlib import nullcontext
from functools import cached_property
from pkgutil import resolve_name

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tensormvc as tm
from tensormvc import persistence
from tensormvc._registry import GRAPHS, METHODS

from .names import BASES

VIEWS, _ = tm.datasets.load_digits_views(120)
SPARSE = (sp.csr_array, sp.csr_matrix, sp.csc_array, sp.csc_matrix)
# What Python itself takes for an empty model: the zip directory, JSON, tracemalloc's own view of imports.
OVERHEAD = 2**20


def assert_same(one, other, where="model"):
    """Both are of the same types and hold the same bits."""
    assert type(one) is type(other), where
    if isinstance(one, np.ndarray | np.generic):
        assert (one.dtype, one.shape) == (other.dtype, other.shape), where
        if one.dtype.hasobject:
            assert one.tolist() == other.tolist(), where
        else:
            assert one.tobytes() == other.tobytes(), where
    elif isinstance(one, SPARSE):
        assert one.shape == other.shape, where
        for part in ("data", "indices", "indptr"):
            assert_same(getattr(one, part), getattr(other, part), f"{where}.{part}")
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), where
        for i, (a, b) in enumerate(zip(one, other, strict=True)):
            assert_same(a, b, f"{where}[{i}]")
    elif isinstance(one, dict):
        assert list(one) == list(other), where
        for key in one:
            assert_same(one[key], other[key], f"{where}[{key!r}]")
    elif isinstance(one, np.random.RandomState):
        assert_same(one.get_state(), other.get_state(), where)
    elif type(one).__module__.startswith("tensormvc"):
        caches = {"_copy", "_key", "_forms"}
        caches |= {name for name, value in vars(type(one)).items() if isinstance(value, cached_property)}
        names = [set(vars(obj)) - caches for obj in (one, other)]
        assert names[0] == names[1], where
        for name in names[0]:
            assert_same(getattr(one, name), getattr(other, name), f"{where}.{name}")
    else:
        assert repr(one) == repr(other), where  # NaN, too


def restored(model, folder):
    tm.save(model, folder / "model.tmvc")
    return tm.load(folder / "model.tmvc")


def manifest_of(path):
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("manifest.json"))


# Round trips.


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("method", "basis"),
    [(method, basis) for method in METHODS if method != "gmc" for basis in (BASES if method == "estmc" else ["agft"])],
)
def test_methods(method, basis, tmp_path):
    estimator = resolve_name(METHODS[method])
    model = estimator(10, basis=basis, max_iter=3, keep="all", random_state=0).fit(VIEWS)
    again = restored(model, tmp_path)
    assert_same(model, again)
    assert repr(again) == repr(model)
    assert again.get_params() == model.get_params()
    tensor = np.random.default_rng(0).normal(size=(120, 5, 4))
    slices = model.basis_.forward(tensor)
    np.testing.assert_array_equal(again.basis_.forward(tensor), slices)
    np.testing.assert_array_equal(again.basis_.inverse(slices), model.basis_.inverse(slices))
    np.testing.assert_array_equal(again.fit_predict(VIEWS), model.labels_)


@pytest.mark.parametrize(
    "model",
    [
        tm.GMC(10),
        tm.MultiViewClustering(random_state=0),
        tm.MultiViewClustering(10, normalisation=["unit", "range", "z-score", "none"], random_state=0),
        tm.MultiViewClustering(10, normalisation={"view 0": "unit"}, random_state=np.random.RandomState(3)),
        tm.ESTMC(10, basis=tm.GFT(tm.SumGraph(5), n_components=20), penalty=tm.penalties.Laplace(0.2), max_iter=200),
        tm.TSVDMVC(10, basis=tm.AGFT(n_anchors=16), view_sizes=(64, 32, 40, 46), random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_other_estimators_and_parameters(model, tmp_path):
    model.fit(np.hstack(VIEWS) if model.view_sizes else VIEWS)
    again = restored(model, tmp_path)
    assert_same(model, again)
    assert set(again.get_params()) == set(model.get_params())


def test_loaded_models_place_new_samples_the_same(tmp_path):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed (extra 'mudata')")
    table = pandas.DataFrame(VIEWS[1]).rename(columns="gradient {}".format)
    table["colour"] = np.array(["red", "blue", None])[np.arange(120) % 3]
    views = {"pixels": sp.csr_array(VIEWS[0]), "table": table, "gaps": VIEWS[2].copy()}
    views["gaps"][:20], views["gaps"][30, 3] = np.nan, np.nan
    first = {name: view[:90] for name, view in views.items()}
    model = tm.MultiViewClustering(5, random_state=0).fit(first)
    again = restored(model, tmp_path)
    assert_same(model, again)
    shuffled = {**views, "table": table[table.columns[::-1]]}
    for samples in (shuffled, {"table": table[90:]}, {"pixels": views["pixels"][90:]}):
        for method in ("predict", "predict_proba", "transform", "outlier_score"):
            assert_same(getattr(model, method)(samples), getattr(again, method)(samples))
    np.testing.assert_array_equal(again.predict(first), model.labels_)
    np.testing.assert_array_equal(again.map_, model.map_)
    np.testing.assert_array_equal(again.labels_at(8), model.labels_at(8))
    assert str(again.explain()) == str(model.explain())
    assert again.explain_sample(3) == model.explain_sample(3)
    assert "gradient 0" in again.explain().features


def test_names_of_features_and_single_precision(tmp_path):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed (extra 'mudata')")
    table = pandas.DataFrame(VIEWS[0].astype(np.float32)).rename(columns="pixel {}".format)
    model = tm.ESTMC(10, max_iter=200, random_state=0).fit(table)
    assert model.feature_names_in_.dtype == object
    assert_same(model, restored(model, tmp_path))


@pytest.mark.parametrize("name", [name for name in tm.penalties.__all__ if name not in ("Penalty", "make_penalty")])
def test_penalties(name, tmp_path):
    assert_same(model := tm.ESTMC(penalty=getattr(tm.penalties, name)()), restored(model, tmp_path))


@pytest.mark.parametrize("graph", GRAPHS)
def test_fitted_graphs_and_bases_on_their_own(graph, tmp_path):
    assert_same(one := resolve_name(GRAPHS[graph])().fit(VIEWS, n_clusters=10), restored(one, tmp_path))
    assert_same(one := tm.GFT(graph=one).fit(VIEWS, n_clusters=10), restored(one, tmp_path))
    tensor = np.random.default_rng(0).normal(size=(120, 2, 2))
    np.testing.assert_array_equal(restored(one, tmp_path).forward(tensor), one.forward(tensor))


def test_every_class_that_a_file_may_name_is_there():
    assert {name: resolve_name(path).__name__ for name, path in persistence._PATHS.items()} == {
        name: name for name in persistence._PATHS
    }
    assert len(persistence._PATHS) == len(set(persistence._PATHS.values()))


def values():
    numbers = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
    types = hnp.boolean_dtypes() | hnp.integer_dtypes() | hnp.floating_dtypes() | hnp.complex_number_dtypes()
    types |= hnp.unicode_string_dtypes(max_len=5) | hnp.byte_string_dtypes(max_len=5) | hnp.datetime64_dtypes()
    arrays = hnp.arrays(types, hnp.array_shapes(min_dims=0, min_side=0, max_side=4))
    arrays |= hnp.arrays(object, hnp.array_shapes(min_dims=0, min_side=0), elements=st.text(st.characters()))
    scalars = types.flatmap(hnp.from_dtype)
    spans = st.builds(slice, st.none() | st.integers(), st.none() | st.integers(), st.none() | st.integers())
    leaves = numbers | arrays | scalars | spans
    return st.recursive(
        leaves,
        lambda items: (
            st.lists(items, max_size=4)
            | st.lists(items, max_size=4).map(tuple)
            | st.dictionaries(st.text() | st.integers(), items, max_size=4)
        ),
        max_leaves=12,
    )


@given(value=values())
def test_values(value, tmp_path_factory):
    model = tm.GMC()
    model.value_ = value
    assert_same(restored(model, tmp_path_factory.mktemp("values")).value_, value)


@pytest.mark.parametrize("kind", SPARSE)
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_sparse_arrays(kind, index, tmp_path):
    model = tm.GMC()
    model.graph_ = kind(np.random.default_rng(0).poisson(0.5, size=(7, 5)).astype(float))
    model.graph_.indices, model.graph_.indptr = model.graph_.indices.astype(index), model.graph_.indptr.astype(index)
    model.empty_ = kind((0, 3))
    assert_same(restored(model, tmp_path), model)


def test_layout_and_shared_arrays_are_kept(tmp_path):
    """The order of the axes in memory decides how products round."""
    model = tm.GMC()
    model.columns_ = np.asfortranarray(np.random.default_rng(0).normal(size=(20, 30)))
    model.both_ = [model.columns_, model.columns_]
    again = restored(model, tmp_path)
    assert again.columns_.flags.f_contiguous
    assert again.both_[0] is again.both_[1] is again.columns_
    assert again.columns_.flags.writeable
    assert len(manifest_of(tmp_path / "model.tmvc")["arrays"]) == 1


def test_caches_are_not_saved(tmp_path, monkeypatch):
    monkeypatch.setattr(tm.GMC, "lazy", cached_property(lambda self: lambda: None), raising=False)
    tm.GMC.lazy.__set_name__(tm.GMC, "lazy")
    model = tm.GMC()
    assert callable(model.lazy)
    assert "lazy" not in vars(restored(model, tmp_path))


def test_tensors_are_brought_to_the_host(tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra 'torch')")
    model = tm.ESTMC(10, basis="gft-sum", max_iter=200, random_state=0, device="cpu").fit(VIEWS)
    model.embedding_ = torch.from_numpy(model.embedding_)
    model.device = torch.device("cpu")
    again = restored(model, tmp_path)
    assert again.device == "cpu"
    assert_same(again.embedding_, model.embedding_.numpy())
    assert_same(again.basis_.eigenvectors_, model.basis_.eigenvectors_)


def test_dask_arrays_are_computed(tmp_path):
    da = pytest.importorskip("dask.array", reason="Dask is not installed (extra 'dask')")
    model = tm.GMC()
    model.labels_ = da.arange(10, chunks=3)
    assert_same(restored(model, tmp_path).labels_, np.arange(10))


# What is saved, and what is not.


class MyBasis(tm.FFT):
    pass


class MyPenalty(tm.penalties.Nuclear):
    pass


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (tm.ESTMC(callback=print), r"^callback is a function .* cannot be saved: set it to None"),
        (tm.MultiViewClustering(progress=lambda *stage: None), "^progress is a function"),
        (tm.ESTMC(basis=MyBasis()), r"^basis is a tests\.test_persistence\.MyBasis, which cannot be saved"),
        (tm.ESTMC(basis=tm.GFT(graph=MyBasis())), r"^basis\.graph is a tests"),
        (tm.ESTMC(penalty=MyPenalty()), r"^penalty is a tests\.test_persistence\.MyPenalty"),
        (type("ESTMC", (tm.ESTMC,), {})(), "^the model is a .*ESTMC, which cannot be saved"),
        ([tm.GMC()], "cannot save list: expected an estimator"),
    ],
)
def test_functions_and_foreign_objects_are_refused(model, message, tmp_path):
    with pytest.raises(TypeError, match=message):
        tm.save(model, tmp_path / "model.tmvc")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "value",
    [
        np.array([{}], dtype=object),
        np.ma.array([1.0, 2.0], mask=[True, False]),
        np.zeros(2, dtype=[("a", float)]),
        np.zeros(1, dtype=[("a", float)])[0],
        {1, 2},
    ],
)
def test_values_without_a_form_in_files_are_refused(value, tmp_path):
    model = tm.GMC()
    model.parts_ = [0, {"a": value}]
    with pytest.raises(TypeError, match=r"^parts_\[1\]"):
        tm.save(model, tmp_path / "model.tmvc")


def test_a_model_that_contains_itself(tmp_path):
    model = tm.GMC()
    model.self_ = [model]
    with pytest.raises(TypeError, match="contains itself"):
        tm.save(model, tmp_path / "model.tmvc")


def test_a_file_is_replaced_at_once_or_stays(tmp_path, monkeypatch):
    path = tmp_path / "model.tmvc"
    tm.save(tm.GMC(3), path)
    tm.save(tm.GMC(4), path)
    first = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(persistence, "_digest", lambda stream: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            tm.save(tm.GMC(5), path)
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == first
    tm.save(tm.load(path), path)
    assert path.read_bytes() == first
    with pytest.raises(ValueError, match="must be a regular file"):
        tm.save(tm.GMC(), "/dev/null")


def test_constant_arrays_do_not_look_like_zip_bombs(tmp_path):
    model = tm.GMC()
    model.zeros_ = np.zeros(10**6)
    assert_same(restored(model, tmp_path), model)
    model.text_ = np.random.default_rng(0).integers(97, 122, 10**5)  # one byte of eight
    restored(model, tmp_path)
    assert (tmp_path / "model.tmvc").stat().st_size < 10**6


def test_ids_of_many_samples(tmp_path, monkeypatch):
    """Arrays of strings are none of the objects in the manifest, whose memory is limited."""
    monkeypatch.setattr(persistence, "_OBJECT_MEMORY", 2**16)
    model = tm.GMC()
    model.sample_ids_ = np.array([f"{i:030}" for i in range(10_000)], dtype=object)
    assert_same(restored(model, tmp_path), model)


def test_manifest(tmp_path):
    model = tm.GMC(10).fit(VIEWS)
    restored(model, tmp_path)
    manifest = manifest_of(tmp_path / "model.tmvc")
    assert set(manifest["versions"]) == {"tensormvc", "numpy", "scipy", "scikit-learn", "python"}
    assert manifest["model"]["class"] == "GMC"
    assert manifest["model"]["parameters"] == model.get_params()
    labels = manifest["arrays"][manifest["model"]["attributes"]["labels_"]["number"]]
    assert labels.pop("crc32")
    assert labels == {"dtype": "<i8", "shape": [120], "bytes": 960}


def test_parameters_that_are_new_since_the_file_was_saved_have_their_defaults(tmp_path):
    path = tmp_path / "model.tmvc"
    tm.save(tm.GMC(4), path)
    forge(path, lambda manifest: manifest["model"]["parameters"].pop("max_iter"))
    assert repr(tm.load(path)) == "GMC(n_clusters=4)"
    assert tm.load(path).max_iter == 20


# Files that `save` did not write. A forged file has all its checksums right.


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    model = tm.ESTMC(10, basis="agft", max_iter=200, random_state=0).fit(VIEWS)
    path = tmp_path_factory.mktemp("models") / "model.tmvc"
    tm.save(model, path)
    return path


def seal(path, content):
    """Write an archive whose comment is empty so far, with the digest of its contents as the comment."""
    content = content[:-2] + struct.pack("<H", 64)
    path.write_bytes(content + hashlib.sha256(content).hexdigest().encode())


def write_archive(path, members):
    """Write (name, bytes) or (name, bytes, compression) as a file with a right digest."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content, *compression in members:
            archive.writestr(name, content, *compression)
    seal(path, stream.getvalue())


def forge(path, change_manifest=lambda manifest: None, change_members=lambda members: None):
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members.pop("manifest.json"))
    change_members(members)
    for entry, content in zip(manifest["arrays"], members.values(), strict=False):
        entry["crc32"] = f"{zipfile.crc32(content):08x}"
    changed = change_manifest(manifest)
    text = changed if isinstance(changed, str) else json.dumps(manifest)
    write_archive(path, [*members.items(), ("manifest.json", text)])


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


class Spy:
    """A pickle that would leave a trace."""

    def __reduce__(self):
        return eval, ("globals().setdefault('_spied', True)",)


@pytest.mark.parametrize("as_stated", [True, False])
def test_nothing_in_a_file_is_executed(as_stated, tmp_path, model_file):
    path = tmp_path / "model.tmvc"
    path.write_bytes(model_file.read_bytes())
    pickled = npy(np.array([Spy()], dtype=object))

    def states(manifest):
        if as_stated:
            manifest["arrays"][0] |= {"dtype": "|O", "shape": [1], "bytes": len(pickled) - 128}

    forge(path, states, lambda members: members.update({"0.npy": pickled}))
    with pytest.raises(ValueError, match=r"model\.tmvc"):
        tm.load(path)
    path.write_bytes(pickle.dumps(Spy()))
    with pytest.raises(ValueError, match=r"model\.tmvc: this is not a model file"):
        tm.load(path)
    import builtins

    assert not hasattr(builtins, "_spied")
    assert "_spied" not in vars(persistence)


@pytest.mark.parametrize("name", ["os.system", "os:system", "subprocess.Popen", "Penalty", "make_penalty", "_Encoder"])
def test_classes_come_from_the_list_alone(name, tmp_path):
    path = tmp_path / "model.tmvc"
    tm.save(tm.GMC(), path)
    forge(path, lambda manifest: manifest["model"].update({"class": name}))
    with pytest.raises(ValueError, match=r"model\.tmvc: .*(which tensormvc .* does not have|do not fit)"):
        tm.load(path)


def test_a_newer_format(tmp_path):
    path = tmp_path / "model.tmvc"
    tm.save(tm.GMC(), path)
    forge(path, lambda manifest: manifest.update(format_version=3, model="of a form that is not known yet"))
    with pytest.raises(ValueError, match=r"model\.tmvc: .* version 3 .* up to 2: update tensormvc"):
        tm.load(path)


def test_arrays_of_strings_in_a_file_of_format_1(tmp_path):
    path = tmp_path / "model.tmvc"
    tm.save(tm.GMC(), path)
    strings = {"type": "strings", "parts": [[1, 2], ["a", "b\0"]]}
    forge(path, lambda manifest: manifest.update(format_version=1) or edit_model(ids_=strings)(manifest))
    assert_same(tm.load(path).ids_, np.array([["a", "b\0"]], dtype=object))


def nested(depth):
    return "[" * depth + "]" * depth


def edit_model(**attributes):
    return lambda manifest: manifest["model"]["attributes"].update(attributes)


def edit_array(**statements):
    return lambda manifest: manifest["arrays"][0].update(statements)


def sparse(shape, *vectors):
    return edit_model(graph_={"type": "csr_array", "parts": [shape, *vectors]})


def array(number):
    return {"type": "array", "number": number}


# Deeper than functions may call each other, so that only the JSON can be read: until Python 3.11, comprehensions were
# calls, too, and the parser had the same limit.
DEEP = 1200 if sys.version_info >= (3, 12) else 900
RANDOM = {"type": "RandomState", "parts": [[0] * 624, 10**6, 0, 0.0]}
EDITS = {
    "not JSON": lambda manifest: "{",
    "a list": lambda manifest: "[]",
    "nested brackets": lambda manifest: nested(10**5),
    "nested values": lambda manifest: edit_model(a=json.loads(nested(DEEP)))(manifest),
    "not a number": lambda manifest: '{"format": NaN}',
    "long number": lambda manifest: f'{{"format": {"9" * 10**4}}}',
    "another format": lambda manifest: manifest.update(format="zip"),
    "version as text": lambda manifest: manifest.update(format_version="1"),
    "no model": lambda manifest: manifest.pop("model"),
    "model is a number": lambda manifest: manifest.update(model=1),
    "model is an array": lambda manifest: manifest.update(model=array(0)),
    "unknown type": edit_model(a={"type": "pickle", "parts": "gASVBAAAAAAAAABLAS4="}),
    "no type": edit_model(a={"parts": []}),
    "unknown array": edit_model(a=array(10**6)),
    "array by text": edit_model(a=array("0.npy")),
    "method": edit_model(fit=1),
    "dunder": edit_model(__init__=1),
    "link that notebooks show": edit_model(__doc_link_template="<script>"),
    "module that notebooks show": edit_model(_doc_link_module="sklearn"),
    "no identifier": edit_model(**{"a b": 1}),
    "unknown parameter": lambda manifest: manifest["model"]["parameters"].update(shell="rm"),
    "attributes of a penalty": edit_model(
        a={"type": "object", "class": "Record", "parameters": {}, "attributes": {"b": 1}}
    ),
    "objects": edit_array(dtype="|O"),
    "structured": edit_array(dtype="i4,i4"),
    "subarray": edit_array(dtype="(100,)f8"),
    "another type": edit_array(dtype=">f8"),
    "long text": edit_array(dtype="<U999999999"),
    "huge shape": edit_array(shape=[10**9, 10**9]),
    "huge dimension": edit_array(shape=[10**30]),
    "negative shape": edit_array(shape=[-1]),
    "shape as text": edit_array(shape=["1"]),
    "size": edit_array(bytes=8),
    "checksum": edit_array(crc32="00000000"),
    "empty and huge": edit_array(shape=[0, 2**62], bytes=0),
    "one array less": lambda manifest: manifest["arrays"].pop(),
    "one array more": lambda manifest: manifest["arrays"].append(manifest["arrays"][0]),
    "arrays are a number": lambda manifest: manifest.update(arrays=3),
    "sparse: not arrays": sparse([3, 3], 1, 2, 3),
    "sparse: shape": sparse([10**12, 3], array(0), array(0), array(0)),
    "slice": edit_model(a={"type": "slice", "parts": [1, 2, 3, 4]}),
    "dict": edit_model(a={"type": "dict", "parts": [[[], 1]]}),
    "scalar": edit_model(a={"type": "scalar", "parts": ["<f8", "00"]}),
    "scalar object": edit_model(a={"type": "scalar", "parts": ["|O", "0000000000000000"]}),
    "strings": edit_model(a={"type": "strings", "parts": [[2], ["a", 1]]}),
    "strings: shape": edit_model(a={"type": "strings", "parts": [[10**9], ["a"]]}),
    "packed strings: not UTF-8": edit_array(strings=[1]),
    "packed strings: shape": edit_array(strings={}),
    "random state": edit_model(a=RANDOM),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_edited_manifests(edit, tmp_path, model_file):
    path = tmp_path / "model.tmvc"
    path.write_bytes(model_file.read_bytes())
    forge(path, edit)
    with pytest.raises(ValueError, match=r"model\.tmvc: ."):
        tm.load(path)


@pytest.mark.parametrize(
    ("data", "indices", "indptr"),
    [
        ([1.0, 2.0], [0, 3], [0, 1, 1, 2]),
        ([1.0, 2.0], [0, -1], [0, 1, 1, 2]),
        ([1.0, 2.0], [0, 1], [0, 2, 1, 2]),
        ([1.0, 2.0], [0, 1], [0, 1, 1, 9]),
        ([1.0, 2.0], [0, 1], [0, 1, 2]),
        ([1.0, 2.0], [0.0, 1.0], [0, 1, 1, 2]),
        (["a", "b"], [0, 1], [0, 1, 1, 2]),
        ([[1.0, 2.0]], [0, 1], [0, 1, 1, 2]),
    ],
)
def test_sparse_arrays_have_no_indices_out_of_bounds(data, indices, indptr, tmp_path):
    model = tm.GMC()
    model.parts_ = [np.array(data), np.array(indices), np.array(indptr)]
    restored(model, tmp_path)
    forge(tmp_path / "model.tmvc", sparse([3, 3], array(0), array(1), array(2)))
    with pytest.raises(ValueError, match=r"model\.tmvc"):
        tm.load(tmp_path / "model.tmvc")


def members_of(path):
    with zipfile.ZipFile(path) as archive:
        return [(name, archive.read(name)) for name in archive.namelist()]


def bomb_member(size):
    """An array of zeros, with a header for `size` bytes."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (size // 8,)})
    return header.getvalue() + bytes(size)


def compressed_strings(members):
    n_bytes = 2 * sum(len(content) for _, content in members)
    content, manifest = npy(np.full(n_bytes, 255, dtype=np.uint8)), json.loads(members[-1][1])
    crc = f"{zipfile.crc32(content):08x}"
    entry = {"dtype": "|u1", "shape": [n_bytes], "bytes": n_bytes, "crc32": crc, "strings": [n_bytes]}
    manifest["arrays"][0] = entry
    return [("0.npy", content, zipfile.ZIP_DEFLATED), *members[1:-1], ("manifest.json", json.dumps(manifest))]


def zip_bomb(members):
    """A file that states all its sizes as they are."""
    content = bomb_member(2**26)
    manifest = json.loads(members[-1][1])
    crc = f"{zipfile.crc32(content):08x}"
    manifest["arrays"][0] = {"dtype": "<f8", "shape": [2**23], "bytes": 2**26, "crc32": crc}
    return [
        ("0.npy", content, zipfile.ZIP_DEFLATED),
        *members[1:-1],
        ("manifest.json", json.dumps(manifest)),
    ]


ARCHIVES = {
    "zip bomb": (zip_bomb, "bytes, more than 100 times"),
    "compressed strings": (compressed_strings, "its strings have"),
    "compressed manifest": (lambda members: [*members[:-1], (*members[-1], zipfile.ZIP_DEFLATED)], "last part"),
    "manifest first": (lambda members: [members[-1], *members[:-1]], "last part"),
    "no manifest": (lambda members: members[:-1], "last part"),
    "empty": (lambda members: [], "not a model file"),
    "only a manifest": (lambda members: members[-1:], "not those that the manifest names"),
    "swapped contents": (
        lambda members: [("0.npy", members[1][1]), ("1.npy", members[0][1]), *members[2:]],
        "0.npy is not the array",
    ),
    "swapped parts": (lambda members: [members[1], members[0], *members[2:]], "not those that the manifest names"),
    "duplicate part": (lambda members: [members[0], *members], "not those that the manifest names"),
    "another part": (lambda members: [("evil.py", b"1"), *members], "not those that the manifest names"),
    "path outside": (
        lambda members: [("../0.npy", members[0][1]), *members[1:]],
        "not those that the manifest names",
    ),
    "longer part": (lambda members: [("0.npy", members[0][1] + b"0"), *members[1:]], "0.npy is not the array"),
    "shorter part": (lambda members: [("0.npy", members[0][1][:-1]), *members[1:]], "0.npy is not the array"),
    "empty part": (lambda members: [("0.npy", b""), *members[1:]], "does not have the contents"),
    "other compression": (lambda members: [(*members[0], zipfile.ZIP_LZMA), *members[1:]], "compressed in a way"),
    "many parts": (lambda members: [(f"{i}.npy", b"") for i in range(20_000)], "more parts"),
    "very many parts": (lambda members: [(f"{i}.npy", b"") for i in range(70_000)], "more parts"),
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(("change", "message"), ARCHIVES.values(), ids=ARCHIVES)
def test_forged_archives(change, message, tmp_path, model_file):
    path = tmp_path / "model.tmvc"
    write_archive(path, change(members_of(model_file)))
    assert peak_memory(path, message) < 2 * stated_bytes(model_file) + OVERHEAD


def test_an_archive_ends_with_the_digest(tmp_path):
    """A longer comment would hide how long the table of contents is."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for i in range(20_000):
            archive.writestr(f"{i}.npy", b"")
    content = stream.getvalue()[:-2] + struct.pack("<H", 164) + bytes(100)
    path = tmp_path / "model.tmvc"
    path.write_bytes(content + hashlib.sha256(content).hexdigest().encode())
    assert peak_memory(path, "this is not a model file") < OVERHEAD


def stated_bytes(path):
    return sum(entry["bytes"] for entry in manifest_of(path)["arrays"])


def peak_memory(path, message=""):
    """Return the most memory that a refused file took."""
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=rf"model\.tmvc: .*{message}"):
            tm.load(path)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_loading_takes_little_more_than_the_arrays(tmp_path):
    model = tm.GMC()
    model.views_ = [np.random.default_rng(v).normal(size=(1000, 1000)) for v in range(4)]
    model.counts_ = np.random.default_rng(0).poisson(0.1, size=(1000, 2000)).astype(float)
    model.names_ = [f"feature {i}" for i in range(20_000)]
    tm.save(model, tmp_path / "model.tmvc")
    tracemalloc.start()
    again = tm.load(tmp_path / "model.tmvc")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert_same(again, model)
    assert peak < 1.2 * stated_bytes(tmp_path / "model.tmvc")


# Values whose Python objects are much larger than their text.
SWOLLEN = {
    "lists": "[],",
    "numbers": "1.5,",
    "strings": '"ab",',
    "tuples": '{"type":"tuple","parts":[]},',
    "dictionaries": '{"type":"dict","parts":[]},',
    "penalties": '{"type":"object","class":"Nuclear","parameters":{},"attributes":{}},',
    "scalars": '{"type":"scalar","parts":["<f8","0000000000000000"]},',
    "unknown classes": '{"type":"object","class":"%d","parameters":{},"attributes":{}},',
}


@pytest.mark.parametrize("item", SWOLLEN.values(), ids=SWOLLEN)
@pytest.mark.parametrize("size", [2**19, 2**23])
def test_memory_of_the_objects_is_bounded_before_they_exist(item, size, tmp_path, monkeypatch):
    """The bound that is computed from the text holds for all kinds of values, and large ones are refused."""
    monkeypatch.setattr(persistence, "_OBJECT_MEMORY", 2**26)
    path = tmp_path / "model.tmvc"
    tm.save(tm.GMC(), path)
    text = item * (size // len(item))
    forge(path, lambda manifest: json.dumps(manifest).replace('"attributes": {', f'"attributes": {{"a": [{text}0]'))
    tracemalloc.start()
    with nullcontext() if size == 2**19 and "%d" not in item else pytest.raises(ValueError, match=r"model\.tmvc"):
        tm.load(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    marks = sum(text.count(mark) for mark in "[{,:")
    bound = 6 * len(text) + 128 * marks
    assert peak < min(bound, persistence._OBJECT_MEMORY) + OVERHEAD
    assert peak < 3 * 2**23 + OVERHEAD or bound <= persistence._OBJECT_MEMORY


@pytest.mark.parametrize("text", ["", "ab", "\u0434", "\u6f22", "\u6f22\u5b57", "a" * 30 + "\U0001f600"])
def test_memory_of_strings_is_bounded(text, tmp_path, monkeypatch):
    path, model = tmp_path / "model.tmvc", tm.GMC()
    model.ids_ = np.full(10**5, text, dtype=object)
    tm.save(model, path)
    size = path.stat().st_size
    tracemalloc.start()
    tm.load(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < min(60 * size, 7 * size + 160 * 10**5) + OVERHEAD
    monkeypatch.setattr(persistence, "available_memory", lambda: 2 * size)
    with pytest.raises(ValueError, match=r"model\.tmvc: its strings take .* free some memory"):
        tm.load(path)


def test_a_model_larger_than_the_memory(model_file, monkeypatch):
    monkeypatch.setattr(persistence, "available_memory", lambda: 10_000)
    with pytest.raises(ValueError, match="10,000 are available"):
        tm.load(model_file)


def test_what_is_not_a_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        tm.load(tmp_path / "nothing.tmvc")
    (tmp_path / "empty.tmvc").touch()
    with pytest.raises(ValueError, match=r"empty\.tmvc: this is not a model file"):
        tm.load(tmp_path / "empty.tmvc")


def flip_bits(content, rng):
    damaged = bytearray(content)
    for position in rng.integers(len(damaged), size=rng.choice([1, 1, 1, 8, 64])):
        damaged[position] ^= 1 << rng.integers(8)
    return bytes(damaged)


def truncate(content, rng):
    return content[: rng.integers(len(content))]


def lose_a_stretch(content, rng):
    start = rng.integers(len(content))
    return content[:start] + content[start + 1 + rng.integers(1000) :]


def zero_a_stretch(content, rng):
    start, length = rng.integers(len(content)), 1 + rng.integers(1000)
    return content[:start] + bytes(len(content[start : start + length])) + content[start + length :]


def swap_stretches(content, rng):
    a, b, c = np.sort(rng.integers(len(content), size=3))
    return content[:a] + content[b:c] + content[a:b] + content[c:]


def append(content, rng):
    return content + rng.bytes(1 + rng.integers(1000))


DAMAGES = [flip_bits, truncate, lose_a_stretch, zero_a_stretch, swap_stretches, append]
AMOUNTS = pytest.mark.parametrize("n_files", [100, pytest.param(2000, marks=pytest.mark.slow)])


@AMOUNTS
def test_damaged_files(n_files, tmp_path, model_file):
    """No damage goes unnoticed."""
    path, content, rng = tmp_path / "model.tmvc", model_file.read_bytes(), np.random.default_rng(0)
    most = 2 * stated_bytes(model_file) + OVERHEAD
    for number in range(n_files):
        damaged = DAMAGES[number % len(DAMAGES)](content, rng)
        path.write_bytes(damaged)
        if damaged != content:
            assert peak_memory(path) < most


@AMOUNTS
def test_damaged_files_with_right_digests(n_files, tmp_path, model_file):
    """Where a forger damages a file, the model is refused, or it is the saved one: some bytes of a zip mean nothing."""
    path, rng = tmp_path / "model.tmvc", np.random.default_rng(1)
    model = tm.load(model_file)
    content = model_file.read_bytes()[:-64]
    most, refused = 2 * stated_bytes(model_file) + OVERHEAD, 0
    for number in range(n_files):
        damaged = DAMAGES[number % len(DAMAGES)](content, rng)
        path.write_bytes(damaged + hashlib.sha256(damaged).hexdigest().encode())
        peaks = []
        # Twice where needed: now and then a table of the interpreter itself grows, such as that of interned strings.
        while len(peaks) < 2 and min(peaks, default=most) >= most:
            tracemalloc.start()
            try:
                assert_same(tm.load(path), model)
            except ValueError as error:
                assert str(error).startswith(f"{path}: ")  # noqa: PT017
                refused += not peaks
            finally:
                peaks.append(tracemalloc.get_traced_memory()[1])
                tracemalloc.stop()
        assert min(peaks) < most
    assert refused > 0.9 * n_files


def mutate(tree, rng):
    """Return a JSON tree with one value replaced, removed or repeated."""
    oddities = [None, True, -1, 10**30, 1e308, "", "x" * 100, [], {}, "|O", [[]], {"type": "array", "number": -1}]
    place, steps = tree, rng.integers(1, 8)
    for _ in range(steps):
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            break
        key = keys[rng.integers(len(keys))]
        if not isinstance(place[key], dict | list) or not place[key] or rng.random() < 0.2:
            action = rng.integers(4)
            if action == 0:
                del place[key]
            elif action == 1 and isinstance(place, list):
                place.insert(key, place[key])
            elif action == 2:
                place[key] = [place[key], place[key]]
            else:
                place[key] = oddities[rng.integers(len(oddities))]
            break
        place = place[key]
    return tree


@AMOUNTS
def test_forged_manifests(n_files, tmp_path, model_file):
    """A forged model is refused or loaded: other errors, and memory beyond what it states, there are none."""
    path, members, rng = tmp_path / "model.tmvc", members_of(model_file), np.random.default_rng(2)
    most, refused = 2 * stated_bytes(model_file) + OVERHEAD, 0
    tm.load(model_file)  # imports what it needs
    for _ in range(n_files):
        manifest = mutate(json.loads(members[-1][1]), rng)
        write_archive(path, [*members[:-1], ("manifest.json", json.dumps(manifest))])
        tracemalloc.start()
        try:
            assert dataclasses.is_dataclass(tm.load(path))
        except ValueError as error:
            assert str(error).startswith(f"{path}: ")  # noqa: PT017
            refused += 1
        finally:
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        assert peak < most
    assert refused > 0.3 * n_files
