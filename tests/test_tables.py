"""DataFrames with categorical columns, AnnData and MuData objects."""

import warnings
from contextlib import nullcontext

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import tensormvc as tm
from tensormvc.views import as_views, encode_table

pd = pytest.importorskip("pandas", reason="pandas is not installed")


def lenient(views, **options):
    return as_views(views, unit=False, lenient=True, **options)


def patients():
    return pd.DataFrame(
        {
            "sex": pd.Categorical(["f", "m", "f", None, "m", "f"], categories=["unknown", "m", "f"]),
            "age": [50, 61, 47, 52, 39, 70],
            "smoker": [True, False, None, True, True, False],
            "site": ["B", "A", "A", "C", "B", np.nan],
            "grade": pd.Categorical(pd.array([1, 2, 1, 2, None, 1], dtype="Int64")),
        },
        index=[f"p{i}" for i in range(6)],
    ).assign(site=lambda frame: frame["site"].replace("C", "B"))


def test_categories_become_columns():
    values, names, categories = encode_table(patients())
    assert names.tolist() == ["age", "smoker", "sex=f", "sex=m", "site=A", "site=B", "grade=1", "grade=2"]
    assert dict(categories) == {"sex": ["f", "m"], "site": ["A", "B"], "grade": ["1", "2"]}
    nan = np.nan
    expected = [
        [50, 1, 1, 0, 0, 1, 1, 0],
        [61, 0, 0, 1, 1, 0, 0, 1],
        [47, nan, 1, 0, 1, 0, 1, 0],
        [52, 1, nan, nan, 0, 1, 0, 1],
        [39, 1, 0, 1, 0, 1, nan, nan],
        [70, 0, 1, 0, nan, nan, 1, 0],
    ]
    np.testing.assert_array_equal(values, expected)
    assert values.dtype == np.float64
    made = lenient({"patients": patients(), "more": np.arange(6.0)[:, None]}, canonical=False, keep_view_order=True)
    np.testing.assert_array_equal(made.arrays[0], expected)
    assert made.feature_names[0].tolist() == names.tolist()
    assert made.categories == (categories, {})
    assert made.n_gaps == (7, 0)


@given(seed=st.integers(0, 10**6))
def test_encoding_does_not_depend_on_the_order_and_repeats_on_new_samples(seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.choice(["x", "yy", "z", None], 20), "b": rng.normal(size=20)})
    frame["c"] = rng.choice([3, 10, 2], 20)
    frame["c"] = frame["c"].astype("category")
    values, names, categories = encode_table(frame)
    order = rng.permutation(20)
    again, names_again, categories_again = encode_table(frame.iloc[order])
    np.testing.assert_array_equal(again, values[order])
    assert names_again.tolist() == names.tolist()
    assert categories_again == categories
    for row in range(20):  # one new sample alone has fewer categories than all of them
        new, new_names, _ = encode_table(frame.iloc[[row]], categories)
        np.testing.assert_array_equal(new, values[[row]])
        assert new_names.tolist() == names.tolist()
    made = lenient({"t": frame.iloc[order]}, categories={"t": categories})
    np.testing.assert_array_equal(made.row_keys, lenient({"t": frame}).row_keys)


def test_new_values_are_none_of_the_categories():
    _, _, categories = encode_table(patients())
    new = patients().iloc[:2].assign(site=["Z", None], sex=["m", "x"])
    values, names, _ = encode_table(new, categories)
    sites = [name.startswith("site=") for name in names]
    np.testing.assert_array_equal(values[:, sites], [[0, 0], [np.nan, np.nan]])
    np.testing.assert_array_equal(values[:, [name.startswith("sex=") for name in names]], [[0, 1], [0, 0]])
    with pytest.raises(ValueError, match="exactly one column 'site'; it has the columns age, smoker"):
        encode_table(new.drop(columns=["sex", "site", "grade"]), {"site": ["A"]})
    with pytest.raises(TypeError, match=r"t: column .b. holds text"):  # a column of numbers when the model was fitted
        lenient({"t": pd.DataFrame({"b": ["x", "x"]})}, categories={"t": {}})


def test_whole_numbers_are_the_same_categories_in_every_type():
    """A column of integers with a missing value is one of floating-point numbers."""
    levels = pd.Series([3, 1, 2, 1, 3, 2])
    values, names, categories = encode_table(pd.DataFrame({"level": levels.astype("category")}))
    assert names.tolist() == ["level=1", "level=2", "level=3"]
    for kind in ("int64", "float64", "Int64", "Float32"):
        new = pd.DataFrame({"level": levels.astype(kind)})
        np.testing.assert_array_equal(encode_table(new, categories)[0], values)


def test_tables_of_numbers_stay_as_they_are():
    frame = pd.DataFrame({"a": [1, 2], "b": [True, False]}).astype({"a": np.float32})
    values, names, categories = encode_table(frame)
    np.testing.assert_array_equal(values, [[1, 1], [2, 0]])
    assert (names.tolist(), categories) == (["a", "b"], {})
    assert encode_table(frame[["a"]])[0].dtype == np.float32
    assert encode_table(pd.DataFrame(np.ones((2, 2))))[1] is None
    nullable = pd.DataFrame({"a": pd.array([True, None], dtype="boolean"), "b": pd.array([None, 3], dtype="Int64")})
    np.testing.assert_array_equal(encode_table(nullable)[0], [[1, np.nan], [np.nan, 3]])
    objects = nullable.astype(object).assign(c=pd.NA)
    np.testing.assert_array_equal(encode_table(objects)[0], [[1, np.nan, np.nan], [np.nan, 3, np.nan]])
    empty = pd.DataFrame({"a": [None, None], "b": pd.Categorical([None, None]), "c": [1.0, 2]})
    np.testing.assert_array_equal(encode_table(empty)[0], [[np.nan, 1], [np.nan, 2]])


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ([f"id{i}" for i in range(120)], ValueError, "'c' has 120 different values in 120 samples.*ids.*index"),
        (pd.Categorical([f"id{i}" for i in range(120)]), ValueError, "'c' has 120 different values"),
        ([f"town {i // 2}" for i in range(120)], ValueError, r"'c' has 60 different.*astype\('category'\)"),
        (pd.date_range("2024", periods=120), TypeError, "'c' holds Timestamp objects.*convert or drop"),
        ([["a list"]] * 120, TypeError, "'c' holds list objects"),
        (["a", 1] * 60, TypeError, "'c' holds int objects"),
        ([1j] * 120, TypeError, "'c' holds complex objects"),
    ],
)
def test_columns_that_are_no_categories(values, error, message):
    frame = pd.DataFrame({"x": np.arange(120.0), "c": values})
    with pytest.raises(error, match=f"view 0: column {message}"):
        lenient([frame])


def test_what_is_declared_may_have_many_categories():
    frame = pd.DataFrame({"town": [f"town {i // 2}" for i in range(120)]}).astype("category")
    values, _, _ = encode_table(frame)
    assert values.shape == (120, 60)
    np.testing.assert_array_equal(values.sum(axis=0), 2)
    with pytest.raises(ValueError, match="exactly one column 'town'"):
        encode_table(pd.concat([frame, frame], axis=1))


def test_the_methods_refuse_text():
    with pytest.raises(TypeError, match=r"view 0: column .sex. holds text.*MultiViewClustering encodes"):
        as_views([patients()])


def test_names_of_views_and_samples_in_every_form():
    """Numbers as names, equal names, tables numbered by text, and pairs as ids."""
    rng = np.random.default_rng(0)
    values = np.repeat(9 * np.eye(3), 10, axis=0) + rng.normal(size=(30, 3))
    with pytest.raises(ValueError, match="two views are called 1"):
        lenient({1: values, "1": values})
    with pytest.raises(ValueError, match="such as 0, those of other views such as '0'"):
        lenient([pd.DataFrame(values), pd.DataFrame(values, index=[str(i) for i in range(30)])])
    pairs = pd.MultiIndex.from_product([range(10), list("abc")])
    model = tm.MultiViewClustering(3, random_state=0).fit({1: pd.DataFrame(values, index=pairs)})
    assert model.sample_ids_[1] == (0, "b")
    assert "(0, 'b')" in str(model.explain())


def test_tables_are_described_and_reported_as_they_are_clustered(tmp_path):
    views = {
        1: pd.concat([patients()] * 5, ignore_index=True),
        2: pd.concat([patients()[["age"]]] * 5).to_numpy(object),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = tm.MultiViewClustering(2, random_state=0).fit(views)
    description = tm.datasets.describe(views)
    assert [(view.name, view.n_features, view.dtype) for view in description.views] == [
        ("1", 8, "float64"),
        ("2", 1, "float64"),
    ]
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (extra 'plot')")
    run = tm.report.ClusterRun("", "x", description, views, model, model.labels_, 1.0)
    assert tm.report.write_cluster_report(tmp_path, run).exists()


# ---------------------------------------------------------------------------------------------------------------------
# AnnData and MuData


@pytest.fixture
def anndata():
    return pytest.importorskip("anndata", reason="anndata is not installed (extra 'mudata')")


@pytest.fixture
def mudata():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("mudata", reason="mudata is not installed (extra 'mudata')")


def cells(anndata, values, ids, prefix):
    part = anndata.AnnData(values)
    part.obs_names, part.var_names = ids, [f"{prefix}{j}" for j in range(values.shape[1])]
    return part


IDS = [f"cell{i}" for i in range(12)]
RNG = np.random.default_rng(0)
RNA, PROTEIN = RNG.poisson(1.0, size=(12, 6)).astype(np.float32), RNG.normal(size=(12, 3))
RNA[:, 0] += 1


def test_anndata_is_a_table(anndata, tmp_path):
    rna = cells(anndata, sp.csr_matrix(RNA), IDS, "gene")
    protein = cells(anndata, PROTEIN[::-1].copy(), IDS[::-1], "protein")
    expected = as_views([RNA, PROTEIN])
    made = as_views({"rna": rna, "protein": protein}, keep_view_order=True, canonical=False)
    assert made.sample_ids.tolist() == IDS
    assert made.feature_names[1].tolist() == ["protein0", "protein1", "protein2"]
    assert sp.issparse(made.arrays[0])
    np.testing.assert_array_equal(as_views([rna, protein]).row_keys, expected.row_keys)
    frame = pd.DataFrame(PROTEIN, index=IDS)
    np.testing.assert_array_equal(as_views([rna, frame.iloc[::-1]]).row_keys, expected.row_keys)
    alone = as_views(rna)
    assert (alone.n_views, alone.widths) == (1, [6])
    assert as_views(rna, view_sizes=[4, 2], keep_view_order=True).feature_names[1].tolist() == ["gene4", "gene5"]
    rna.write_h5ad(tmp_path / "rna.h5ad")
    backed = anndata.read_h5ad(tmp_path / "rna.h5ad", backed="r")
    np.testing.assert_array_equal(as_views(backed).row_keys, alone.row_keys)
    backed.file.close()
    with pytest.raises(ValueError, match=r"rna is an AnnData object without X: .*obsm"):
        as_views({"rna": anndata.AnnData(obs=pd.DataFrame(index=IDS))})


def test_anndata_with_different_cells(anndata):
    rna = cells(anndata, sp.csr_matrix(RNA[:10]), IDS[:10], "gene")
    protein = cells(anndata, PROTEIN[3:], IDS[3:], "protein")
    with pytest.raises(ValueError, match=r"rna and protein do not have the same samples: 3 .*MultiViewClustering"):
        as_views({"rna": rna, "protein": protein})
    made = lenient({"rna": rna, "protein": protein}, canonical=False, keep_view_order=True)
    assert made.sample_ids.tolist() == IDS
    assert np.flatnonzero(made.missing[:, 0]).tolist() == [10, 11]
    assert np.flatnonzero(made.missing[:, 1]).tolist() == [0, 1, 2]
    np.testing.assert_array_equal(made.arrays[0].toarray()[:10], RNA[:10])
    lost = RNA.copy(), PROTEIN.copy()
    lost[0][10:], lost[1][:3] = np.nan, np.nan
    np.testing.assert_array_equal(made.row_keys, lenient(list(lost), canonical=False).row_keys)


def test_modalities_with_different_cells_follow_the_object(anndata, mudata):
    shuffled = np.random.default_rng(1).permutation(9)
    parts = {
        "rna": cells(anndata, RNA[2:], IDS[2:], "gene"),
        "protein": cells(anndata, PROTEIN[:9][shuffled], [IDS[i] for i in shuffled], "protein"),
    }
    with mudata.set_options(pull_on_update=False) if hasattr(mudata, "set_options") else nullcontext():
        data = mudata.MuData(parts)
        data = data[np.random.default_rng(2).permutation(data.n_obs)].copy()
    made = lenient(data, canonical=False, keep_view_order=True)
    assert made.sample_ids.tolist() == data.obs_names.tolist()
    number = [IDS.index(cell) for cell in made.sample_ids]
    np.testing.assert_array_equal(made.missing, np.column_stack([np.array(number) < 2, np.array(number) > 8]))
    for array, lacking, values in zip(made.arrays, made.missing.T, (RNA, PROTEIN), strict=True):
        np.testing.assert_array_equal(array, np.where(lacking[:, None], 0, values[number]))
    assert made.names == ("rna", "protein")
    with pytest.raises(ValueError, match="rna and protein do not have the same samples"):
        as_views(data)


def test_estimators_take_the_objects(anndata):
    views, _ = tm.datasets.load_digits_views(60)
    ids = [f"digit{i}" for i in range(60)]
    parts = {str(v): cells(anndata, view, ids, f"f{v}_") for v, view in enumerate(views[:2])}
    model = tm.TSVDMVC(3, basis="gft-sum", random_state=0, max_iter=20, tol=1)
    expected = model.fit_predict(views[:2])
    np.testing.assert_array_equal(model.fit_predict(parts), expected)
    assert model.fit_predict(parts["0"]).shape == (60,)
