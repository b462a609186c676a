"""A clustering whose page is looked at, and names that try to be more than names."""

from dataclasses import replace

import numpy as np
import pytest

import tensormvc as tm

HOSTILE = "\"><script>document.title='pwned'</script><img src='http://127.0.0.1:9/x' onerror='1'>&amp;\x00\u202e"


@pytest.fixture(scope="session")
def digits_run():
    views, y = tm.datasets.load_digits_views(150)
    views = dict(zip(["pixels", "projections", "gradients", "zones"], views, strict=True))
    model = tm.TSVDMVC(n_clusters=10, random_state=0).fit(views)
    return tm.report.ClusterRun(
        command="tensormvc cluster digits.npz -k 10 --seed 0",
        file_name="some/where/digits.npz",
        description=tm.datasets.describe(views, y),
        views=views,
        estimator=model,
        labels=model.labels_,
        seconds=1.25,
        y=y,
        audit=tm.audit_order(model, views, n_permutations=2),
        notes=[("basis gft-sum", "150 samples: the full spectrum fits")],
        versions={"tensormvc": tm.__version__},
    )


@pytest.fixture(scope="session")
def small_run(digits_run):
    """Fewer samples, for tests that fit anew."""
    views = {name: view[:60] for name, view in digits_run.views.items()}
    return replace(
        digits_run,
        description=tm.datasets.describe(views, digits_run.y[:60]),
        views=views,
        labels=digits_run.labels[:60],
        y=digits_run.y[:60],
        audit=None,
    )


@pytest.fixture(scope="session")
def hostile_run(digits_run):
    views = {f"{HOSTILE}{number}": view for number, view in enumerate(digits_run.views.values())}
    return replace(
        digits_run,
        command=f"tensormvc cluster {HOSTILE}",
        file_name=f"{HOSTILE}.npz".replace("/", ""),
        description=tm.datasets.describe(views),
        views=views,
        audit=None,
        sample_ids=[f"{HOSTILE}{row}" for row in range(150)],
        y=np.array([f"{HOSTILE}{label}" for label in digits_run.y]),
        notes=[(HOSTILE, HOSTILE)],
        versions={HOSTILE: HOSTILE},
    )
