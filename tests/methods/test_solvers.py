"""The solvers against their sections of the specification, written out as loops."""

from dataclasses import replace

import numpy as np
import pytest

import tensormvc as tm
from tensormvc.bases import make_basis
from tensormvc.methods._admm import Schedule, Step, run_admm
from tensormvc.methods._anchor_representation import Weights, create_rows, embed, principal_anchors
from tensormvc.methods._anchor_representation import round as anchor_round
from tensormvc.methods._coordinates import SampleCoordinates, coordinates_of
from tensormvc.methods._self_representation import SelfRepresentation
from tensormvc.penalties import ETR, Log, Nuclear
from tensormvc.views import as_views

from .. import textbook

BASES = ["fft", "fft-view", "dct", "gft-sum", "agft"]


def problem(seed=0, n=40, dims=(6, 60, 9)):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, size=n)
    views = as_views([rng.normal(size=(3, d))[y] * 2 + rng.normal(size=(n, d)) for d in dims])
    return views, list(views.arrays)


def first_anchors(views, latent):
    views.rows.alias("x", "views")
    return [principal_anchors(views, v, latent, width) for v, width in enumerate(views.widths)]


class AnchorSolver:
    """The loop of the anchor methods on rows that hold "x"."""

    def __init__(self, rows, basis, penalty, *, alpha, ridge, anchors):
        self.rows, self.anchors, self.weights = rows, anchors, Weights(alpha, ridge, penalty)
        create_rows(rows, [anchor.shape[1] for anchor in anchors], len(anchors[0]), "float64")
        self.coordinates = SampleCoordinates(basis, rows.n_rows)

    def step(self, penalties):
        self.anchors, done = anchor_round(
            self.rows, self.coordinates, self.anchors, self.weights, penalties["mu"], penalties["rho"]
        )
        return done

    @property
    def representation(self):
        return self.rows["z"].transpose(0, 2, 1)

    @property
    def low_rank(self):
        return self.rows["j"].transpose(0, 2, 1)

    def embed(self, n_components):
        embed(self.rows, n_components)


def textbook_shrink(basis, penalty):
    """A shrinkage by one SVD a slice, under the basis."""

    def shrink(tensor, threshold):
        def prox(s):
            return float(penalty.prox(np.array([s]), threshold)[0])

        return textbook.shrink_with(tensor, basis.forward, basis.inverse, prox)

    return shrink


def relative(a, b):
    return np.linalg.norm(a - b) / np.linalg.norm(b)


@pytest.mark.parametrize("name", BASES)
@pytest.mark.parametrize("rounds", [1, 2, 6, 12])
def test_tsvd_mvc(name, rounds):
    views, parts = problem()
    basis = make_basis(name).fit(views)
    solver = SelfRepresentation(parts, basis, Nuclear(), 0.5, stacked=True)
    run_admm(solver.step, Schedule({"mu": 1e-2, "rho": 2e-2}, {"mu": 1e9, "rho": 1e9}), max_iter=rounds, tol=0)
    z, g = textbook.self_representation(parts, textbook_shrink(basis, Nuclear()), 0.5, rounds, 1e-2, 2e-2, stacked=True)
    assert relative(solver.representation, z) < 1e-9
    assert np.linalg.norm(solver.low_rank - g) <= 1e-9 * np.linalg.norm(z)


@pytest.mark.parametrize("name", BASES)
@pytest.mark.parametrize("rounds", [1, 2, 6])
def test_tlspnm(name, rounds):
    views, parts = problem()
    basis = make_basis(name).fit(views)
    solver = SelfRepresentation(parts, basis, Log(), 0.2, stacked=False)
    run_admm(solver.step, Schedule({"mu": 1e-2}, {"mu": 1e9}), max_iter=rounds, tol=0)
    z, g = textbook.self_representation(parts, textbook_shrink(basis, Log()), 0.2, rounds, 1e-2, None, stacked=False)
    assert relative(solver.representation, z) < 1e-9
    assert np.linalg.norm(solver.low_rank - g) <= 1e-9 * np.linalg.norm(z)


@pytest.mark.parametrize("name", ["fft", "dct", "haar", "random", "gft-sim", "agft"])
@pytest.mark.parametrize("n", [21, 32])
def test_a_transform_along_the_samples_costs_nothing_in_its_own_coordinates(name, n):
    views, _ = problem(n=n)
    basis = make_basis(name).fit(views, random_state=0)
    coordinates = coordinates_of(basis, np.empty((n, 1)), 3)
    assert not isinstance(coordinates, SampleCoordinates)
    columns = np.random.default_rng(0).normal(size=(n, 4))
    np.testing.assert_allclose(coordinates.back(coordinates.into(columns)), columns, atol=1e-12)
    tensor = np.random.default_rng(1).normal(size=(n, n, 3))
    rows = np.stack([coordinates.into(tensor[:, :, v]) for v in range(3)], axis=1)
    low_rank = np.empty_like(rows)
    value = coordinates.shrink(rows, Log(), 3.0, out=low_rank)
    expected = tm.shrinkage.low_rank_shrink(tensor, basis, Log(), 3.0)
    result = np.stack([coordinates.back(low_rank[:, v]) for v in range(3)], axis=2)
    np.testing.assert_allclose(result, expected, atol=1e-11)
    singular_values = np.linalg.svd(basis.forward(expected), compute_uv=False)
    penalties = np.log1p(singular_values).sum(axis=1) @ basis.slice_weights_
    # Singular values that are zero come back as rounding of the transform, about 1e-14 each.
    assert value == pytest.approx(penalties, abs=1e-10)


class Stretched(tm.DCT):
    """A transform that is not orthogonal."""

    def _forward(self, tensor, out):
        return 2 * super()._forward(tensor, out) + tensor

    def _inverse(self, slices, out):
        return super()._inverse(slices, out) / 3


class Halved(tm.DCT):
    """A transform whose inverse is not its transpose."""

    def _inverse(self, slices, out):
        return super()._inverse(slices, out) / 2


@pytest.mark.parametrize("basis", [Stretched(), Halved(), tm.ViewFFT()])
def test_other_transforms_are_done_as_they_are(basis):
    views, parts = problem(n=20)
    basis.fit(views)
    assert isinstance(coordinates_of(basis, np.empty((20, 1)), 3), SampleCoordinates)
    solver = SelfRepresentation(parts, basis, Nuclear(), 0.5, stacked=True)
    run_admm(solver.step, Schedule({"mu": 1e-2, "rho": 2e-2}, {"mu": 1e9, "rho": 1e9}), max_iter=4, tol=0)
    z, _ = textbook.self_representation(parts, textbook_shrink(basis, Nuclear()), 0.5, 4, 1e-2, 2e-2, stacked=True)
    assert relative(solver.representation, z) < 1e-9


@pytest.mark.parametrize("stacked", [True, False])
@pytest.mark.parametrize("name", ["fft", "gft-sum"])
def test_rounds_before_anything_is_left_are_the_same_without_matrices(name, stacked):
    views, parts = problem()
    basis = make_basis(name).fit(views)
    runs = []
    for shortened in (True, False):
        solver = SelfRepresentation(parts, basis, Nuclear(), 0.5, stacked=stacked)
        began = []
        if not shortened:
            solver._prelude = None
        run = run_admm(
            solver.step,
            Schedule({"mu": 1e-4, "rho": 2e-4}, {"mu": 1e11, "rho": 1e13}),
            max_iter=20,
            tol=0,
            callback=lambda _, solver=solver, began=began: began.append(solver._prelude is not None),
        )
        runs.append((solver, [list(record.residuals.values()) for record in run.history], sum(began)))
    (solver, residuals, short), (other, other_residuals, none) = runs
    assert short >= 3
    assert none == 0
    np.testing.assert_allclose(residuals, other_residuals, rtol=1e-8, atol=1e-12)
    assert relative(solver.representation, other.representation) < 1e-10
    stopped = SelfRepresentation(parts, basis, Nuclear(), 0.5, stacked=stacked)
    stopped.step({"mu": 1e-4, "rho": 2e-4})
    assert not stopped.low_rank.any()
    kernel = [part @ part.T for part in parts]
    expected = [np.linalg.solve(np.eye(40) + 0.5 * k, 0.5 * k) for k in kernel]
    np.testing.assert_allclose(stopped.representation, np.stack(expected, axis=2), atol=1e-12)


@pytest.mark.parametrize("name", BASES)
@pytest.mark.parametrize("gamma", [0.0, 0.01])
@pytest.mark.parametrize("latent", [4, 8])
def test_anchor_methods(name, gamma, latent):
    views, parts = problem()
    basis = make_basis(name).fit(views)
    anchors = first_anchors(views, latent)
    for anchor in anchors:
        kept = min(anchor.shape)
        np.testing.assert_allclose(anchor[:kept] @ anchor[:kept].T, np.eye(kept), atol=1e-12)
    solver = AnchorSolver(views.rows, basis, ETR(1.0), alpha=0.1, ridge=2 * gamma, anchors=anchors)
    schedule = Schedule({"mu": 1e-2, "rho": 1e-2}, {"mu": 1e9, "rho": 1e9})
    for rounds in (1, 2, 7):
        run_admm(solver.step, schedule, max_iter=rounds, tol=0)
        solver = AnchorSolver(views.rows, basis, ETR(1.0), alpha=0.1, ridge=2 * gamma, anchors=anchors)
        schedule = Schedule({"mu": 1e-2, "rho": 1e-2}, {"mu": 1e9, "rho": 1e9})
        run_admm(solver.step, schedule, max_iter=rounds, tol=0)
        shrink = textbook_shrink(basis, ETR(1.0))
        z, j, a = textbook.anchor_representation(parts, anchors, shrink, 0.1, gamma, rounds, 1e-2, 1e-2)
        assert relative(solver.representation, z) < 1e-9
        assert np.linalg.norm(solver.low_rank - j) <= 1e-9 * np.linalg.norm(z)
        for ours, theirs in zip(solver.anchors, a, strict=True):
            # A surplus anchor has no direction of its own: only what acts on the representation is compared.
            kept = min(ours.shape)
            assert relative(ours[:kept], theirs[:kept]) < 1e-8


def test_embedding_is_the_svd():
    views, _ = problem()
    basis = make_basis("gft-sum").fit(views)
    anchors = first_anchors(views, 4)
    solver = AnchorSolver(views.rows, basis, ETR(), alpha=0.5, ridge=0.0, anchors=anchors)
    run_admm(solver.step, Schedule({"mu": 1e-4, "rho": 1e-4}, {"mu": 1e11, "rho": 1e13}), max_iter=20, tol=1e-7)
    stacked = np.concatenate([solver.representation[:, :, v] for v in range(3)], axis=1)
    expected = np.linalg.svd(stacked, full_matrices=False)[0][:, :3]
    solver.embed(3)
    ours = solver.rows["points"]
    np.testing.assert_allclose(np.abs(np.sum(expected * ours, axis=0)), 1, atol=1e-9)


def test_row_blocks_change_nothing_but_rounding(monkeypatch):
    views, _ = problem()
    basis = make_basis("agft").fit(views)
    anchors = first_anchors(views, 4)
    results = []
    for size in (4096, 3):
        monkeypatch.setattr("tensormvc.rows._memory._MOST_ROWS", size)
        views = replace(views)  # with an executor of its own
        views.rows.alias("x", "views")
        solver = AnchorSolver(views.rows, basis, ETR(1.0), alpha=0.1, ridge=0.0, anchors=anchors)
        run_admm(solver.step, Schedule({"mu": 1e-2, "rho": 1e-2}, {"mu": 1e9, "rho": 1e9}), max_iter=8, tol=0)
        results.append(solver.representation)
    assert relative(results[1], results[0]) < 1e-9


# The driver.


def test_driver_stops_records_and_calls_back(capsys):
    seen = []
    run = run_admm(
        lambda penalties: Step({"gap": penalties["mu"] ** -1}, stop=1 / penalties["mu"]),
        Schedule({"mu": 1.0}, {"mu": 64.0}),
        max_iter=50,
        tol=0.02,
        callback=seen.append,
        verbose=1,
        name="Test",
    )
    assert run.converged
    assert [record.penalties["mu"] for record in run.history] == [1, 2, 4, 8, 16, 32, 64]
    assert len(seen) == 6
    assert "Test  iteration   1  gap 1.00e+00" in capsys.readouterr().out
    stopped = run_admm(
        lambda penalties: Step({"gap": 1.0}, stop=1.0),
        Schedule({"mu": 1.0}, {"mu": 64.0}),
        max_iter=50,
        tol=0.0,
        callback=lambda record: record.iteration == 3,
    )
    assert stopped.n_iter == 3
    assert not stopped.converged


def test_driver_refuses_what_is_not_finite():
    with pytest.raises(FloatingPointError, match="iteration 1 is not finite"):
        run_admm(
            lambda penalties: Step({"gap": np.nan}, stop=np.nan), Schedule({"mu": 1.0}, {"mu": 1.0}), max_iter=5, tol=0
        )


def test_driver_stops_when_single_precision_stalls():
    run = run_admm(
        lambda penalties: Step({"gap": 1e-3}, stop=1e-3),
        Schedule({"mu": 1.0}, {"mu": 2.0}),
        max_iter=100,
        tol=1e-7,
        single_precision=True,
    )
    assert run.converged
    # One round to the cap, one at it that sets the mark, and five that do not beat it.
    assert run.n_iter == 6


def test_interruption_propagates():
    def interrupted(penalties):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_admm(interrupted, Schedule({"mu": 1.0}, {"mu": 2.0}), max_iter=5, tol=0)


def test_estimators_use_the_view_order_that_contents_decide():
    views, _ = tm.datasets.load_digits_views(60)
    model = tm.ESTMC(10, random_state=0, keep="all").fit(views)
    assert model.representation_.shape == (60, 20, 4)


def test_embedding_of_low_rank_is_completed_from_what_was_removed():
    """With two directions kept, the third is the strongest one of the multiplier beside them."""
    views, _ = problem()
    anchors = first_anchors(views, 4)
    solver = AnchorSolver(views.rows, make_basis("gft-sum").fit(views), ETR(), alpha=0.5, ridge=0.0, anchors=anchors)
    rng = np.random.default_rng(0)
    shape = solver.rows["z"].shape
    n = shape[0]
    low_rank = rng.normal(size=(n, 2)) @ rng.normal(size=(2, 12))
    solver.rows["z"][...] = (low_rank + 1e-7 * rng.normal(size=(n, 12))).reshape(shape)
    solver.rows["w"][...] = rng.normal(size=shape)
    left = np.linalg.svd(low_rank, full_matrices=False)[0][:, :2]
    removed = solver.rows["w"].reshape(n, 12)
    third = np.linalg.svd(removed - left @ (left.T @ removed), full_matrices=False)[0][:, :1]
    expected = np.concatenate([left, third], axis=1)
    solver.embed(3)
    np.testing.assert_allclose(np.abs(np.sum(expected * solver.rows["points"], axis=0)), 1, atol=1e-6)
    solver.rows["w"][...] = 0
    solver.embed(3)
    assert not solver.rows["points"][:, 2].any()
