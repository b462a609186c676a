import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from tensormvc import AGFT, DCT, FFT, GFT, TLRLF4MVC, TSVDMVC, TLSpNM, ViewFFT
from tensormvc.bases import make_basis
from tensormvc.datasets import load_digits_views
from tensormvc.graphs import bkhk
from tensormvc.methods._admm import run_admm
from tensormvc.methods._coordinates import (
    Coefficients,
    SampleCoordinates,
    SpanCoordinates,
    coefficients_of,
    is_compressible,
)
from tensormvc.methods._discrete_labels import _smallest_distinct, best_discrete_labels, discrete_labels
from tensormvc.methods._kernel import fit_kernels, ridge_factor, ridge_root
from tensormvc.methods._tlrlf4mvc import BetaSchedule, CodeColumns, _standardise, begin
from tensormvc.methods._tlrlf4mvc import round as code_round
from tensormvc.metrics import ari
from tensormvc.rows import InMemory, SampleRandom, row_blocks
from tensormvc.views import as_views

from .. import textbook
from .test_solvers import Halved, Stretched

NAMES = ("consensus", "low_rank", "low_frequency")


def kernel_features(points, depth, ties):
    """All rows of the kernel features of one view, as it is."""
    views = as_views([points], canonical=False, unit=False)
    views.rows.hold(ties=ties)
    (kernel,) = fit_kernels(views, depth)
    return np.concatenate([kernel.features([views.arrays[0][rows]]) for rows in row_blocks(views.n_samples)])


def factors_of(features, lam):
    return [
        ridge_factor(part, ridge_root(np.float64(part).T @ np.float64(part), lam)).astype(part.dtype)
        for part in features
    ]


def indicators(labels, n_clusters):
    """F, dense."""
    return CodeColumns([], [], np.bincount(labels, minlength=n_clusters).astype(float), []).frequencies(labels)


class Solver:
    """The loop with all that it begins with, and its iterates (n, d, m)."""

    def __init__(self, features, frequencies, basis, *, lam, gamma, start, backend=None, coordinates=None):
        place = backend.array if backend else np.array
        m = len(features)
        self.coordinates = coordinates or SampleCoordinates(basis, len(frequencies))
        into = self.coordinates.into
        tensors = [array.transpose(0, 2, 1) if array.ndim == 3 else np.stack([array] * m, axis=1) for array in start]
        starts = [into(place(array)) for array in (frequencies, *tensors)]
        rows = InMemory(starts[0])
        rows.hold(starts=starts, factors=[into(place(factor)) for factor in factors_of(features, lam)])
        self._run_on(rows, tensors[0].shape[1:], gamma)

    def _run_on(self, rows, shape, gamma):
        self.rows, self.gamma = rows, gamma
        self.coefficients = begin(rows, shape[0], rows["starts"][0].shape[1], shape[1])

    @classmethod
    def in_span(cls, span, shape, gamma):
        solver = object.__new__(cls)
        solver.coordinates = span
        solver._run_on(span.enter(None, None, dtype="float64"), shape, gamma)
        return solver

    def step(self, penalties):
        betas = tuple(penalties[name] for name in NAMES)
        self.coefficients, done = code_round(self.rows, self.coordinates, self.coefficients, self.gamma, betas)
        return done

    def tensor(self, name):
        return self.rows[name].transpose(0, 2, 1)

    @property
    def codes(self):
        return self.tensor("codes")

    @property
    def consensus(self):
        return self.rows["consensus"]


def rows_of_codes(codes, n_starts=1):
    rows = InMemory(codes)
    rows.hold(consensus=codes)
    rows.create("int64", own=(n_starts,))
    return rows


def labels_from(codes, start, n_clusters):
    """Labels of the published rounds from given ones."""
    rows = rows_of_codes(codes)
    discrete_labels(rows, (np.eye(n_clusters)[start].T @ codes)[None])
    return rows["own"][:, 0]


def sample_first(array):
    return np.moveaxis(array, 1, 0)


def relative(array, expected):
    return np.linalg.norm(np.asarray(array) - expected) / np.linalg.norm(expected)


def random_problem(seed, n=20, d=7, m=3, a=5, c=3):
    rng = np.random.default_rng(seed)
    features = [rng.normal(size=(n, a)) / 3 for _ in range(m)]
    features = [part - part.mean(axis=0) for part in features]
    labels = np.concatenate([np.arange(c), rng.integers(c, size=n - c)])
    start = tuple(rng.normal(size=(n, d, m)) for _ in range(3))
    return features, labels, start


@pytest.mark.parametrize(("run", "names"), [("a", ("B0", "C0", "Y0")), ("b", ("Bi", "Ci", "Yi"))])
def test_the_loop_is_the_reference(shared, run, names):
    inputs = np.load(shared / "reference" / "tlr_inputs.npz")
    reference = np.load(shared / "reference" / f"tlr_run_{run}.npz")
    features = [inputs[f"K_v{v}"].T for v in (1, 2, 3)]
    start = tuple(inputs[name].T if inputs[name].ndim == 2 else sample_first(inputs[name]) for name in names)
    solver = Solver(
        features,
        reference["Fin_used"].T,
        FFT().fit(np.empty((60, 64, 3))),
        lam=float(reference["lambda"]),
        gamma=float(reference["gamma"]),
        start=start,
    )
    first_codes = solver.consensus.copy()

    def check(suffix):
        assert relative(solver.consensus, reference[f"B_hat_{suffix}"].T) < 1e-11
        if f"B_{suffix}" in reference:
            for name, iterate in (("B", "codes"), ("C", "low_rank"), ("Y", "low_frequency")):
                assert relative(solver.tensor(iterate), sample_first(reference[f"{name}_{suffix}"])) < 1e-11

    done = run_admm(
        solver.step,
        BetaSchedule(float(reference["mu"])),
        max_iter=100,
        tol=1e-4,
        callback=lambda record: check(record.iteration) if record.iteration in (1, 2, 5) else None,
    )
    check("end")
    assert done.n_iter == reference["iters"]
    assert done.converged == (done.n_iter < 100)
    betas = [[record.penalties[name] for name in NAMES] for record in done.history]
    np.testing.assert_allclose(betas, reference["beta"], rtol=1e-13)
    for name, stored in zip((*NAMES, "change"), ("relBhat", "relC", "relY", "relB"), strict=True):
        assert relative([record.residuals[name] for record in done.history], reference[stored]) < 1e-11

    # The published program starts the labels with the codes before the loop.
    start_labels = np.argmax(first_codes @ first_codes[reference["seed_idx"] - 1].T, axis=1)
    np.testing.assert_array_equal(start_labels, reference["indx0"] - 1)
    labels = labels_from(solver.consensus, reference["indx0"] - 1, 3)
    np.testing.assert_array_equal(labels, reference["labels"] - 1)
    np.testing.assert_array_equal(labels, reference["labels_inner"][:, -1] - 1)


def test_kernel_features_are_the_reference(shared):
    inputs = np.load(shared / "reference" / "tlr_inputs.npz")
    data = np.load(shared / "reference" / "subset60.npz")
    for v in (1, 2, 3):
        features = kernel_features(data[f"view{v}"].T, 4, np.arange(60.0))
        # Seven or eight samples are anchors: the stored width has the roots, 1e-8, of the rounding of their distances.
        assert relative(features, inputs[f"K_v{v}"].T) < 1e-8
        exact, _ = textbook.kernel_features(data[f"view{v}"].T, inputs[f"anchors_v{v}"])
        assert relative(features, exact) < 1e-12


@given(seed=st.integers(0, 99), n=st.integers(16, 40), depth=st.integers(1, 3))
def test_kernel_features_are_the_textbook(seed, n, depth):
    rng = np.random.default_rng(seed)
    points, ties = rng.normal(size=(n, 4)) + 1, rng.normal(size=n)
    expected, _ = textbook.kernel_features(points, bkhk([points], depth, ties)[0])
    np.testing.assert_allclose(kernel_features(points, depth, ties), expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(kernel_features(sp.csr_array(points), depth, ties), expected, rtol=0, atol=1e-9)
    single = kernel_features(points.astype(np.float32), depth, ties)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single.mean(axis=0), 0, atol=1e-6)


def test_kernel_features_in_blocks(monkeypatch):
    points, ties = np.random.default_rng(0).normal(size=(500, 3)), np.arange(500.0)
    expected = kernel_features(points, 3, ties)
    monkeypatch.setattr("tensormvc.rows._memory._MOST_ROWS", 60)
    monkeypatch.setattr("tensormvc.rows._memory._CACHED", 7 * 8)
    np.testing.assert_allclose(kernel_features(points, 3, ties), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_sample_an_anchor(dtype):
    points = np.eye(4, dtype=dtype) * np.arange(1, 5, dtype=dtype)
    features = kernel_features(points, 2, np.arange(4.0))
    np.testing.assert_allclose(np.sort(features, axis=1), np.tile([-0.25, -0.25, -0.25, 0.75], (4, 1)), atol=1e-7)


@pytest.mark.parametrize("basis", ["fft", "gft"])
@pytest.mark.parametrize("of_clusters", [True, False])
def test_rounds_are_the_textbook(basis, of_clusters):
    for seed in range(5):
        features, labels, start = random_problem(seed)
        n = len(labels)
        if basis == "fft":
            fitted, matrix = FFT().fit(start[0]), textbook.dft_matrix(n)
        else:
            views = as_views(features, canonical=False, keep_view_order=True)
            fitted = GFT("sim").fit(views)
            matrix = fitted.forward(np.eye(n)[:, :, None])[:, :, 0]
        f = indicators(labels, 3)
        if not of_clusters:
            f = np.linalg.qr(np.random.default_rng(seed).normal(size=(n, 3)))[0]
        np.testing.assert_allclose(f.T @ f, np.eye(3), atol=1e-14)
        solver = Solver(features, f, fitted, lam=0.1, gamma=0.02, start=start)
        b, c, y = start
        state = (b, b.mean(axis=2), c, y, *(np.zeros_like(b) for _ in range(3)))
        schedule = BetaSchedule(0.5)
        for _ in range(8):
            used = dict(schedule.values)
            done = solver.step(used)
            state, expected = textbook.low_frequency_round(
                state, features, f, matrix, 0.1, 0.02, *(used[name] for name in NAMES)
            )
            iterates = [solver.tensor(name) for name in ("codes", "low_rank", "low_frequency", "q2", "q13")]
            iterates.insert(1, solver.consensus)
            *others, q1, q2, q3 = state
            for iterate, value in zip(iterates, (*others, q2, q1 + q3), strict=True):
                np.testing.assert_allclose(iterate, value, rtol=0, atol=1e-9 * np.abs(value).max())
            assert done.residuals.keys() == expected.keys()
            for name, value in expected.items():
                np.testing.assert_allclose(done.residuals[name], value, rtol=1e-9)
            assert done.stop == done.residuals["change"]
            schedule.advance(done.residuals)


def test_blocks_of_rows_change_nothing(monkeypatch):
    features, labels, start = random_problem(0, n=50)

    def iterates():
        fitted = FFT().fit(start[0])
        solver = Solver(features, indicators(labels, 3), fitted, lam=0.1, gamma=0.02, start=start)
        done = run_admm(solver.step, BetaSchedule(0.5), max_iter=10, tol=0)
        return solver.consensus, list(done.history[-1].residuals.values()), labels_from(solver.consensus, labels, 3)

    expected = iterates()
    monkeypatch.setattr("tensormvc.rows._memory._MOST_ROWS", 7)
    monkeypatch.setattr("tensormvc.rows._memory._CACHED", 40)
    for value, other in zip(iterates(), expected, strict=True):
        np.testing.assert_allclose(value, other, rtol=1e-11)


def test_a_start_is_copied_and_may_be_the_same_in_every_view():
    features, labels, start = random_problem(0)
    same = tuple(array[:, :, 0].copy() for array in start)
    fitted = FFT().fit(start[0])
    f = indicators(labels, 3)
    solver = Solver(features, f, fitted, lam=0.1, gamma=0.02, start=same)
    repeated = tuple(np.repeat(array[:, :, None], 3, axis=2) for array in same)
    other = Solver(features, f, fitted, lam=0.1, gamma=0.02, start=repeated)
    for each in (solver, other):
        each.step(BetaSchedule(0.5).values)
    np.testing.assert_array_equal(solver.codes, other.codes)
    for array, given_ in zip(same, start, strict=True):
        np.testing.assert_array_equal(array, given_[:, :, 0])


def test_permuted_rows_have_permuted_iterates():
    """Under a basis of the data; the order of the rows enters by rounding alone."""
    features, labels, start = random_problem(3, n=40)
    order = np.random.default_rng(1).permutation(40)

    def solve(rows):
        parts = [part[rows] for part in features]
        fitted = GFT("sum").fit(as_views(parts, canonical=False, keep_view_order=True))
        begin = tuple(array[rows] for array in start)
        f = indicators(labels[rows], 3)
        solver = Solver(parts, f, fitted, lam=0.1, gamma=0.02, start=begin)
        run_admm(solver.step, BetaSchedule(0.5), max_iter=20, tol=0)
        return solver.consensus

    np.testing.assert_allclose(solve(order), solve(np.arange(40))[order], rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["fft", "dct", "haar", "random", "gft-sim"])
@pytest.mark.parametrize("n", [21, 32])
def test_coefficients_have_the_same_iterates(backend, name, n):
    features, labels, start = random_problem(0, n=n)
    basis = make_basis(name).fit(as_views(features, canonical=False, keep_view_order=True), random_state=0)
    f = indicators(labels, 3)
    direct = Solver(features, f, basis, lam=0.1, gamma=0.002, start=start)
    expected = run_admm(direct.step, BetaSchedule(0.5), max_iter=30, tol=0)

    coordinates = coefficients_of(basis, backend.array(f), 3)
    assert coordinates.n_rows == (n + 2 - n % 2 if name == "fft" else n)
    solver = Solver(features, f, basis, lam=0.1, gamma=0.002, start=start, backend=backend, coordinates=coordinates)
    done = run_admm(solver.step, BetaSchedule(0.5), max_iter=30, tol=0)
    for record, other in zip(done.history, expected.history, strict=True):
        assert record.penalties == other.penalties
        np.testing.assert_allclose(list(record.residuals.values()), list(other.residuals.values()), rtol=1e-9)
        np.testing.assert_allclose(record.objective, other.objective, rtol=1e-9)
    for key in ("consensus", "codes", "low_rank", "low_frequency"):
        assert relative(backend.numpy(coordinates.back(solver.rows[key])), direct.rows[key]) < 1e-10


@pytest.mark.parametrize("basis", [Halved(), Stretched(), ViewFFT(), AGFT(n_anchors=16), GFT(n_components=5)])
def test_other_transforms_have_no_coefficients_to_work_on(basis):
    views = as_views([np.random.default_rng(seed).normal(size=(40, 4)) for seed in range(3)])
    assert coefficients_of(basis.fit(views), np.empty((40, 1)), 3) is None


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("basis", ["fft", "gft-sum"])
def test_the_estimator_runs_on_coefficients(monkeypatch, basis, dtype):
    views, _ = load_digits_views(61)
    views = [view.astype(dtype) for view in views]
    found = []

    def recorded(*args):
        found.append(coefficients_of(*args))
        return found[-1]

    fits = []
    for how in (recorded, lambda *args: None):
        monkeypatch.setattr("tensormvc.methods._tlrlf4mvc.coefficients_of", how)
        # So that the low-rank copy stays.
        model = TLRLF4MVC(10, basis=basis, gamma=0.01, max_iter=30, tol=0.0, keep="all", random_state=0)
        fits.append(model.fit(views))
    assert isinstance(found[0], Coefficients)
    ours, direct = fits
    tolerance = 1e-9 if dtype == np.float64 else 1e-4
    assert relative(ours.representation_, direct.representation_) < tolerance
    assert relative(ours.embedding_, direct.embedding_) < tolerance
    for record, other in zip(ours.history_, direct.history_, strict=True):
        np.testing.assert_allclose(
            list(record.residuals.values()), list(other.residuals.values()), rtol=10 * tolerance, atol=tolerance
        )
    np.testing.assert_array_equal(ours.labels_, direct.labels_)


class Mixed:
    """A stranger's basis: orthogonal along the samples, and along the three views, which it needs all of."""

    adapts_to_data = False

    def fit(self, views, *, n_clusters=None, random_state=None, sample_graph=None):
        self._dct = DCT().fit(views)
        self._turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
        self.slice_weights_ = self._dct.slice_weights_
        return self

    def forward(self, tensor):
        return self._dct.forward(tensor @ self._turn)

    def inverse(self, slices):
        return self._dct.inverse(slices) @ self._turn.T


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("method", [TLRLF4MVC, TSVDMVC, TLSpNM])
def test_a_strangers_basis_is_left_to_itself(method):
    """Turned views have the singular values of the views, so that the result is that of the transform alone."""
    views, _ = load_digits_views(60)
    options = {"max_iter": 20, "random_state": 0, "keep": "all"}
    # Both in the order given: neither comes from the data.
    expected = method(10, basis=DCT(), **options).fit(views[:3])
    ours = method(10, basis=Mixed(), **options).fit(views[:3])
    assert relative(ours.representation_, expected.representation_) < 1e-9
    np.testing.assert_array_equal(ours.labels_, expected.labels_)


class GivenColumns:
    """Columns that stand side by side in the only view."""

    def __init__(self, starts, factors):
        self.widths = [part.shape[1] for part in starts], [part.shape[1] for part in factors]

    def of(self, rows):
        ends = np.cumsum([*self.widths[0], *self.widths[1]])
        parts = np.split(rows.views[0], ends[:-1], axis=1)
        return parts[: len(self.widths[0])], parts[len(self.widths[0]) :]


@pytest.mark.parametrize("dependent", [False, True])
def test_coordinates_have_the_same_iterates(dependent):
    """A few columns span all iterates under AGFT; dependent ones (a view twice) too."""
    rng = np.random.default_rng(0)
    features, labels, start = random_problem(0, n=300, d=5, a=8)
    features = [part + 0.1 * rng.normal(size=part.shape) for part in features]
    if dependent:
        features[1] = features[0].copy()
    basis = AGFT(n_anchors=16).fit(as_views(features, canonical=False, keep_view_order=True))
    f = indicators(labels, 3)
    starts = [array[:, :, 0] for array in start]
    assert is_compressible(basis, 3 + 15 + 24)
    direct = Solver(features, f, basis, lam=0.1, gamma=0.02, start=starts)
    factors = factors_of(features, 0.1)
    rows = InMemory(f)
    rows.hold(views=[np.concatenate([f, *starts, *factors], axis=1)], labels=labels, phases=labels)
    span = SpanCoordinates(rows, basis, GivenColumns([f, *starts], factors))
    small = Solver.in_span(span, (3, 5), 0.02)
    # The constant is a frequency, and a sum of indicators.
    assert len(small.consensus) == (49 if dependent else 57)
    runs = [run_admm(solver.step, BetaSchedule(0.5), max_iter=30, tol=0) for solver in (direct, small)]
    for record, other in zip(runs[0].history, runs[1].history, strict=True):
        assert record.penalties == other.penalties
        np.testing.assert_allclose(list(other.residuals.values()), list(record.residuals.values()), rtol=1e-8)
    tolerance = 1e-7 if dependent else 1e-10
    for name in ("consensus", "codes"):
        span.leave(small.rows, rows, name)
        assert relative(rows[name], direct.rows[name]) < tolerance


def test_few_samples_or_all_frequencies_are_not_compressed():
    views = as_views([np.random.default_rng(0).normal(size=(60, 4))])
    assert not is_compressible(AGFT(n_anchors=16).fit(views), 20)
    assert is_compressible(AGFT(n_anchors=16).fit(views), 14)
    assert not is_compressible(GFT().fit(views), 0)
    assert is_compressible(GFT(n_components=5).fit(views), 20)
    assert not is_compressible(FFT().fit(views), 0)


@pytest.mark.parametrize("basis", [GFT(n_components=6), AGFT(n_anchors=16)])
def test_the_columns_of_a_transform(basis):
    views = as_views([np.random.default_rng(0).normal(size=(60, 4))])
    tensor = np.random.default_rng(1).normal(size=(60, 3, 2))
    basis.fit(views)
    factor = basis.hold_vectors(views.rows)
    vectors = views.rows["vectors"] if factor is None else views.rows["vectors"] @ factor
    expected = np.tensordot(vectors.T, tensor, 1)
    np.testing.assert_allclose(basis.forward(tensor), expected, atol=1e-12)


def test_single_precision():
    features, labels, start = random_problem(0, n=60, a=16)
    # Nearly dependent features: a plain product with P would be magnified by the inverse.
    features = [part * np.logspace(2, -3, 16) for part in features]
    results = []
    for dtype in (np.float64, np.float32):
        solver = Solver(
            [part.astype(dtype) for part in features],
            indicators(labels, 3),
            FFT().fit(start[0]),
            lam=1e-4,
            gamma=0.02,
            start=start,
        )
        run_admm(solver.step, BetaSchedule(0.5), max_iter=15, tol=0)
        assert {factor.dtype for factor in solver.rows["factors"]} == {np.dtype(dtype)}
        results.append(solver.consensus)
    assert relative(results[1], results[0]) < 1e-5


@pytest.mark.parametrize("shape", [(30, 6), (6, 30)])
def test_ridge_factor(shape):
    features = np.random.default_rng(0).normal(size=shape)
    (factor,) = factors_of([features], 0.3)
    expected = features @ np.linalg.solve(features.T @ features + 0.3 * np.eye(shape[1]), features.T)
    np.testing.assert_allclose(factor @ factor.T, expected, atol=1e-13)
    with pytest.raises(ValueError, match=r"lam=0\.0 is too small"):
        factors_of([np.ones((5, 3))], 0.0)


def test_indicators_take_means_of_clusters_and_bear_empty_ones():
    labels = np.array([2, 0, 2, 2, 0])
    f = indicators(labels, 4)
    values = np.random.default_rng(0).normal(size=(5, 3))
    means = np.stack([values[labels == label].mean(axis=0) for label in labels])
    np.testing.assert_allclose(f @ (f.T @ values), means, rtol=1e-14)
    assert np.count_nonzero(f) == 5


def test_each_beta_follows_its_own_residual():
    schedule = BetaSchedule(2e-4)
    first = {"consensus": 1e-3, "low_rank": 1e-3, "low_frequency": 1e-4}
    assert schedule.values == first
    schedule.advance({"consensus": 1.0, "low_rank": 1.0, "low_frequency": 1.0, "change": 1.0})
    assert schedule.values == first
    schedule.advance({"consensus": 0.96, "low_rank": 0.95, "low_frequency": 2.0, "change": 1.0})
    assert schedule.values == pytest.approx({"consensus": 1.5e-3, "low_rank": 1e-3, "low_frequency": 1.5e-4})
    for _ in range(60):
        schedule.advance({"consensus": 1.0, "low_rank": 1.0, "low_frequency": 1.0, "change": 1.0})
    assert schedule.values == {"consensus": 1e5, "low_rank": 1e5, "low_frequency": 2e-4}


@given(seed=st.integers(0, 999), n_clusters=st.integers(1, 5))
def test_labels_are_the_textbook(seed, n_clusters):
    rng = np.random.default_rng(seed)
    b_hat = rng.normal(size=(n_clusters, 8))[rng.integers(n_clusters, size=25)] + rng.normal(size=(25, 8))
    start = rng.integers(n_clusters, size=25)  # a cluster may be empty
    expected = textbook.low_frequency_labels(b_hat, start, n_clusters)
    np.testing.assert_array_equal(labels_from(b_hat, start, n_clusters), expected)


@given(seed=st.integers(0, 999))
def test_starts_together_are_those_alone(seed):
    rng = np.random.default_rng(seed)
    codes = rng.normal(size=(3, 6))[rng.integers(3, size=40)] + rng.normal(size=(40, 6))
    starts = rng.integers(3, size=(4, 40))
    rows = rows_of_codes(codes, 4)
    sizes, agreements = discrete_labels(rows, np.stack([np.eye(3)[start].T @ codes for start in starts]))
    for r, start in enumerate(starts):
        labels = labels_from(codes, start, 3)
        np.testing.assert_array_equal(rows["own"][:, r], labels)
        np.testing.assert_array_equal(sizes[r], np.bincount(labels, minlength=3))
    assert np.isfinite(agreements).all()


@pytest.mark.parametrize("blocks", [False, True])
def test_labels_find_separate_clusters(blocks, monkeypatch):
    if blocks:
        monkeypatch.setattr("tensormvc.rows._memory._MOST_ROWS", 7)
        monkeypatch.setattr("tensormvc.rows._memory._CACHED", 100)
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], 20)
    codes = 5 * rng.normal(size=(3, 64))[truth] + rng.normal(size=(60, 64))
    random = SampleRandom(as_views([codes], canonical=False), 0)
    random.rows.hold(consensus=codes)
    best_discrete_labels(random.rows, 3, n_init=10, random=random)
    assert ari(truth, random.rows["labels"]) == 1


def test_of_equal_numbers_one_is_drawn():
    numbers = np.array([[0.5, 0.1, 0.5, 0.3, 0.1], [0.2, 0.2, 0.2, 0.2, 0.2]])
    smallest, where = _smallest_distinct(numbers, 3)
    np.testing.assert_array_equal(smallest, [[0.1, 0.3, 0.5], [0.2, np.inf, np.inf]])
    np.testing.assert_array_equal(where, [[1, 3, 0], [0, 1, 2]])


@pytest.mark.parametrize("d", [1, 2, 5, 7, 100])
def test_constant_samples_are_standardised_to_zero(d):
    rng = np.random.default_rng(0)
    view = rng.normal(size=(6, d))
    view[:3] = rng.normal(size=(3, 1))
    rows = InMemory(view)
    rows.hold(views=[view])
    rows.create(points=(d,))
    rows.each(_standardise)
    np.testing.assert_array_equal(rows["points"][:3], 0)
    if d > 1:
        np.testing.assert_allclose(rows["points"][3:].std(axis=1, ddof=1), 1)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_views_of_both_precisions_whose_samples_are_all_anchors(kind):
    rng = np.random.default_rng(0)
    views = [kind(rng.normal(size=(16, 3)).astype(np.float32)), rng.normal(size=(16, 4))]
    model = TLRLF4MVC(2, n_kernel_anchors=16, max_iter=5, random_state=0).fit(views)
    assert np.isfinite(model.embedding_).all()
