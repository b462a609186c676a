"""The authors' programs: the iterates that they produced, round by round."""

import numpy as np
import pytest

import tensormvc as tm
from tensormvc.bases import FFT
from tensormvc.methods._admm import Schedule, run_admm
from tensormvc.methods._self_representation import SelfRepresentation
from tensormvc.published import asr_etr, tlspnm, tsvd_mvc

TOL = 1e-11
SELF_REPRESENTATIONS = {"tsvdmsc_lambda0.2": tsvd_mvc, "tlspnm_lambda0.2": tlspnm}
# Name, and the views that it ran on.
ANCHOR_RUNS = {
    "asr_t6_g0": "subset60",
    "asr_lowdim_t12_g0": "subset60_lowdim",
    "asr_lowdim_t12_g1e-2": "subset60_lowdim",
}


def load(shared, name):
    with np.load(shared / "reference" / f"{name}.npz") as file:
        return dict(file)


def load_views(shared, name):
    data = load(shared, name)
    return [data[f"view{v}"].T for v in (1, 2, 3)]


def distance(ours, reference):
    """Relative in the Frobenius norm; absolute from zero."""
    return np.linalg.norm(ours - reference) / (np.linalg.norm(reference) or 1)


def rounds(after):
    return {} if after == "end" else {"max_iter": int(after)}


def residuals(result, name):
    return np.array([[record.residuals[f"{name}_{v}"] for v in range(3)] for record in result.history])


def digits(n_samples=30):
    return tm.datasets.load_digits_views(n_samples)[0]


def run_small(function, views, **changes):
    if function is asr_etr:
        return asr_etr(views, **{"n_latent": 5, "alpha": 0.1, "gamma": 0.0, "delta": 0.01} | changes)
    return function(views, **{"lam": 0.2} | changes)


@pytest.mark.parametrize("after", ["1", "2", "5", "10", "15", "end"])
@pytest.mark.parametrize("name", SELF_REPRESENTATIONS)
def test_self_representation(shared, name, after):
    reference = load(shared, name)
    views = load_views(shared, "subset60")
    result = SELF_REPRESENTATIONS[name](views, lam=float(reference["lambda"]), **rounds(after))
    assert distance(result.representation, reference[f"Z_{after}"]) < TOL
    assert distance(result.low_rank, reference[f"G_{after}"]) < TOL
    assert distance(result.affinity, reference[f"S_{after}"]) < TOL
    assert result.converged == (after == "end")
    assert result.n_iter == (reference["iters"] if after == "end" else int(after))


@pytest.mark.parametrize("name", SELF_REPRESENTATIONS)
def test_self_representation_history(shared, name):
    reference = load(shared, name)
    result = SELF_REPRESENTATIONS[name](load_views(shared, "subset60"), lam=float(reference["lambda"]))
    assert distance(residuals(result, "reconstruction"), reference["res_rec"]) < TOL
    assert distance(residuals(result, "consensus"), reference["res_zg"]) < TOL
    if "obj" in reference:
        assert distance(np.array([record.objective for record in result.history]), reference["obj"]) < TOL


@pytest.mark.parametrize("after", ["1", "2", "3", "5", "10", "15", "end"])
@pytest.mark.parametrize("name", ANCHOR_RUNS)
def test_anchor_representation(shared, name, after):
    reference = load(shared, name)
    parameters = {key: float(reference[key]) for key in ("alpha", "gamma", "delta")}
    result = asr_etr(
        load_views(shared, ANCHOR_RUNS[name]),
        n_latent=int(reference["anchors"]),
        n_clusters=3,
        **parameters,
        **rounds(after),
    )
    assert distance(result.representation, reference[f"Z_{after}"]) < TOL
    assert distance(result.low_rank, reference[f"J_{after}"]) < TOL
    for v, anchors in enumerate(result.anchors, start=1):
        # The file of the first run lacks some rounds.
        if f"A{v}_{after}" in reference or name != "asr_t6_g0":
            assert distance(anchors, reference[f"A{v}_{after}"]) < TOL
    if after != "1":
        signs = np.sign(np.sum(result.embedding * reference[f"U_{after}"], axis=0))
        assert distance(result.embedding * signs, reference[f"U_{after}"]) < TOL
    assert result.n_iter == (reference["iters"] if after == "end" else int(after))
    if after == "end":
        for ours, theirs in [("reconstruction", "res_rec"), ("consensus", "res_zg")]:
            history = np.array([record.residuals[ours] for record in result.history])
            assert distance(np.where(history < 1e-7, 0, history), reference[theirs]) < TOL


def test_tsvd_mvc_depends_on_the_order_of_the_views():
    views = digits()
    result, reverse = tsvd_mvc(views, lam=0.2), tsvd_mvc(views[::-1], lam=0.2)
    assert distance(reverse.representation[:, :, ::-1], result.representation) > 0.05


@pytest.mark.parametrize("function", [tlspnm, asr_etr])
def test_the_others_do_not(function):
    views = digits()
    result, reverse = run_small(function, views), run_small(function, views[::-1])
    assert distance(reverse.representation[:, :, ::-1], result.representation) < 1e-8


@pytest.mark.parametrize("function", [tsvd_mvc, tlspnm, asr_etr])
def test_order_of_the_samples_matters_to_the_fft(function):
    views = digits()
    order = np.random.default_rng(0).permutation(30)
    result, shuffled = run_small(function, views), run_small(function, [view[order] for view in views])
    expected = result.representation[order]
    if function is not asr_etr:
        expected = expected[:, order]
    assert distance(shuffled.representation, expected) > 0.01


@pytest.mark.parametrize(("n_rounds", "same"), [(17, True), (18, False)])
def test_tlspnm_is_ours_until_its_thresholds_fall_below_one(n_rounds, same):
    """Then the published map of the singular values takes negative values, and ours does not."""
    views = [view / np.linalg.norm(view, axis=1, keepdims=True) for view in digits()]
    ours = SelfRepresentation(views, FFT().fit(views), tm.penalties.Log(), 0.2, stacked=False)
    run_admm(ours.step, Schedule({"mu": 1e-5}, {"mu": 1e10}), max_iter=n_rounds, tol=0.0)
    published = tlspnm(views, lam=0.2, max_iter=n_rounds)
    assert distance(published.representation, ours.representation) < 1e-9
    assert (distance(published.low_rank, ours.low_rank) < 1e-9) == same


@pytest.mark.parametrize("function", [tsvd_mvc, tlspnm, asr_etr])
def test_end_of_a_run(function):
    result = run_small(function, digits())
    assert result.converged
    assert result.n_iter == len(result.history)
    assert np.abs(result.representation - result.low_rank).sum(axis=1).max() < 1e-7
    assert max(result.history[-1].residuals.values()) < 1e-7
    if function is asr_etr:
        assert result.affinity is None
        assert result.embedding is None
        for anchors in result.anchors:
            np.testing.assert_allclose(anchors @ anchors.T, np.eye(5), atol=1e-12)
    else:
        assert result.anchors is None
        np.testing.assert_array_equal(result.affinity, result.affinity.T)


@pytest.mark.parametrize("function", [tsvd_mvc, tlspnm, asr_etr])
def test_input_is_scaled_and_left_alone(function):
    views = digits(20)
    copies = [view.copy() for view in views]
    result = run_small(function, views, max_iter=5)
    scaled = run_small(function, {"a": views[0] * 7, "b": views[1] / 3, "c": views[2], "d": views[3]}, max_iter=5)
    assert distance(scaled.representation, result.representation) < 1e-12
    for view, copy in zip(views, copies, strict=True):
        np.testing.assert_array_equal(view, copy)


@pytest.mark.parametrize("function", [tsvd_mvc, tlspnm, asr_etr])
@pytest.mark.parametrize(
    ("views", "error", "message"),
    [
        ([], ValueError, "no views"),
        ([np.ones((3, 2)), np.ones((4, 2))], ValueError, "different numbers of samples"),
        ([np.ones((3, 2)), np.array([[1, np.nan], [1, 2], [3, 4]])], ValueError, "view 1 contains NaN"),
        ([np.ones((3, 2, 2))], ValueError, "3 dimensions"),
        ([np.array([["a", "b"]])], TypeError, "not numeric"),
        (3, TypeError, "expected a list"),
    ],
)
def test_bad_views(function, views, error, message):
    with pytest.raises(error, match=message):
        run_small(function, views)


@pytest.mark.parametrize(
    ("function", "changes", "message"),
    [
        (tsvd_mvc, {"lam": 0}, "lam must be a finite number > 0"),
        (tlspnm, {"lam": np.nan}, "lam must be"),
        (tsvd_mvc, {"max_iter": 0}, "max_iter must be an integer >= 1"),
        (asr_etr, {"gamma": -1}, "gamma must be a finite number >= 0"),
        (asr_etr, {"alpha": "1"}, "alpha must be"),
        (asr_etr, {"delta": 0.0}, "delta must be"),
        (asr_etr, {"n_latent": 2.5}, "n_latent must be"),
        (asr_etr, {"n_clusters": 31}, "n_clusters = 31 must be at most 20"),
    ],
)
def test_bad_parameters(function, changes, message):
    with pytest.raises(ValueError, match=message):
        run_small(function, digits(), **changes)
