import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from tensormvc import penalties
from tensormvc.penalties import ETP, ETR, MCP, SCAD, GammaNorm, Geman, Laplace, Log, Nuclear, SchattenP, make_penalty
from tensormvc.published import ReweightedETR
from tensormvc.testing import check_penalty

from . import textbook

TEXTBOOK = textbook.penalty_values()
OTHER_PARAMETERS = [
    ETR(1.0),
    ETR(2.0),
    ETR(1e-4),
    Laplace(2.0),
    Geman(1e-3),
    ETP(5.0),
    SchattenP(0.1),
    SchattenP(0.9),
    SchattenP(1.0),
    MCP(0.5),
    SCAD(1.5),
    GammaNorm(3.0),
]


@pytest.mark.parametrize("name", TEXTBOOK)
def test_defaults_satisfy_the_contract(name):
    check_penalty(name)


@pytest.mark.parametrize("penalty", OTHER_PARAMETERS, ids=repr)
def test_other_parameters_satisfy_the_contract(penalty):
    check_penalty(penalty)


@pytest.mark.parametrize("name", TEXTBOOK)
def test_value_is_the_table(name):
    s = np.linspace(0, 6, 301)
    np.testing.assert_allclose(make_penalty(name).value(s), [TEXTBOOK[name](x) for x in s], rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("name", TEXTBOOK)
@given(s=st.floats(0, 50), threshold=st.floats(1e-6, 100))
def test_prox_is_as_good_as_a_search(name, s, threshold):
    value = TEXTBOOK[name]

    def objective(x):
        return (x - s) ** 2 / 2 + threshold * value(x)

    x = float(make_penalty(name).prox(np.array([s]), threshold)[0])
    assert objective(x) <= objective(textbook.prox_by_search(value, s, threshold)) + 1e-8


@pytest.mark.parametrize("name", TEXTBOOK)
def test_the_smallest_numbers_become_zero(name):
    """Without a warning, although derivatives near 0 may exceed all numbers."""
    np.testing.assert_array_equal(make_penalty(name).prox(np.array([5e-324, 1e-300, 4e-206]), 7.0), 0)


@pytest.mark.parametrize("name", TEXTBOOK)
@pytest.mark.parametrize("threshold", [1e-4, 0.01, 0.3, 0.9, 1.7, 2.5, 40.0])
def test_lipschitz_constant_is_that_of_the_map(name, threshold):
    penalty = make_penalty(name)
    s = np.linspace(0, 3 + 2 * threshold, 30_001)
    steepest = np.max(np.diff(penalty.prox(s, threshold)) / np.diff(s))
    claimed = penalty.lipschitz(threshold)
    if np.isinf(claimed):
        # A jump, or an infinite slope: over a fine grid no bound of this size can hold.
        assert steepest > 5
    else:
        assert steepest <= claimed * (1 + 1e-6)
        assert steepest >= claimed * 0.98


def test_which_penalties_have_no_lipschitz_constant():
    assert Nuclear().lipschitz(1e6) == 1
    assert np.isinf(SchattenP().lipschitz(1e-9))
    assert np.isinf(ETR().lipschitz(1.0))
    assert MCP(2.0).lipschitz(1.0) == 2
    assert np.isinf(MCP(2.0).lipschitz(2.0))
    assert Log().lipschitz(0.5) == 2


@pytest.mark.parametrize("name", TEXTBOOK)
def test_backends_and_precisions_agree(name, backend):
    s = np.concatenate([[0.0], np.geomspace(1e-2, 1e2, 50)])
    penalty = make_penalty(name)
    for threshold in (0.05, 1.0, 20.0):
        expected = penalty.prox(s, threshold)
        np.testing.assert_allclose(backend.numpy(penalty.prox(backend.array(s), threshold)), expected, rtol=1e-13)
        single = penalty.prox(backend.array(s, "float32"), threshold)
        assert str(single.dtype).endswith("float32")
        near_jump = np.abs(backend.numpy(single) - expected) > 1e-3 * (1 + expected)
        # Single precision may decide a tie the other way: then the objectives agree.
        x = backend.numpy(single).astype(np.float64)[near_jump]
        objectives = [
            (v - s[near_jump]) ** 2 / 2 + threshold * penalty.value(v) if near_jump.any() else np.zeros(0)
            for v in (x, expected[near_jump])
        ]
        np.testing.assert_allclose(*objectives, rtol=1e-5)


@pytest.mark.parametrize("name", TEXTBOOK)
def test_derivative_at_zero_and_at_infinity(name):
    penalty = make_penalty(name)
    at_zero = float(penalty.derivative(np.zeros(1))[0])
    assert at_zero > 0
    assert np.isinf(at_zero) == (name == "schatten-p")
    if name != "nuclear":
        assert penalty.derivative(np.array([1e6]))[0] < 1e-2


def test_reference_log(shared):
    reference = np.load(shared / "reference" / "prox.npz")
    for i, threshold in enumerate(reference["lsp_beta"], start=1):
        np.testing.assert_allclose(
            Log().prox(reference["lsp_y"], float(threshold)), reference[f"lsp_scalar_{i}"], rtol=1e-12
        )


def test_reference_reweighted_etr(shared):
    reference = np.load(shared / "reference" / "prox.npz")
    for i, rho in enumerate(reference["etr_rho"], start=1):
        for j, delta in enumerate(reference["etr_delta"], start=1):
            x = ReweightedETR(float(delta)).prox(reference["etr_y"][:, None], float(1 / rho))
            np.testing.assert_allclose(x[:, 0], reference[f"etr_scalar_r{i}_d{j}"], rtol=1e-12, atol=1e-14)


def test_exact_etr_is_never_worse_than_the_published_one():
    s = np.linspace(0, 30, 301)
    for delta in (0.1, 1.0, 2.0):
        for threshold in (0.5, 1.0, 50.0):
            objectives = []
            for penalty in (ETR(delta), ReweightedETR(delta)):
                x = penalty.prox(s[:, None], threshold)[:, 0]
                objectives.append((x - s) ** 2 / 2 + threshold * penalty.value(x))
            assert np.all(objectives[0] <= objectives[1] + 1e-12)


@pytest.mark.parametrize(
    ("s", "threshold", "error", "message"),
    [
        ([-1.0], 1.0, ValueError, "negative"),
        ([np.nan], 1.0, ValueError, "NaN"),
        ([np.inf], 1.0, ValueError, "infinity"),
        ([1j], 1.0, TypeError, "complex"),
        (["a"], 1.0, TypeError, "not numeric"),
        ([1.0], -1.0, ValueError, "threshold"),
        ([1.0], np.nan, ValueError, "threshold"),
        ([1.0], True, ValueError, "threshold"),
    ],
)
def test_wrong_input(s, threshold, error, message):
    with pytest.raises(error, match=message):
        Nuclear().prox(s, threshold)


@pytest.mark.parametrize(
    "penalty",
    [ETR(0), ETR(-1), Laplace(np.inf), Geman("a"), ETP(0.0), SchattenP(1.5), SchattenP(0), MCP(0), SCAD(1.0)],
    ids=repr,
)
def test_wrong_parameters(penalty):
    with pytest.raises(ValueError, match=type(penalty).__name__):
        penalty.prox([1.0], 0.5)


def test_names_clones_and_strangers():
    assert repr(clone(ETR(0.5))) == "ETR(delta=0.5)"
    assert {type(make_penalty(name)).__name__ for name in TEXTBOOK} <= set(penalties.__all__)
    with pytest.raises(ValueError, match="unknown penalty 'l0'"):
        make_penalty("l0")
    with pytest.raises(TypeError, match="is not a penalty"):
        make_penalty(Nuclear)


class HalfNuclear:
    """A stranger's penalty without our base class."""

    def value(self, s):
        return s / 2

    def prox(self, s, threshold):
        return np.maximum(s - threshold / 2, 0).astype(s.dtype)


def test_check_penalty_accepts_a_strangers_and_finds_faults():
    check_penalty(HalfNuclear())
    wrong = type("Wrong", (HalfNuclear,), {"prox": lambda self, s, t: np.maximum(s - t, 0)})()
    with pytest.raises(AssertionError, match="not the minimiser"):
        check_penalty(wrong)
    shifted = type("Shifted", (HalfNuclear,), {"value": lambda self, s: s + 1})()
    with pytest.raises(AssertionError, match=r"value\(0\)"):
        check_penalty(shifted)
    steep = type("Steep", (HalfNuclear,), {"derivative": lambda self, s: np.ones_like(s)})()
    with pytest.raises(AssertionError, match="derivative"):
        check_penalty(steep)


def test_extreme_values():
    """Nothing cancels, overflows or grows: against the textbook in double precision."""
    assert Log().prox([1e200], 1.0) == [1e200]
    s = np.geomspace(1e-10, 1e10, 41)
    for threshold in (1e-12, 1e-8, 1e-3, 1.0):
        exact = Log().prox(s, threshold)
        assert np.all(exact <= s)
        single = Log().prox(s.astype(np.float32), threshold)
        assert np.all(single <= s.astype(np.float32))
        far = np.abs(s / threshold - 1) > 1e-3
        np.testing.assert_allclose(single[far], exact[far], rtol=1e-5, atol=1e-12)


def test_a_penalty_without_second_derivative():
    class Root(penalties.Penalty):
        def _value(self, s):
            return np.sqrt(1 + s) - 1

        def _derivative(self, s):
            return 0.5 / np.sqrt(1 + s)

        def _curvature_at_zero(self):
            return -0.25

    check_penalty(Root())


def test_numpy_numbers_are_numbers():
    assert MCP(np.int64(3)).prox([1.0], np.float32(0.5)) == MCP(3).prox([1.0], 0.5)
    assert SchattenP().lipschitz(0) == 1
    for wrong in ("0.5", None, np.bool_(True), [0.5]):
        with pytest.raises(ValueError, match="threshold"):
            Nuclear().prox([1.0], wrong)
    with pytest.raises(ValueError, match="delta must be at most 10"):
        ETR(30.0).value([1.0])
