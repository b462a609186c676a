"""The objective in the history of a fit, against the problem of each method written out."""

import numpy as np
import pytest

import tensormvc as tm
from tensormvc.backend.arrays import in_double
from tensormvc.methods import _anchor_representation, _tlrlf4mvc
from tensormvc.views import as_views

from .. import textbook

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

PENALTIES = textbook.penalty_values()
# Singular values come from Gram matrices, with errors of up to 1e-11 of the largest one, and the steepest penalty, ETR
# with δ = 0.01, rises by 100 for each 1.
CLOSE = 1e-8


def data(n=120, dims=(8, 11, 9)):
    return tm.datasets.make_multiview(n, n_clusters=3, n_features=dims, random_state=0)[0]


def low_rank_penalty(tensor, basis, name):
    """Return Σ_k w_k Σ_i ψ(σ_i) of the slices of a tensor (n, d, m)."""
    singular_values = np.linalg.svd(basis.forward(np.ascontiguousarray(tensor)), compute_uv=False)
    return np.vectorize(PENALTIES[name])(singular_values).sum(axis=1) @ basis.slice_weights_


def row_lengths(parts):
    """Return the ℓ2,1 norm of matrices side by side."""
    return sum(np.linalg.norm(row) for row in np.concatenate(parts, axis=1))


@pytest.fixture
def anchor_rounds(monkeypatch):
    """The row arrays and the anchors after the last round of ESTMC or ASRETR."""
    last, original = {}, _anchor_representation.round

    def spied(rows, *arguments):
        anchors, done = original(rows, *arguments)
        last.update({name: rows[name] for name in ("x", "z", "j", "residual", "error_share")}, anchors=anchors)
        return anchors, done

    monkeypatch.setattr(_anchor_representation, "round", spied)
    return last


@pytest.mark.parametrize("basis", ["fft", "fft-view", "gft-sum", "agft"])
@pytest.mark.parametrize("max_iter", [1, 9, 51])
def test_anchor_methods(anchor_rounds, basis, max_iter):
    for model, name, gamma in (
        (tm.ESTMC(3, basis, alpha=0.7, penalty="log", max_iter=max_iter), "log", 0.0),
        (tm.ASRETR(3, basis, alpha=0.7, gamma=0.3, delta=0.01, max_iter=max_iter), "etr", 0.3),
    ):
        model.fit(data())
        z, j = anchor_rounds["z"], anchor_rounds["j"].transpose(0, 2, 1)
        errors = [anchor_rounds["error_share"] * residual for residual in anchor_rounds["residual"]]
        expected = low_rank_penalty(j, model.basis_, name) + 0.7 * row_lengths(errors) + gamma * np.sum(z**2)
        assert model.history_[-1].objective == pytest.approx(expected, rel=CLOSE)


@pytest.mark.parametrize("basis", ["fft", "gft-sum"])
def test_at_convergence_it_is_the_objective_of_the_problem(anchor_rounds, basis):
    """With 𝒵 = 𝒥 and E = X − Z A, up to the tolerance of 1e-7 of the residuals, for each of 120 × 3 rows."""
    model = tm.ESTMC(3, basis, alpha=0.7, penalty="nuclear").fit(data())
    assert model.converged_
    z = anchor_rounds["z"]
    errors = [x - z[:, v] @ anchor_rounds["anchors"][v] for v, x in enumerate(anchor_rounds["x"])]
    expected = low_rank_penalty(z.transpose(0, 2, 1), model.basis_, "nuclear") + 0.7 * row_lengths(errors)
    # Coefficients of the FFT are longer than the samples, by √120.
    assert model.history_[-1].objective == pytest.approx(expected, rel=1e-5)


@pytest.fixture
def solvers(monkeypatch):
    """The solvers of the self-representation methods."""
    found = []
    for cls in (tm.TSVDMVC, tm.TLSpNM):

        def spied(self, *arguments, original=cls._problem):
            solver, schedule = original(self, *arguments)
            found.append(solver)
            return solver, schedule

        monkeypatch.setattr(cls, "_problem", spied)
    return found


@pytest.mark.parametrize("basis", ["fft", "fft-view", "gft-sum", "agft"])
@pytest.mark.parametrize("max_iter", [15, 25, 200])
@pytest.mark.parametrize(("cls", "name"), [(tm.TSVDMVC, "nuclear"), (tm.TLSpNM, "log")])
def test_self_representation(solvers, cls, name, basis, max_iter):
    model = cls(3, basis, lam=0.4, max_iter=max_iter).fit(data(60))
    [solver] = solvers
    # Errors in the coordinates of singular vectors have the same lengths.
    errors = [share * f for share, f in zip(solver.rows.shares, solver.rows.f, strict=True)]
    lengths = row_lengths(errors) if cls is tm.TSVDMVC else sum(row_lengths([error]) for error in errors)
    expected = low_rank_penalty(solver.low_rank, model.basis_, name) + 0.4 * lengths
    # Slices that were shrunk to zero come back from the transform as rounding.
    assert model.history_[-1].objective == pytest.approx(expected, rel=CLOSE, abs=1e-9)


@pytest.mark.parametrize("cls", [tm.TSVDMVC, tm.TLSpNM])
def test_it_is_zero_while_nothing_passes_the_thresholds(solvers, cls):
    model = cls(3, "gft-sum", lam=0.4, max_iter=3).fit(data(60))
    assert not solvers[0].low_rank.any()
    assert [record.objective for record in model.history_] == [0.0, 0.0, 0.0]


@pytest.fixture
def code_rounds(monkeypatch):
    """The kernels, and codes and low-rank copy of the samples after the last round of TLRLF4MVC."""
    last, original, ridge_roots = {}, _tlrlf4mvc.round, _tlrlf4mvc.ridge_roots

    def spied_roots(rows, kernels, lam):
        last.update(rows=rows, kernels=kernels)
        return ridge_roots(rows, kernels, lam)

    def spied(inside, coordinates, *arguments):
        result = original(inside, coordinates, *arguments)
        for name in ("codes", "low_rank"):
            coordinates.leave(inside, last["rows"], name)
            last[name] = last["rows"][name].copy()
        last["coordinates"] = type(coordinates).__name__
        return result

    monkeypatch.setattr(_tlrlf4mvc, "ridge_roots", spied_roots)
    monkeypatch.setattr(_tlrlf4mvc, "round", spied)
    return last


@pytest.mark.parametrize(
    ("basis", "n", "coordinates"),
    [
        ("fft-view", 130, "SampleCoordinates"),
        ("agft", 130, "SampleCoordinates"),
        ("fft", 130, "Coefficients"),
        ("gft-sum", 130, "Coefficients"),
        (tm.AGFT(8), 500, "SpanCoordinates"),
    ],
)
def test_codes(code_rounds, basis, n, coordinates):
    views, lam, gamma = data(n, (8, 9)), 0.05, 0.003
    model = tm.TLRLF4MVC(3, basis, lam=lam, gamma=gamma, n_kernel_anchors=8, max_iter=6, random_state=0).fit(views)
    assert code_rounds["coordinates"] == coordinates
    parts = list(as_views(views, canonical=basis != "fft", keep_view_order=basis == "fft-view").arrays)
    regression = 0.0
    for v, kernel in enumerate(code_rounds["kernels"]):
        codes, features = code_rounds["codes"][:, v], in_double(kernel.features(parts))
        weights = np.linalg.solve(features.T @ features + lam * np.eye(8), features.T @ codes)
        regression += np.sum((codes - features @ weights) ** 2) / 2 + lam / 2 * np.sum(weights**2)
    nuclear = low_rank_penalty(code_rounds["low_rank"].transpose(0, 2, 1), model.basis_, "nuclear")
    assert nuclear > 0
    # Differences of squares, and for the span coordinates that are accurate to 1e-9.
    assert model.history_[-1].objective == pytest.approx(regression + gamma * nuclear, rel=1e-7)
