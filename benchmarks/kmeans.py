"""Our k-means beside scikit-learn's on embeddings, from ten starts each, and what the distance bounds save."""

import argparse
import warnings
from contextlib import contextmanager

import numpy as np
from _measure import seconds
from sklearn.cluster import KMeans

import tensormvc as tm
from tensormvc.rows import SampleRandom, _kmeans, kmeans, row_work
from tensormvc.views import as_views

STARTS = 10


def embeddings():
    """Yield names, embeddings and numbers of clusters: what the methods hand to k-means."""
    warnings.simplefilter("ignore")
    views, _ = tm.datasets.load_digits_views()
    yield "digits", tm.ESTMC(10, "agft", random_state=0).fit(views).embedding_, 10
    views, _ = tm.datasets.make_multiview(20_000, n_clusters=20, n_features=(30, 40), noise=1.5, random_state=0)
    points = tm.ESTMC(20, "agft", max_iter=30, random_state=0).fit(views).embedding_
    yield "synthetic", points, 10
    yield "synthetic", points, 100


@contextmanager
def reassigning(work):
    """Let other work take the place of the one that reassigns points to centres."""
    original, _kmeans._reassign = _kmeans._reassign, work
    try:
        yield
    finally:
        _kmeans._reassign = original


def without_bounds(original):
    """Reassign all points in every round."""

    @row_work(reads="points squares", writes="own gap")
    def reassign(rows: _kmeans.KMeansRows, centres, moves, slack):
        # Any move of a centre uses up a gap of zero; starts that have ended stay so.
        rows.gap[...] = 0
        return original(rows, centres, moves, slack)

    return reassign


def counting(original, counts):
    """Count the points that are reassigned, and those that would be without bounds."""

    @row_work(reads="points squares", writes="own gap")
    def reassign(rows: _kmeans.KMeansRows, centres, moves, slack):
        n, k = len(rows), centres.shape[1]
        if moves is None:
            counts.append((n * len(centres), n * len(centres)))
        else:
            active = np.isfinite(moves.reshape(-1, k)).all(axis=1).sum()
            counts.append((np.sum(rows.gap - moves[rows.own] <= slack), n * active))
        return original(rows, centres, moves, slack)

    return reassign


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    print("| points | clusters | ours, s | scikit-learn, s | ratio | without bounds, s | ratio | distances left |")
    print("|---|---|---|---|---|---|---|---|")
    for name, points, k in embeddings():
        views = as_views([points])
        points = np.ascontiguousarray(points[views.order])

        def ours(points=points, views=views, k=k):
            return kmeans(points, k, n_init=STARTS, random=SampleRandom(views, 0))

        def plain(ours=ours):
            with reassigning(without_bounds(_kmeans._reassign)):
                return ours()

        def theirs(points=points, k=k):
            # Until no label changes, as ours.
            return KMeans(k, n_init=STARTS, algorithm="lloyd", tol=0, random_state=0).fit(points)

        counts = []
        with reassigning(counting(_kmeans._reassign, counts)):
            labels, inertia = ours()
        computed, without = np.sum(counts, axis=0)
        assert np.array_equal(labels, plain()[0])
        assert inertia < 1.05 * theirs().inertia_
        time = seconds({"ours": ours, "theirs": theirs, "plain": plain}, repeats=3)
        print(
            f"| {name}, {points.shape[0]} × {points.shape[1]} | {k} | {time['ours']:.2f} | {time['theirs']:.2f} | "
            f"{time['theirs'] / time['ours']:.1f} | {time['plain']:.2f} | {time['plain'] / time['ours']:.1f} | "
            f"{computed / without:.0%} |"
        )


if __name__ == "__main__":
    main()
