"""Scalings: the formulas, dense and sparse, one sample alone, and degenerate views."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import MinMaxScaler, StandardScaler, normalize

from tensormvc.auto import suggest_scaling
from tensormvc.auto._looks import gather_looks
from tensormvc.auto._scaling import RECIPES, fit_and_scale, lean, refuse_sizes, suitable_scalings, usual_scaling
from tensormvc.metrics import clustering_accuracy
from tensormvc.views import as_views

from .data import fit, quiet_fit


def fit_scaling(view, name):
    return fit_and_scale(view, name)[0]


def unit(values):
    """Samples at unit length, except where there is nothing but one feature."""
    return normalize(values) if values.shape[1] > 1 else values


def whitened(values):
    """The principal components, each divided by the root of its variance plus the mean variance."""
    pca = PCA().fit(values)
    n, d = values.shape
    variances = pca.explained_variance_ * (n - 1) / n
    return unit(pca.transform(values) / np.sqrt(variances + variances.sum() / min(n, d)))


def centred(values):
    return values - values.mean(axis=0)


def tf_idf(values):
    return TfidfTransformer(sublinear_tf=True, norm=None).fit_transform(sp.csr_matrix(values)).toarray()


FORMULAS = {
    "none": lambda x: x,
    "unit": unit,
    "centred": lambda x: unit(centred(x)),
    "z-score": lambda x: StandardScaler().fit_transform(x),
    "z-score-unit": lambda x: unit(StandardScaler().fit_transform(x)),
    "range": lambda x: unit(MinMaxScaler().fit_transform(x)),
    "root": lambda x: unit(np.sqrt(x)),
    "tf-idf": lambda x: unit(tf_idf(x)),
    "lsi": lambda x: unit(tf_idf(x)),
    "log-counts": lambda x: centred(np.log1p(x / np.maximum(x.mean(axis=1, keepdims=True), 1e-300))),
    "log-ratio": lambda x: centred(np.log1p(x) - np.log1p(x).mean(axis=1, keepdims=True)),
    "whitened": whitened,
    "z-score-whitened": lambda x: whitened(StandardScaler().fit_transform(x)),
    "root-whitened": lambda x: whitened(np.sqrt(x)),
}


def counts(n_samples, n_features, seed):
    """Counts whose samples and features differ; none is constant."""
    rng = np.random.default_rng(seed)
    view = rng.poisson(rng.gamma(2, 2, size=n_features), size=(n_samples, n_features)).astype(float)
    view[0] += 1
    view[1, :] = 0
    return view


def similarities(view):
    """The inner products of the samples, which rotations and signs of components leave as they are."""
    view = view.toarray() if sp.issparse(view) else view
    return view @ view.T


def test_every_recipe_has_a_formula():
    assert set(FORMULAS) == set(RECIPES)


@pytest.mark.parametrize("width", [1, 2, 3, 5, 12, 60])
@pytest.mark.parametrize("name", RECIPES)
def test_scalings_are_their_formulas(name, width):
    view = counts(40, width, seed=width)
    expected = FORMULAS[name](view)
    size = np.sqrt((expected**2).sum() / len(view)) or 1
    dense = fit_scaling(view, name)
    scaled = dense.apply(view)
    # Eigenvectors of small matrices, and roots.
    np.testing.assert_allclose(similarities(scaled), similarities(expected / size), rtol=1e-9, atol=1e-9)
    if not RECIPES[name].components:
        np.testing.assert_allclose(scaled, expected / size, rtol=1e-12, atol=1e-12)
    sparse = fit_scaling(sp.csr_array(view), name).apply(sp.csr_array(view))
    np.testing.assert_allclose(similarities(sparse), similarities(scaled), rtol=1e-9, atol=1e-9)


@given(st.sampled_from(list(RECIPES)), st.integers(1, 40), st.integers(0, 10**6), st.booleans())
def test_a_sample_alone_is_scaled_as_in_a_batch(name, width, seed, sparse):
    view = counts(30, width, seed)
    scaling = fit_scaling(view[:20], name)
    form = sp.csr_array if sparse else np.asarray
    batch = scaling.apply(form(view), one_by_one=True)
    alone = [scaling.apply(form(view[[i]]), one_by_one=True) for i in range(len(view))]
    if sp.issparse(batch):
        batch, alone = batch.toarray(), [row.toarray() for row in alone]
    np.testing.assert_array_equal(np.vstack(alone), batch)


@given(
    st.sampled_from(list(RECIPES)),
    st.integers(1, 5),
    st.sampled_from([0.0, 1.0, 3.7, 1e-9, 1e6]),
    st.integers(1, 8),
    st.booleans(),
)
@pytest.mark.filterwarnings("error")
def test_constant_views_stay_constant(name, width, value, n_samples, sparse):
    view = np.full((n_samples, width), value)
    view = sp.csr_array(view) if sparse else view
    scaled = fit_scaling(view, name).apply(view)
    scaled = scaled.toarray() if sp.issparse(scaled) else scaled
    assert np.isfinite(scaled).all()
    assert np.array_equal(scaled, np.broadcast_to(scaled[0], scaled.shape))


@pytest.mark.parametrize("name", RECIPES)
def test_constant_features_add_nothing_but_a_constant(name):
    view = counts(40, 6, seed=0)
    view[:, 2] = 4
    view[:, 5] = 0
    scaled = fit_scaling(view, name).apply(view)
    assert np.isfinite(scaled).all()
    if RECIPES[name].shift == "mean" and RECIPES[name].values in ("", "root"):
        without = np.delete(view, [2, 5], axis=1)
        expected = fit_scaling(without, name).apply(without)
        ours = similarities(scaled)
        if RECIPES[name].components:
            # Their variance of 0 lowers the mean variance, and with it what whitening leaves of the differences.
            assert np.corrcoef(ours.ravel(), similarities(expected).ravel())[0, 1] > 0.98
        else:
            np.testing.assert_allclose(ours, similarities(expected), rtol=1e-9, atol=1e-9)


def test_views_far_from_the_origin_keep_their_components():
    """Centring after products would lose a variance of 1 beside a mean of 10⁷."""
    view = np.random.default_rng(0).normal(size=(50, 4))
    near, far = (fit_scaling(x, "whitened").apply(x) for x in (view, view + 1e7))
    # Values of 10⁷ are rounded to 10⁻⁹.
    np.testing.assert_allclose(similarities(far), similarities(near), atol=1e-7)


def test_the_mean_squared_length_is_one():
    view = counts(40, 6, seed=0)
    for name in RECIPES:
        scaled = fit_scaling(view, name).apply(view)
        assert (scaled**2).sum() / 40 == pytest.approx(1)


def test_scalings_suit_the_values():
    rng = np.random.default_rng(0)
    normal = rng.normal(size=(30, 5))
    assert not {"root", "tf-idf", "log-counts", "log-ratio"} & set(suitable_scalings(normal))
    assert "root" in suitable_scalings(abs(normal))
    assert "log-ratio" not in suitable_scalings(abs(normal))
    few = sp.csr_array(rng.poisson(0.03, size=(80, 400)).astype(float))
    assert {"tf-idf", "lsi", "log-counts", "log-ratio", "root"} <= set(suitable_scalings(few))
    assert not {"z-score", "centred", "range"} & set(suitable_scalings(few))
    assert usual_scaling(normal) == suggest_scaling(normal)[0] == "z-score"
    assert usual_scaling(rng.normal(size=(5, 30))) == "z-score-unit"
    assert usual_scaling(few) == suggest_scaling(few.toarray())[0] == "tf-idf"
    assert usual_scaling(few * 0.5) == "unit"


def test_gaps_leave_counts_counts():
    values = counts(60, 5, seed=0)
    completed = values.copy()
    completed[:2, 0] += 0.25
    assert "log-counts" in suitable_scalings(completed, n_gaps=2)
    assert "log-counts" not in suitable_scalings(completed, n_gaps=1)
    values[3, 2] = np.nan
    # Of other values, as many as are missing may be no zeros.
    rng = np.random.default_rng(0)
    others = np.where(rng.random((60, 5)) < 0.1, rng.lognormal(size=(60, 5)), 0)
    others[rng.random((60, 5)) < 0.3] = np.nan
    assert "counts" not in [look.name for look in quiet_fit([others], 2).report_.looks]
    assert "counts" in [look.name for look in quiet_fit([values], 2).report_.looks]


@pytest.mark.parametrize("scale", [1e-40, 1e-16, 1e-15, 1, 1e20])
@pytest.mark.parametrize("name", [name for name, recipe in RECIPES.items() if recipe.unit and not recipe.values])
def test_units_of_measurement_do_not_matter(name, scale):
    """Samples of very different lengths, one of which is the mean of all."""
    rng = np.random.default_rng(0)
    values = abs(rng.normal(size=(40, 6))) * 10 ** rng.uniform(-1, 1, (40, 1))
    values = np.vstack([values, values.mean(axis=0)])
    expected, scaled = fit_and_scale(values, name)[1], fit_and_scale(values * scale, name)[1]
    # Rounding of the principal components; their signs are arbitrary.
    np.testing.assert_allclose(scaled @ scaled.T, expected @ expected.T, rtol=1e-9, atol=1e-9)
    assert np.linalg.norm(scaled[-1]) < 1e-9 or RECIPES[name].shift != "mean"
    lengths = np.linalg.norm(scaled[:-1], axis=1)
    np.testing.assert_allclose(lengths, lengths[0], rtol=1e-12)
    tensor = torch_scaled(values * scale, name)
    np.testing.assert_allclose(tensor, scaled, rtol=1e-9, atol=1e-9)


def torch_scaled(values, name):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra 'torch')")
    scaling = fit_scaling(values, name)
    return scaling.on(torch.device("cpu")).apply(torch.asarray(values)).numpy()


def test_views_with_few_values_are_kept_sparse():
    view = np.zeros((10, 20))
    view[:, 0] = 1
    assert sp.issparse(lean(view))
    np.testing.assert_array_equal(lean(view).toarray(), view)
    view[:, 1] = 1
    assert not sp.issparse(lean(view))
    assert lean(np.asfortranarray(view)).flags.c_contiguous


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_values_that_have_no_squares_are_refused(form):
    def refuse(tiny=True, **rows):
        views = as_views({name: form([row, row]) for name, row in rows.items()}, unit=False, lenient=True)
        refuse_sizes(views.sizes.max(axis=0), views.names, tiny=tiny)

    with pytest.raises(ValueError, match=r"^b has values of size 1e\+300: multiply it"):
        refuse(a=[1, 1], b=[0, -1e300])
    with pytest.raises(ValueError, match=r"^a has values of size 1e-300: multiply it"):
        refuse(a=[0, -1e-300])
    refuse(a=[0, -1e-300], tiny=False)
    refuse(a=[1, -1e-300], b=[0.0, 0], c=[np.nan, 1])


@pytest.mark.parametrize("name", RECIPES)
def test_a_scaling_can_be_asked_for(name):
    views = as_views([counts(30, 5, seed=0), counts(30, 4, seed=1)], unit=False)
    for asked in ({"view 1": name}, ["auto", name], name):
        for look in gather_looks(views, asked):
            chosen = {choice.view: choice for choice in look.choices}
            assert (chosen["view 1"].name, chosen["view 1"].meaning) == (name, RECIPES[name].meaning)
            assert asked != name or chosen["view 0"].name == name


def test_wrong_scalings_are_named():
    views = [counts(30, 5, seed=0), counts(30, 4, seed=1)]
    with pytest.raises(ValueError, match="unknown normalisation 'l2'"):
        fit(views, 2, normalisation="l2")
    with pytest.raises(ValueError, match="one for each of the 2 views"):
        fit(views, 2, normalisation=["unit"])
    with pytest.raises(ValueError, match="no view named 'x'"):
        fit(views, 2, normalisation={"x": "unit"})


@pytest.mark.parametrize("name", ["root", "root-whitened", "tf-idf", "lsi", "log-counts", "log-ratio"])
def test_scalings_of_counts_refuse_negative_values(name):
    views = {"a": counts(30, 5, seed=0), "b": counts(30, 4, seed=1)}
    views["b"][3, 2] = -1
    with pytest.raises(ValueError, match=f"b has negative values, but normalisation='{name}' is for values from 0 on"):
        fit(views, 2, normalisation={"b": name})


def test_a_single_feature_is_not_reduced_to_its_sign():
    """At unit length, four clusters of one feature would be two."""
    rng = np.random.default_rng(0)
    y = np.arange(80) % 4
    views = [(slope * y + 0.1 * rng.normal(size=80))[:, None] for slope in (1, 3)]
    assert clustering_accuracy(y, fit(views, 4).labels_) == 1
    for name, recipe in RECIPES.items():
        if not recipe.values:
            assert len(np.unique(fit_scaling(views[0], name).apply(views[0]))) == 80
