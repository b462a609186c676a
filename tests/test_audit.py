"""Verdicts on clusterers that are known to depend on the order of the rows, or not to."""

import inspect
import re
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.cluster import DBSCAN, HDBSCAN, AgglomerativeClustering, Birch, KMeans, MiniBatchKMeans, SpectralClustering
from sklearn.metrics import adjusted_rand_score, pairwise_distances
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tensormvc as tm
from tensormvc.audit import audit_order, shuffle_sweep
from tensormvc.audit._agreement import mean_and_interval, numbered_by_first, pairwise_ari

from . import textbook

quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
seeds = st.integers(0, 2**32 - 1)


@pytest.fixture(scope="module")
def pixels():
    """The embedded digits as scikit-learn has them: the first of the four views."""
    views, _ = tm.datasets.load_digits_views()
    return views[0]


@pytest.fixture(scope="module")
def few():
    return tm.datasets.load_digits_views(120)


def first_row_decides(views):
    """A clusterer that looks at the order: nearer to the first row than the average, or not."""
    x = views if isinstance(views, np.ndarray) else np.hstack(views)
    distance = np.linalg.norm(x - x[0], axis=1)
    return (distance > distance.mean()).astype(int)


# Verdicts


@pytest.mark.parametrize(
    "estimator",
    [KMeans(10, n_init=1, random_state=0), MiniBatchKMeans(10, random_state=0), Birch(n_clusters=10, threshold=20)],
    ids=lambda e: type(e).__name__,
)
def test_depends_on_the_order(pixels, estimator):
    audit = audit_order(estimator, pixels, n_permutations=6)
    assert audit.order_dependent
    assert audit.repeatable
    assert audit.severity in ("moderate", "severe")
    assert audit.order_ari < 0.95
    assert audit.order_ari_interval[0] <= audit.order_ari <= audit.order_ari_interval[1]
    assert not hasattr(estimator, "labels_"), "the estimator itself is left as it is"


@pytest.mark.filterwarnings("ignore:The default value of `copy`:FutureWarning")
def test_hdbscan_depends_on_the_order_mildly(pixels):
    audit = audit_order(HDBSCAN(), pixels, n_permutations=6)
    assert audit.order_dependent
    assert audit.severity == "mild"
    assert audit.repeatable
    assert (audit.labels == -1).any(), "there is noise"
    counts = [len(set(row) - {-1}) for row in audit.labels.tolist()]
    assert audit.n_clusters_range == (min(counts), max(counts))
    assert np.isnan(audit.seed_ari)


@pytest.mark.parametrize(
    "estimator",
    [AgglomerativeClustering(10), SpectralClustering(10, affinity="nearest_neighbors", random_state=0)],
    ids=lambda e: type(e).__name__,
)
def test_does_not_depend_on_the_order(pixels, estimator):
    audit = audit_order(estimator, pixels, n_permutations=6)
    assert not audit.order_dependent
    assert audit.severity == "none"
    assert audit.order_ari == 1
    assert audit.order_ari_interval == (1, 1)
    assert len(audit.unstable_samples) == 0
    assert_array_equal(audit.sample_instability, np.zeros(len(pixels)))
    assert "same partition" in audit.verdict


@quiet
@pytest.mark.parametrize(("basis", "dependent"), [("fft", True), ("gft-sim", False), ("agft", False)])
def test_tensor_methods_on_sorted_classes(shared, basis, dependent):
    views, y = tm.datasets.load_views(shared / "data" / "MSRCv1.mat")
    assert np.all(np.diff(y) >= 0), "the file is sorted by class"
    # A few rounds show the order as well as all of them.
    estimator = tm.TSVDMVC(7, basis=basis, max_iter=12, random_state=0)
    assert audit_order(estimator, views, n_permutations=3).order_dependent == dependent


@pytest.mark.slow
@pytest.mark.parametrize(("basis", "dependent"), [("fft", True), ("gft-sim", False), ("agft", False)])
def test_tensor_methods_on_sorted_classes_in_full(shared, basis, dependent):
    views, y = tm.datasets.load_views(shared / "data" / "MSRCv1.mat")
    audit = audit_order(tm.TSVDMVC(7, basis=basis, random_state=0), views, n_permutations=6, y=y)
    assert audit.order_dependent == dependent
    assert (audit.order_ari == 1) == (not dependent)
    if dependent:
        assert audit.accuracies[1:].max() < audit.accuracies[0] - 0.1, "the order of the file is a privileged one"


# What is reported


@given(st.integers(2, 6), st.integers(1, 25), st.integers(1, 5), seeds)
def test_agreement_is_the_definition(n_partitions, n, n_clusters, seed):
    rng = np.random.default_rng(seed)
    partitions = [rng.integers(0, n_clusters, n) for _ in range(n_partitions)]
    partitions[-1] = (partitions[0] + 1) % n_clusters  # equal but for the names
    instability = np.zeros(len(partitions[0]))
    aris = pairwise_ari([numbered_by_first(p) for p in partitions], instability)
    expected = [[adjusted_rand_score(a, b) for a in partitions] for b in partitions]
    assert_allclose(aris, expected, atol=1e-12)
    # Exactly 1 for equal partitions, whatever they are, and for no others.
    together = [p[:, None] == p[None, :] for p in partitions]
    assert_array_equal(aris == 1, [[np.array_equal(a, b) for a in together] for b in together])
    assert_allclose(instability, textbook.instability(partitions), atol=1e-12)


def test_agreement_of_many_clusters():
    rng = np.random.default_rng(0)
    partitions = [numbered_by_first(rng.integers(0, 400, 500)) for _ in range(3)]
    instability = np.zeros(500)
    aris = pairwise_ari(partitions, instability)
    assert_allclose(aris[0, 1], adjusted_rand_score(partitions[0], partitions[1]), atol=1e-12)
    assert_allclose(instability, textbook.instability(partitions), atol=1e-12)


def test_interval_covers_the_mean_of_many():
    """Agreement of normal numbers with each other: the interval of 15 of them covers the long-run mean as it says."""

    def table(values):
        return np.exp(-np.abs(values[:, None] - values[None, :]))

    rng = np.random.default_rng(0)
    truth = mean_and_interval(table(rng.normal(size=3000)), rng)[0]
    covered = 0
    for _ in range(200):
        _, (low, high) = mean_and_interval(table(rng.normal(size=15)), rng)
        covered += low <= truth <= high
    # 95 % in the limit; percentile intervals of 15 fall short by some points. Four standard deviations of a count.
    assert covered / 200 > 0.82


def test_interval_of_one_pair_is_that_pair():
    mean, interval = mean_and_interval(np.array([[1.0, 0.3], [0.3, 1.0]]), np.random.default_rng(0))
    assert mean == 0.3
    assert interval == (0.3, 0.3)
    assert np.isnan(mean_and_interval(np.ones((1, 1)), np.random.default_rng(0))[0])


def test_the_first_parameters_are_those_promised():
    parameters = inspect.signature(tm.audit_order).parameters.values()
    promised = "estimator, views, n_permutations=20, random_state=0, y=None, sample_graph=None, n_jobs=None"
    positional = [p.replace(annotation=p.empty) for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert ", ".join(map(str, positional)) == promised


def test_order_and_seed_are_told_apart(few):
    views, y = few
    audit = audit_order(KMeans(10, n_init=1, random_state=3), views, n_permutations=5, y=y)
    x = np.hstack(views)
    labels = [KMeans(10, n_init=1, random_state=3 + i).fit_predict(x) for i in range(5)]
    assert_array_equal(audit.seed_labels, labels)
    assert_array_equal(audit.labels[0], labels[0])
    pairs = [adjusted_rand_score(labels[i], labels[j]) for i in range(5) for j in range(i)]
    assert_allclose(audit.seed_ari, np.mean(pairs))
    pairs = [adjusted_rand_score(audit.labels[i], audit.labels[j]) for i in range(5) for j in range(i)]
    assert_allclose(audit.order_ari, np.mean(pairs))
    expected = [tm.metrics.clustering_accuracy(y, row) for row in audit.labels]
    assert_allclose(audit.accuracies, expected)
    assert "(uses y)" in repr(audit)


def test_frame_has_one_row_per_run(few):
    pd = pytest.importorskip("pandas")
    views, y = few
    frame = audit_order(KMeans(10, n_init=1, random_state=0), views, n_permutations=4, y=y).to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert frame["kind"].tolist() == ["order"] * 4 + ["repeat"] + ["seed"] * 3
    assert frame["permutation"].tolist() == [0, 1, 2, 3, 0, 0, 0, 0]
    assert frame["seed"].tolist() == [0, 0, 0, 0, 0, 1, 2, 3]
    assert frame["ari_to_first"][0] == frame["ari_to_first"][4] == 1
    assert (frame["n_clusters"] == 10).all()
    assert (frame["seconds"] > 0).all()
    assert frame["ACC"].between(0, 1).all()


def test_frames_without_pandas_say_what_to_install(few, monkeypatch):
    audit = audit_order(first_row_decides, few[0], n_permutations=2)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        audit.to_frame()


def test_pictures(few):
    plt = pytest.importorskip("matplotlib.pyplot")
    views, _ = few
    for drawn in (
        audit_order(KMeans(10, n_init=1), views, n_permutations=3).plot(),
        shuffle_sweep(KMeans(10, n_init=1), views, rates=(0, 1), n_repeats=2).plot(),
    ):
        assert isinstance(drawn, plt.Axes)
        plt.close(drawn.figure)


def test_one_line_and_many(few):
    audit = audit_order(KMeans(10, n_init=1), few[0], n_permutations=4, random_state=5)
    assert audit.verdict.count("\n") == 0
    assert re.match(r"KMeans depends on the order of the rows \(\w+\): 4 orders of 120 samples at", audit.verdict)
    text = repr(audit)
    assert text.startswith(audit.verdict)
    assert "5 for all orders, since the clusterer has random_state=None" in text
    assert "8 fits of 120 samples" in text
    assert audit.seed == 5


def test_severity_grows_with_disagreement():
    """Two clusters of 300, of which k samples change sides, decided by the first row: two orders differ in up to 2k."""
    x = np.arange(600.0)[:, None]
    severities = []
    for moved in (0, 2, 10, 150):

        def cluster(rows, moved=moved):
            swapped = (rows[:, 0] - rows[0, 0]) % 600 < moved
            return (rows[:, 0] < 300) ^ swapped

        severities.append(audit_order(cluster, x, n_permutations=8).severity)
    assert severities == ["none", "mild", "moderate", "severe"]


def test_the_samples_that_move_are_named():
    """Two far groups that never change, and one sample that goes with the first row of the table."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(-9, 1, (30, 1)), rng.normal(9, 1, (30, 1)), [[0.0]]])

    def cluster(rows):
        labels = (rows[:, 0] > 0).astype(int)
        labels[rows[:, 0] == 0] = labels[0]
        return labels

    audit = audit_order(cluster, x, n_permutations=10)
    assert audit.unstable_samples[0] == 60
    # Its company changes altogether, that of the others by one of 31.
    assert audit.sample_instability[60] > 0.3
    assert audit.sample_instability[:60].max() < 0.05
    assert len(audit.unstable_samples) == 20


@pytest.mark.parametrize("dtype", [int, float])
def test_cluster_counts_and_noise(dtype):
    x = np.arange(12.0)[:, None]

    def cluster(rows):
        labels = rows[:, 0].astype(dtype) // 4
        return np.where(rows[:, 0] == rows[0, 0], -1, labels)

    audit = audit_order(cluster, x, n_permutations=5)
    assert audit.n_clusters_range == (3, 3)
    assert audit.order_dependent
    assert (audit.labels == -1).sum() == 5


def test_all_noise_is_no_cluster_and_no_difference():
    audit = audit_order(DBSCAN(eps=1e-9), np.arange(20.0)[:, None], n_permutations=3)
    assert audit.n_clusters_range == (0, 0)
    assert not audit.order_dependent
    assert audit.order_ari == 1


def test_numbering_is_no_difference():
    def cluster(rows):
        return (rows[:, 0] + rows[0, 0]) % 3

    audit = audit_order(cluster, np.arange(15.0)[:, None], n_permutations=6)
    assert not audit.order_dependent
    assert len({row.tobytes() for row in audit.labels}) > 1


# What can be audited


def test_functions_with_and_without_a_seed(few):
    views, _ = few
    audit = audit_order(first_row_decides, views, n_permutations=4)
    assert audit.order_dependent
    assert audit.name == "first_row_decides"
    assert audit.seed is None
    assert np.isnan(audit.seed_ari)
    assert audit.seed_labels.shape == (0, 120)

    def seeded(views, random_state=7):
        return KMeans(10, n_init=1, random_state=random_state).fit_predict(np.hstack(views))

    audit = audit_order(seeded, views, n_permutations=4)
    assert audit.seed == 7
    assert not audit.seed_was_set
    assert_array_equal(audit.seed_labels[1], KMeans(10, n_init=1, random_state=8).fit_predict(np.hstack(views)))


def test_chance_that_no_seed_governs_is_noticed():
    rng = np.random.default_rng(0)
    audit = audit_order(lambda rows: rng.integers(0, 3, len(rows)), np.ones((30, 1)), n_permutations=3)
    assert not audit.repeatable
    assert "two runs with the same order and seed differ" in audit.verdict


def test_text_labels_from_a_function():
    def cluster(rows):
        return np.where(rows[:, 0] > 3, "high", "low")

    assert not audit_order(cluster, np.arange(9.0)[:, None], n_permutations=3).order_dependent


def test_pipelines_have_a_seed_inside(few):
    views, _ = few
    audit = audit_order(make_pipeline(StandardScaler(), KMeans(10, n_init=1)), views, n_permutations=3, random_state=11)
    assert audit.seed == 11
    assert audit.seed_was_set
    assert audit.repeatable
    assert audit.seed_ari < 1


def test_views_of_many_kinds_lead_to_the_same_labels(few):
    pd = pytest.importorskip("pandas")
    views, _ = few
    estimator = KMeans(10, n_init=1, random_state=0)
    expected = audit_order(estimator, np.hstack(views), n_permutations=3).labels
    index = [f"sample {i}" for i in range(120)]
    frames = {f"view {v}": pd.DataFrame(view, index=index) for v, view in enumerate(views)}
    sparse = [sp.csr_array(view) for view in views]
    for data in (views, tuple(views), dict(enumerate(views)), frames):
        assert_array_equal(audit_order(estimator, data, n_permutations=3).labels, expected)
    again = audit_order(estimator, sparse, n_permutations=3).labels
    assert all(adjusted_rand_score(a, b) > 0.99 for a, b in zip(again, expected, strict=True))
    alone = audit_order(estimator, [views[0]], n_permutations=3).labels
    assert_array_equal(alone, audit_order(estimator, views[0], n_permutations=3).labels)


def test_distances_are_permuted_on_both_sides(few):
    distances = pairwise_distances(few[0][0])
    estimator = AgglomerativeClustering(10, metric="precomputed", linkage="average")
    audit = audit_order(estimator, distances, n_permutations=4)
    assert not audit.order_dependent
    assert_array_equal(audit.labels[0], estimator.fit_predict(distances))


@quiet
@pytest.mark.parametrize("kind", ["dense", "sparse", "frame"])
def test_a_sample_graph_follows_the_samples(few, kind):
    views, y = few
    graph = tm.ideal_graph(y)
    if kind == "dense":
        graph = graph.toarray()
    elif kind == "frame":
        graph = pytest.importorskip("pandas").DataFrame(graph.toarray())
    estimator = tm.TSVDMVC(10, basis="gft-sim", max_iter=12, random_state=0)
    audit = audit_order(estimator, views, n_permutations=3, sample_graph=graph)
    assert not audit.order_dependent
    assert_array_equal(audit.labels[0], estimator.fit_predict(views, sample_graph=graph))


def test_a_function_gets_the_graph_too():
    graph = np.diag(np.arange(9.0))

    def cluster(rows, sample_graph):
        assert_array_equal(np.diag(sample_graph), rows[:, 0])
        return rows[:, 0] > 3

    assert not audit_order(cluster, np.arange(9.0)[:, None], n_permutations=4, sample_graph=graph).order_dependent


def test_jobs_and_progress(few):
    views, _ = few
    estimator, calls = KMeans(10, n_init=1, random_state=0), []

    def progress(done, total):
        calls.append((done, total))

    one = audit_order(estimator, views, n_permutations=3, progress=progress)
    assert calls == [(i, 6) for i in range(1, 7)]
    two = audit_order(estimator, views, n_permutations=3, n_jobs=2, progress=progress)
    assert calls[6:] == calls[:6]
    assert_array_equal(two.labels, one.labels)


def test_the_same_seed_gives_the_same_audit(few):
    estimator = KMeans(10, n_init=1, random_state=np.random.RandomState(4))
    first, second = (audit_order(estimator, few[0], n_permutations=4, random_state=2) for _ in range(2))
    assert_array_equal(first.labels, second.labels)
    assert first.order_ari_interval == second.order_ari_interval
    assert first.repeatable


def test_interrupts_pass():
    def cluster(rows):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        audit_order(cluster, np.ones((5, 1)), n_permutations=2)


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"estimator": KMeans}, TypeError, "instance with fit_predict"),
        ({"estimator": StandardScaler()}, TypeError, "not a clusterer"),
        ({"n_permutations": 1}, ValueError, "n_permutations must be an integer of at least 2, got 1"),
        ({"y": [0, 1]}, ValueError, "y has 2 labels for 6 samples"),
        ({"sample_graph": np.eye(5)}, ValueError, r"sample_graph has shape \(5, 5\)"),
        ({"estimator": lambda rows: [0, 1]}, ValueError, "2 labels for 6 samples"),
        ({"estimator": lambda rows: [np.nan] * 6}, ValueError, "missing labels"),
        ({"sample_graph": np.eye(6)}, TypeError, "unexpected keyword argument 'sample_graph'"),
        ({"views": [np.ones((6, 1)), np.ones((5, 1))]}, ValueError, "different numbers of samples"),
    ],
)
def test_wrong_input_gets_a_clear_error(arguments, error, match):
    with pytest.raises(error, match=match):
        audit_order(**{"estimator": KMeans(2), "views": np.eye(6), **arguments})


# The sweep


@quiet
@pytest.mark.parametrize("basis", ["fft", "gft-sim", "agft"])
def test_sweep_over_shuffle_rates(shared, basis):
    views, y = tm.datasets.load_views(shared / "data" / "MSRCv1.mat")
    estimator = tm.TSVDMVC(7, basis=basis, max_iter=12, random_state=0)
    sweep = shuffle_sweep(estimator, views, y, rates=(0, 0.5, 1), n_repeats=2)
    assert sweep.accuracy.shape == sweep.ari.shape == sweep.ctv.shape == (3, 2)
    assert np.all(np.diff(sweep.ctv.mean(axis=1)) > 0)
    assert_array_equal(sweep.ari[0], [1, 1])
    if basis == "fft":
        assert np.all(np.diff(sweep.low_frequency_share.mean(axis=1)) < 0)
        assert sweep.ari[2].max() < 0.9
    else:
        assert np.ptp(sweep.low_frequency_share) < 1e-6
        assert_array_equal(sweep.ari, np.ones((3, 2)))
        assert np.ptp(sweep.accuracy) == 0


@pytest.mark.slow
@pytest.mark.parametrize("data", ["MSRCv1", "NGs"])
@pytest.mark.parametrize("basis", ["fft", "gft-sim", "agft"])
def test_sweep_in_full(shared, basis, data):
    views, y = tm.datasets.load_views(shared / "data" / f"{data}.mat")
    estimator = tm.TSVDMVC(len(np.unique(y)), basis=basis, random_state=0)
    sweep = shuffle_sweep(estimator, views, y, rates=(0, 0.3, 0.6, 1), n_repeats=2)
    assert np.all(np.diff(sweep.ctv.mean(axis=1)) > 0)
    if basis == "fft":
        assert np.all(np.diff(sweep.low_frequency_share.mean(axis=1)) < 0)
        # With the default weight of the error, t-SVD-MVC under the FFT finds nothing in NGs in any order.
        assert data == "NGs" or sweep.accuracy[3].max() < sweep.accuracy[0].min() - 0.1
    else:
        assert np.ptp(sweep.low_frequency_share) < 1e-6
        assert np.ptp(sweep.accuracy) == 0


def test_sweep_measures_the_similarity_tensor(few):
    views, _ = few
    sweep = shuffle_sweep(first_row_decides, views, rates=(0, 0.5), n_repeats=2, random_state=3)
    tensor = tm.diagnostics.similarity_tensor(views)
    assert_allclose(sweep.ctv[0], tm.diagnostics.circular_total_variation(tensor))
    assert_allclose(sweep.low_frequency_share[0], tm.diagnostics.low_frequency_share(tensor, "fft"))
    rows, _, order = tm.datasets.shuffle_samples(views, rate=0.5, random_state=np.random.RandomState(3))
    tensor = tm.diagnostics.similarity_tensor(rows)
    assert_allclose(sweep.ctv[1, 0], tm.diagnostics.circular_total_variation(tensor))
    assert_array_equal(sweep.labels[1, 0][order], first_row_decides(rows))
    assert sweep.accuracy is None
    assert sweep.basis == "FFT()"
    assert sweep.n_samples == 120


def test_sweep_as_table_and_text(few):
    pytest.importorskip("pandas")
    views, y = few
    sweep = shuffle_sweep(KMeans(10, n_init=1), views, y, rates=(0, 0.2, 1), n_repeats=3)
    frame = sweep.to_frame()
    assert frame["rate"].tolist() == [0, 0, 0, 0.2, 0.2, 0.2, 1, 1, 1]
    assert_array_equal(frame["ctv"].to_numpy().reshape(3, 3), sweep.ctv)
    assert_array_equal(frame["ACC"].to_numpy().reshape(3, 3), sweep.accuracy)
    assert "ACC (uses labels)" in repr(sweep)
    assert len(repr(sweep).splitlines()) == 5


@pytest.mark.parametrize("estimator", [tm.GMC(10), tm.ESTMC(10, basis="fft-view", max_iter=3, random_state=0)])
@quiet
def test_sweep_without_a_basis_along_the_samples_shows_the_fft(few, estimator):
    sweep = shuffle_sweep(estimator, few[0], rates=(1,), n_repeats=1)
    assert sweep.basis == "FFT()"
    assert_array_equal(sweep.ari, [[1]])


def test_sweep_refuses_wrong_input():
    with pytest.raises(ValueError, match="n_repeats"):
        shuffle_sweep(first_row_decides, np.eye(4), n_repeats=0)
    with pytest.raises(ValueError, match="rate must be between 0 and 1"):
        shuffle_sweep(first_row_decides, np.eye(4), rates=(0, 1.5))
    for rates in ((), 0.5):
        with pytest.raises(ValueError, match="rates must be a list"):
            shuffle_sweep(first_row_decides, np.eye(4), rates=rates)


def test_tables_are_audited_as_they_are():
    pd = pytest.importorskip("pandas", reason="pandas is not installed (extra 'mudata')")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=40), "kind": ["u", "v"] * 20}, index=[f"s{i}" for i in range(40)])
    columns = []

    class OnColumns(KMeans):
        def fit_predict(self, X, y=None):
            columns.append(list(X.columns))
            return super().fit_predict(X[["a"]])

    audit_order(OnColumns(2, n_init=1, random_state=0), table, n_permutations=2)
    assert columns[0] == ["a", "kind"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        audit = audit_order(tm.MultiViewClustering(2, random_state=0), {"t": table}, n_permutations=2)
        assert not audit.order_dependent
        with pytest.raises(ValueError, match="the tables list different samples"):
            audit_order(tm.MultiViewClustering(2, random_state=0), {"t": table, "u": table[["a"]][:30]})
