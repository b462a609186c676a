import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

from tensormvc.metrics import (
    ari,
    clustering_accuracy,
    clustering_report,
    nmi,
    pairwise_f_score,
    pairwise_precision_recall,
    purity,
)

AVERAGES = ["arithmetic", "geometric", "max", "min"]
ACC, NMI, PURITY, F, P, R, ARI = COLUMNS = ["ACC", "NMI", "Purity", "F-score", "Precision", "Recall", "ARI"]


def all_measures(y, labels, average="arithmetic"):
    precision, recall = pairwise_precision_recall(y, labels)
    measures = clustering_report(y, labels) | {P: precision, R: recall, NMI: nmi(y, labels, average)}
    return {name: measures[name] for name in COLUMNS}


def pairs_of_labels(max_samples=30, max_clusters=6):
    sizes = st.tuples(st.integers(1, max_samples), st.integers(1, max_clusters), st.integers(1, max_clusters))
    return sizes.flatmap(
        lambda s: st.tuples(*[st.lists(st.integers(0, k - 1), min_size=s[0], max_size=s[0]) for k in s[1:]])
    )


# The definitions as literal loops.


def loop_measures(y, labels):
    n = len(y)
    classes, clusters = sorted(set(y)), sorted(set(labels))
    table = [[sum(a == i and b == j for a, b in zip(y, labels, strict=True)) for j in clusters] for i in classes]
    if len(classes) > len(clusters):
        short, long = [list(column) for column in zip(*table, strict=True)], len(classes)
    else:
        short, long = table, len(clusters)
    matched = max(
        sum(row[j] for row, j in zip(short, chosen, strict=True))
        for chosen in itertools.permutations(range(long), len(short))
    )
    pure = sum(max(row[j] for row in table) for j in range(len(clusters)))

    both = in_classes = in_clusters = 0
    for a, b in itertools.combinations(range(n), 2):
        same_class, same_cluster = y[a] == y[b], labels[a] == labels[b]
        both += same_class and same_cluster
        in_classes += same_class
        in_clusters += same_cluster
    precision = both / in_clusters if in_clusters else 1.0
    recall = both / in_classes if in_classes else 0.0
    f_score = 2 * precision * recall / (precision + recall) if precision + recall else 0.0

    # The common pairs less their expectation, over their greatest number less their expectation.
    adjusted = 0.0
    if 1 < len(classes) < n and 1 < len(clusters) < n:
        expected = in_classes * in_clusters / math.comb(n, 2)
        adjusted = (both - expected) / ((in_classes + in_clusters) / 2 - expected)
    return {ACC: matched / n, PURITY: pure / n, F: f_score, P: precision, R: recall, ARI: adjusted}


def loop_nmi(y, labels, average):
    n = len(y)
    p = {i: y.count(i) / n for i in y}
    q = {j: labels.count(j) / n for j in labels}
    if len(p) == 1 or len(q) == 1:
        return 0.0
    joint = list(zip(y, labels, strict=True))
    information = sum(joint.count(ij) / n * math.log(joint.count(ij) / n / p[ij[0]] / q[ij[1]]) for ij in set(joint))
    a, b = (-sum(x * math.log(x) for x in side.values()) for side in (p, q))
    averages = {"arithmetic": (a + b) / 2, "geometric": math.sqrt(a * b), "max": max(a, b), "min": min(a, b)}
    return information / averages[average]


@given(pairs_of_labels())
def test_measures_are_the_definitions(pair):
    expected = loop_measures(*pair)
    measured = all_measures(*pair)
    np.testing.assert_allclose([measured[name] for name in expected], list(expected.values()), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("average", AVERAGES)
@given(pair=pairs_of_labels())
def test_nmi_is_the_definition(average, pair):
    np.testing.assert_allclose(nmi(*pair, average=average), loop_nmi(*pair, average), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("average", AVERAGES)
@given(pair=pairs_of_labels())
def test_scikit_learn_agrees_but_for_one_cluster(average, pair):
    y, labels = pair
    if min(len(set(y)), len(set(labels))) > 1:
        expected = normalized_mutual_info_score(y, labels, average_method=average)
        np.testing.assert_allclose(nmi(y, labels, average), expected, rtol=1e-12, atol=1e-14)
        if max(len(set(y)), len(set(labels))) < len(y):
            np.testing.assert_allclose(ari(y, labels), adjusted_rand_score(y, labels), rtol=1e-13, atol=1e-15)


@given(pairs_of_labels(max_samples=60, max_clusters=20), st.integers(0, 1000))
def test_names_and_order_change_nothing_at_all(pair, seed):
    rng = np.random.default_rng(seed)
    y, labels = map(np.array, pair)
    order = rng.permutation(len(y))
    names = rng.permutation(20)
    words = np.array([f"cluster {i}" for i in rng.permutation(20)], dtype=object)
    for average in AVERAGES:
        assert all_measures(words[y[order]], names[labels[order]], average) == all_measures(y, labels, average)


@given(pairs_of_labels(max_samples=60, max_clusters=20))
def test_symmetry(pair):
    y, labels = pair
    for measure in (clustering_accuracy, pairwise_f_score, ari):
        assert measure(y, labels) == measure(labels, y)
    for average in AVERAGES:
        assert nmi(y, labels, average) == nmi(labels, y, average)
    if max(len(set(y)), len(set(labels))) < len(y):
        assert pairwise_precision_recall(y, labels) == pairwise_precision_recall(labels, y)[::-1]


@given(pairs_of_labels(max_samples=60, max_clusters=20))
def test_ranges_and_order_of_the_averages(pair):
    measured = all_measures(*pair)
    assert all(type(value) is float for value in measured.values())
    assert -0.5 <= measured.pop(ARI) <= 1
    assert all(0 <= value <= 1 for value in measured.values())
    assert 0 < measured[ACC] <= measured[PURITY]
    values = [nmi(*pair, average=average) for average in ("max", "arithmetic", "geometric", "min")]
    assert all(a <= b + 1e-15 for a, b in itertools.pairwise(values))


@given(st.lists(st.integers(0, 9), min_size=3, max_size=60))
def test_a_partition_agrees_with_itself_exactly(y):
    if 1 < len(set(y)) < len(y):
        for average in AVERAGES:
            assert set(all_measures(y, [-i for i in y], average).values()) == {1.0}


@given(pair=pairs_of_labels(max_samples=60, max_clusters=6))
def test_matching_is_the_best_of_all(pair):
    assert clustering_accuracy(*pair) == loop_measures(*pair)[ACC]


def test_matching_of_a_large_table():
    rng = np.random.default_rng(0)
    y, labels = rng.integers(0, 300, 20_000), rng.integers(0, 200, 20_000)
    table = contingency_matrix(y, labels)
    assert clustering_accuracy(y, labels) == table[linear_sum_assignment(table, maximize=True)].sum() / len(y)


def test_parts_that_never_meet_are_matched_apart():
    y, labels = [0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 0]
    measured = clustering_accuracy(
        [3 * part + i for part in range(5) for i in y] + [90, 90, 90, 91, 92],
        [3 * part + i for part in range(5) for i in labels] + [90, 90, 91, 92, 92],
    )
    # Five parts with 4 of 6 right, one class over two clusters with 2 of 3, two classes in one cluster with 1 of 2.
    assert measured == (5 * 4 + 2 + 1) / 35


# Reference numbers. Not compared: the eighth column of `tlr_Clustering8Measure`, the entropy of the prediction, which
# says nothing about the classes and is no measure here; and NaN, where a program failed because there are more
# clusters than classes (ACC of `tlspnm_measures`, every column of `gmc_CalcMeasures`).


@pytest.mark.parametrize(
    ("program", "columns", "average", "fails"),
    [
        ("asr_ClusteringMeasure", COLUMNS, "max", []),
        ("asr_compute_nmi", [NMI], "arithmetic", []),
        ("asr_nmi_sqrt", [NMI], "geometric", []),
        ("tlr_Clustering8Measure", [*COLUMNS, None], "arithmetic", []),
        ("tlspnm_measures", COLUMNS, "arithmetic", [ACC]),
        ("gmc_CalcMeasures", [ACC, NMI, ARI], "arithmetic", [ACC, NMI, ARI]),
    ],
)
def test_reference_programs(shared, program, columns, average, fails):
    reference = np.load(shared / "reference" / "metrics.npz")
    values = reference[program].reshape(20, -1)
    assert values.shape[1] == len(columns)
    for i, row in enumerate(values, start=1):
        y, labels = reference[f"y{i}"], reference[f"p{i}"]
        measured = all_measures(y, labels, average)
        failed = len(set(labels)) > len(set(y))
        for name, expected in zip(columns, row, strict=True):
            if name is None:
                continue
            assert np.isnan(expected) == (failed and name in fails)
            if not np.isnan(expected):
                np.testing.assert_allclose(measured[name], expected, rtol=1e-12, atol=1e-15, err_msg=f"{i} {name}")


@pytest.mark.parametrize(
    ("file", "key", "columns", "average"),
    [
        ("tsvdmsc_lambda0.2", "metrics", [ACC, NMI, ARI, F, P, R], "arithmetic"),
        ("tlspnm_lambda0.2", "metrics", [ACC, NMI, ARI, F, P, R, PURITY], "arithmetic"),
        ("asr_t6_g0", "measure", COLUMNS, "max"),
        ("asr_lowdim_t12_g0", "measure", COLUMNS, "max"),
        ("asr_lowdim_t12_g1e-2", "measure", COLUMNS, "max"),
        ("tlr_run_a", "measure", COLUMNS, "arithmetic"),
        ("tlr_run_b", "measure", COLUMNS, "arithmetic"),
    ],
)
def test_reference_runs(shared, file, key, columns, average):
    y = np.load(shared / "reference" / "subset60.npz")["labels"]
    reference = np.load(shared / "reference" / f"{file}.npz")
    measured = all_measures(y, reference["labels"], average)
    np.testing.assert_allclose([measured[name] for name in columns], reference[key][: len(columns)], rtol=1e-12)


# Degenerate partitions.

SINGLE, ONE, TWO = [0, 1, 2, 3], [0, 0, 0, 0], [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("y", "labels", "expected"),
    [
        (TWO, ONE, {ACC: 0.5, NMI: 0, PURITY: 0.5, F: 0.5, P: 1 / 3, R: 1, ARI: 0}),
        (ONE, TWO, {ACC: 0.5, NMI: 0, PURITY: 1, F: 0.5, P: 1, R: 1 / 3, ARI: 0}),
        (ONE, ONE, {ACC: 1, NMI: 0, PURITY: 1, F: 1, P: 1, R: 1, ARI: 0}),
        (TWO, SINGLE, {ACC: 0.5, NMI: 2 / 3, PURITY: 1, F: 0, P: 1, R: 0, ARI: 0}),
        (SINGLE, TWO, {ACC: 0.5, NMI: 2 / 3, PURITY: 0.5, F: 0, P: 0, R: 0, ARI: 0}),
        (SINGLE, SINGLE, {ACC: 1, NMI: 1, PURITY: 1, F: 0, P: 1, R: 0, ARI: 0}),
        (ONE, SINGLE, {ACC: 0.25, NMI: 0, PURITY: 1, F: 0, P: 1, R: 0, ARI: 0}),
        (SINGLE, ONE, {ACC: 0.25, NMI: 0, PURITY: 0.25, F: 0, P: 0, R: 0, ARI: 0}),
        ([7], ["a"], {ACC: 1, NMI: 0, PURITY: 1, F: 0, P: 1, R: 0, ARI: 0}),
    ],
)
def test_degenerate_partitions(y, labels, expected):
    assert all_measures(y, labels) == pytest.approx(expected, rel=1e-15, abs=0)


def test_keys_of_the_report():
    assert list(clustering_report(TWO, SINGLE)) == ["ACC", "NMI", "Purity", "F-score", "ARI"]
    assert clustering_report(TWO, SINGLE)["NMI"] == nmi(TWO, SINGLE, "arithmetic") != nmi(TWO, SINGLE, "max")


# A million samples: pairs do not overflow, and nothing is samples × samples.


def test_a_million_samples():
    n = 10**6
    halves = np.arange(n) // (n // 2)
    shifted = np.roll(halves, n // 4)
    assert pairwise_precision_recall(np.zeros(n), halves) == (1.0, (n // 2 - 1) / (n - 1))
    assert clustering_report(halves, shifted) == pytest.approx(
        {"ACC": 0.5, "NMI": 0, "Purity": 0.5, "F-score": (n // 4 - 1) / (n // 2 - 1), "ARI": -1 / (n - 2)}, rel=1e-9
    )
    one_moved = halves.copy()
    one_moved[0] = 1
    assert clustering_report(halves, one_moved)["ACC"] == 1 - 1e-6
    assert 0.999 < clustering_report(halves, one_moved)["ARI"] < 1


def test_a_million_clusters():
    n = 10**6
    single = np.arange(n)
    expected = {"ACC": 1, "NMI": 1, "Purity": 1, "F-score": 0, "ARI": 0}
    assert clustering_report(single, single[::-1]) == expected
    expected = {"ACC": 5e-6, "NMI": 2 * math.log(5) / math.log(5 * n), "Purity": 1, "F-score": 0, "ARI": 0}
    assert clustering_report(single % 5, single) == pytest.approx(expected, rel=1e-12)


# What labels may be.


@pytest.mark.parametrize(
    "convert",
    [
        tuple,
        np.array,
        lambda labels: np.array(labels, dtype=np.int8),
        lambda labels: np.array(labels) / 3,
        lambda labels: np.array(labels) > 0,
        lambda labels: [f"class {i}" for i in labels],
        lambda labels: np.array([f"class {i}" for i in labels]),
        lambda labels: np.array([f"class {i}" for i in labels], dtype=object),
        lambda labels: ["1" if i else 1 for i in labels],
        lambda labels: [b"x" if i else "x" for i in labels],
        lambda labels: np.array([(i, "a") for i in labels], dtype="i4,U1"),
        lambda labels: np.array(labels, dtype="datetime64[s]"),
        lambda labels: np.array(labels) * 1j,
        lambda labels: [10**30 + i for i in labels],
        lambda labels: np.ma.masked_array(labels),
    ],
)
def test_labels_of_any_type(convert):
    y, labels = [0, 0, 0, 1, 1, 0, 1], [1, 1, 0, 0, 0, 1, 1]
    expected = all_measures(y, labels)
    for pair in ((convert(y), labels), (y, convert(labels)), (convert(y), convert(labels))):
        assert all_measures(*pair) == expected


def test_labels_of_pandas():
    pd = pytest.importorskip("pandas")
    y, labels = [0, 0, 0, 1, 1, 0, 1], [1, 1, 0, 0, 0, 1, 1]
    words = ["ab"[i] for i in labels]
    expected = all_measures(y, labels)
    for series in (pd.Series(labels, index=range(7, 0, -1)), pd.Series(labels, dtype="Int64"), pd.Series(words)):
        assert all_measures(y, series) == expected
    assert all_measures(pd.Categorical(y), pd.Series(words, dtype="category")) == expected
    assert all_measures(y, pd.Series(words, dtype="string")) == expected
    for missing in (
        pd.Series([0, 1, None]),
        pd.Series([0, 1, None], dtype="Int64"),
        pd.Series(["a", None, "b"], dtype="string"),
        pd.Series(["a", "b", None], dtype="category"),
        pd.Series([pd.NaT, pd.Timestamp(0), pd.Timestamp(1)]),
    ):
        with pytest.raises(ValueError, match=r"labels of shape \(3,\) has 1 missing labels"):
            ari([0, 0, 1], missing)


def test_labels_on_every_backend(backend):
    y, labels = backend.array([0, 0, 1, 1]), backend.array([0, 1, 2, 2])
    assert all_measures(y, labels) == all_measures([0, 0, 1, 1], [0, 1, 2, 2])


def test_input_is_not_modified():
    y, labels = np.array([2, 0, 1, 1]), np.array(["b", "a", "b", "c"], dtype=object)
    y.flags.writeable = labels.flags.writeable = False
    clustering_report(y, labels)


MEASURES = [
    clustering_accuracy,
    nmi,
    purity,
    pairwise_precision_recall,
    pairwise_f_score,
    ari,
    clustering_report,
]


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize(
    ("y", "labels", "message"),
    [
        ([0, 1, 1], [0, 1], r"y has shape \(3,\) and labels has shape \(2,\)"),
        ([], [], "y is empty"),
        ([0, 1], [], "labels is empty"),
        ([[0], [1]], [0, 1], r"y has shape \(2, 1\).*pass y\.ravel\(\)"),
        ([0, 1], [[0, 1], [1, 0]], r"labels has shape \(2, 2\); expected one label per sample"),
        (0, [0], r"y has shape \(\)"),
        ("abc", [0, 1, 2], r"y has shape \(\)"),
        ({0, 1}, [0, 1], r"y has shape \(\)"),
        ([[0], [1, 2]], [0, 1], "y is ragged"),
        ([0, 1, 2], [0, np.nan, np.nan], r"labels of shape \(3,\) has 2 missing labels .* the first for sample 1"),
        (["a", "b", np.nan], [0, 1, 2], r"y of shape \(3,\) has 1 missing labels"),
        ([0, None], [0, 1], r"y of shape \(2,\) has 1 missing labels"),
        (np.array(["2020", "NaT"], dtype="datetime64[D]"), [0, 1], "y of shape .* missing"),
        ([0, 1], np.ma.masked_array([0, 1], mask=[0, 1]), r"labels of shape \(2,\) has masked entries"),
    ],
)
def test_wrong_input(measure, y, labels, message):
    with pytest.raises(ValueError, match=message):
        measure(y, labels)


def test_labels_that_cannot_be_compared():
    for entries in ([[1], [1, 2]], [np.ones(2), np.ones(3)]):
        labels = np.empty(2, dtype=object)
        labels[:] = entries
        with pytest.raises(TypeError, match=r"y has labels that cannot be compared; .*: unhashable"):
            purity(labels, [0, 1])


def test_unknown_average():
    with pytest.raises(ValueError, match="unknown average 'mean'; the names are 'arithmetic', 'geometric'"):
        nmi([0, 1], [0, 1], average="mean")
