"""Every estimator, on a single 2-D array, under scikit-learn's own checks."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import tensormvc as tm

ESTIMATORS = [tm.TSVDMVC(), tm.TLSpNM(), tm.ASRETR(), tm.ESTMC(), tm.TLRLF4MVC(), tm.GMC()]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(ESTIMATORS)
def test_estimator_checks(estimator, check):
    check(estimator)
