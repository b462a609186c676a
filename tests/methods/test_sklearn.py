"""Every estimator, on a single 2-D array, under scikit-learn's own checks."""

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

import tensormvc as tm

ESTIMATORS = [tm.TSVDMVC(), tm.TLSpNM(), tm.ASRETR(), tm.ESTMC(), tm.TLRLF4MVC(), tm.GMC()]
ESTIMATORS += [tm.ESTMC(basis="agft"), tm.MultiViewClustering(n_clusters=3)]
# The check of array API input runs only under a switch of SciPy's, and only for estimators that claim it.
NOT_APPLICABLE = {"check_array_api_input"}
# A list is one of views, not of rows; probabilities are expected of a classifier, with a column for each class.
NOT_FOR_CLUSTERS_THAT_PREDICT = {
    "check_transformer_data_not_an_array",
    "check_estimator_sparse_array",
    "check_estimator_sparse_matrix",
}


def cases():
    for estimator in ESTIMATORS:
        for _, check in estimator_checks_generator(estimator):
            name = getattr(check, "func", check).__name__
            excepted = NOT_FOR_CLUSTERS_THAT_PREDICT if hasattr(estimator, "predict_proba") else set()
            if name not in NOT_APPLICABLE | excepted:
                yield pytest.param(estimator, check, id=f"{type(estimator).__name__}-{name}")


@pytest.mark.filterwarnings("ignore:the clusters are weak:UserWarning")
@pytest.mark.filterwarnings("ignore:the clusters may be parts of a continuum:UserWarning")
@pytest.mark.filterwarnings("ignore:. samples have no value in any view:UserWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("estimator", "check"), list(cases()))
def test_estimator_checks(estimator, check):
    check(estimator)
