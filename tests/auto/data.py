"""Data that several tests of the front door share."""

import warnings
from dataclasses import replace

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import tensormvc as tm
from tensormvc.auto import _estimator
from tensormvc.auto._effort import EFFORTS

acc = tm.metrics.clustering_accuracy


def fit(views, n_clusters=10, **options):
    return tm.MultiViewClustering(n_clusters, random_state=0, **options).fit(views)


def quiet_fit(views, n_clusters=10, **options):
    """Fit without the warnings that data of tests are meant to raise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        return fit(views, n_clusters, **options)


def limit_landmarks(patch, count):
    """Let at most so many samples be clustered, and all others be placed."""
    patch.setattr(_estimator, "choose_effort", lambda *_: replace(EFFORTS["high"], most_landmarks=count))


def blobs(n_samples=90, n_clusters=3, widths=(4, 6), seed=0):
    """Well-separated clusters that all views see, and their labels."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_clusters, size=n_samples)
    return [6 * rng.normal(size=(n_clusters, d))[y] + rng.normal(size=(n_samples, d)) for d in widths], y


def with_gaps(views, seed=0):
    """The views with missing samples, empty samples, single gaps and duplicates; every sample keeps a value."""
    rng = np.random.default_rng(seed)
    views = [view.copy() for view in views]
    n = len(views[0])
    rows = rng.permutation(n)
    tenth = max(1, n // 10)
    views[0][rows[:tenth]] = np.nan
    views[1][rows[tenth : 2 * tenth]] = 0
    views[1][rows[2 * tenth : 3 * tenth], 1:3] = np.nan
    for view in views:
        view[rows[3 * tenth : 3 * tenth + 3]] = view[rows[3 * tenth]]
    return views
