"""Every estimator, on a single 2-D array, under scikit-learn's own checks."""

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

import tensormvc as tm

ESTIMATORS = [tm.TSVDMVC(), tm.TLSpNM(), tm.ASRETR(), tm.ESTMC(), tm.TLRLF4MVC(), tm.GMC()]
ESTIMATORS.append(tm.MultiViewClustering(n_clusters=3))
# The check of array API input runs only under a switch of SciPy's, and only for estimators that claim it.
NOT_APPLICABLE = {"check_array_api_input"}


def cases():
    for estimator in ESTIMATORS:
        for _, check in estimator_checks_generator(estimator):
            name = getattr(check, "func", check).__name__
            if name not in NOT_APPLICABLE:
                yield pytest.param(estimator, check, id=f"{type(estimator).__name__}-{name}")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("estimator", "check"), list(cases()))
def test_estimator_checks(estimator, check):
    check(estimator)
