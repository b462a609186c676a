"""What the page about a clustering says, read back with a strict parser."""

import re
import shlex
import xml.etree.ElementTree as ET
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import tensormvc as tm
from tensormvc.report._view_agreement import agreement

from .conftest import HOSTILE

SVG = ("svg", "{http://www.w3.org/2000/svg}svg")


def read(run, folder, **kwargs):
    path = tm.report.write_cluster_report(folder, run, **kwargs)
    return ET.fromstring(path.read_text(encoding="utf-8"))


def text(element):
    return "".join(element.itertext())


def tables(root):
    """Every table as rows of cells, by its caption."""
    return {
        text(table.find("caption")): [[text(cell) for cell in row] for row in table.find("tbody")]
        for table in root.iter("table")
    }


@pytest.fixture(scope="module")
def digits_page(digits_run, tmp_path_factory):
    return read(digits_run, tmp_path_factory.mktemp("page"))


def test_numbers_are_those_of_the_run(digits_run, digits_page):
    shown = tables(digits_page)
    report = tm.metrics.clustering_report(digits_run.y, digits_run.labels)
    assert shown["Agreement with the known classes"] == [[key, f"{value:.4f}"] for key, value in report.items()]
    sizes = np.bincount(digits_run.labels)
    assert [row[1] for row in shown["The clusters"]] == [str(size) for size in sizes]
    assert [row[2] for row in shown["The clusters"]] == [f"{size / 150:.1%}" for size in sizes]
    found = agreement(list(digits_run.views.values()), digits_run.labels)
    assert shown["Agreement of each view with the clusters"] == [
        [view, f"{within:.1%}", f"{silhouette:.3f}".replace("-", "−")]
        for view, within, silhouette in zip(digits_run.views, found.within, found.silhouette, strict=True)
    ]
    views = shown["The views"]
    assert [(row[0], row[1], row[3]) for row in views] == [
        (view.name, str(view.n_features), f"{view.density:.1%}") for view in digits_run.description.views
    ]
    history = digits_run.estimator.history_
    assert shown["Residuals"] == [
        [key, f"{history[0].residuals[key]:.2e}", f"{value:.2e}"] for key, value in history[-1].residuals.items()
    ]
    counts = np.array([row[1:] for row in shown["Samples of each class in each cluster"]], int)
    for (label, cluster), count in np.ndenumerate(counts):
        assert count == np.sum((digits_run.y == label) & (digits_run.labels == cluster))


def test_links_inside_and_typical_samples(digits_run, digits_page):
    graph = tm.SumGraph(10).fit(digits_run.views).graph_.toarray()
    same = digits_run.labels[:, None] == digits_run.labels[None]
    inner = (graph * same).sum(axis=1)
    for cluster, row in enumerate(tables(digits_page)["The clusters"]):
        members = np.flatnonzero(digits_run.labels == cluster)
        assert row[3] == f"{inner[members].sum() / graph[members].sum():.1%}"
        typical = [int(number) for number in row[4].split(", ")]
        assert set(typical) <= set(members)
        assert sorted(inner[typical]) == sorted(np.sort(inner[members])[-3:])


def test_how_to_run_it_again(digits_run, digits_page):
    assert text(next(digits_page.iter("pre"))) == digits_run.command
    whole = text(digits_page)
    assert "150 samples: the full spectrum fits" in whole
    parameters = dict(tables(digits_page)["Parameters of TSVDMVC"])
    assert parameters["n_clusters"] == "10"
    assert parameters["basis"].startswith("auto, fitted as GFT(")
    assert "callback" not in parameters
    assert text(next(digits_page.iter("h1"))) == "Clusters of digits.npz"
    assert "were used for this comparison, and for nothing else" in whole


def test_nothing_is_fetched_and_nothing_runs(digits_page):
    whole = ET.tostring(digits_page, encoding="unicode")
    for reference in re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?([^"')\s>]*)""", whole):
        assert reference.startswith(("#", "data:")), reference
    assert not list(digits_page.iter("script"))
    assert "@import" not in whole
    assert not re.search(r"\son\w+=", whole)
    # What is left are the names of namespaces.
    assert set(re.findall(r"https?://[^\s\"'<]*", whole)) <= {"http://www.w3.org/2000/svg"}


def test_ids_are_unique_and_pictures_have_words(digits_page):
    ids = [e.get("id") for e in digits_page.iter() if e.get("id")]
    assert len(ids) == len(set(ids))
    pictures = [e for e in digits_page.iter() if e.tag in SVG]
    assert len(pictures) == 4
    for picture in pictures:
        assert picture.get("role") == "img"
        assert len(picture.get("aria-label")) > 40
        inner = {e.get("id") for e in picture.iter()}
        for reference in re.findall(r"(?:url\(|href=\")#([^\")]*)", ET.tostring(picture, encoding="unicode")):
            assert reference in inner
    assert all(len(list(figure.iter("figcaption"))) == 1 for figure in digits_page.iter("figure"))


def test_names_stay_names(hostile_run, tmp_path):
    root = read(hostile_run, tmp_path)
    assert not list(root.iter("script"))
    assert not list(root.iter("img"))
    clean = HOSTILE.replace("\x00", "\ufffd").replace("\u202e", "\ufffd")
    assert text(next(root.iter("pre"))) == f"tensormvc cluster {clean}"
    titles = {e.get("title") for e in root.iter("bdi")} | {text(e) for e in root.iter("bdi")}
    assert f"{clean}0" in titles, "the name of the first view"


@pytest.fixture(scope="module")
def auto_page(auto_run, tmp_path_factory):
    return read(auto_run, tmp_path_factory.mktemp("auto"))


def test_the_front_door_shows_what_it_found(auto_run, auto_page):
    model, shown, whole = auto_run.estimator, tables(auto_page), text(auto_page)
    report = model.report_
    level = report.certainty.partition(":")[0]
    assert whole.index(f"How certain the clusters are: {level}.") < whole.index("To run it again:")
    for warning in report.warnings:
        assert warning in whole or report.certainty in warning
    lacking = {choice.view: choice.n_missing for choice in report.normalisations}
    assert [row[4] for row in shown["The views"]] == [str(lacking[name]) for name in auto_run.views]
    assert sorted(lacking.values()) == [6, 11, 21, 21]
    assert report.n_single == 15
    assert "15 samples have only one view" in whole
    assert "1 samples have no value in any view" in whole
    means = [f"{model.confidence_[model.labels_ == cluster].mean():.2f}" for cluster in range(model.n_clusters_)]
    assert [row[4] for row in shown["The clusters"]] == means
    assert [row[1] for row in shown["The ways of scaling the views"]] == [
        f"{look.agreement:.2f}" for look in report.looks
    ]
    assert f"The same fit contains nested clusterings of 1 to {model.tree_.most} clusters" in whole
    captions = [text(caption) for caption in auto_page.iter("figcaption")]
    assert sum(caption.startswith("Cluster ") for caption in captions) == min(12, model.n_clusters_)
    assert any(report.cluster_number.statement in caption for caption in captions)


def test_leading_features_of_the_front_door(auto_run, auto_page):
    found = auto_run.estimator.explain()
    clean = HOSTILE.replace("\x00", "\ufffd").replace("\u202e", "\ufffd")
    for summary, row in zip(found.clusters, tables(auto_page)["Leading features of each cluster"], strict=True):
        leading = [effect for effect in found.top(5) if effect.cluster == summary.cluster]
        arrows = ["↑" if effect.effect > 0.5 else "↓" for effect in leading]
        for number, (effect, cell) in enumerate(zip(leading, re.split(r"(?<=\d), ", row[1]), strict=True)):
            several = np.sum(found.features == effect.feature) > 1
            name = f"{effect.feature} ({effect.view})" if several else effect.feature
            start = name.replace(HOSTILE, clean)[:79]
            assert cell.startswith(start), number
        assert re.findall(r"([↑↓])\u00a0([\d.]+)", row[1]) == [
            (arrow, f"{effect.effect:.2f}") for arrow, effect in zip(arrows, leading, strict=True)
        ]
    assert not list(auto_page.iter("script"))
    assert not list(auto_page.iter("img"))


def test_without_labels_nothing_is_measured(digits_run, tmp_path):
    run = replace(digits_run, y=None, description=tm.datasets.describe(digits_run.views))
    root = read(run, tmp_path)
    assert "Agreement with the known classes" not in tables(root)
    assert "known classes" not in text(root)


def test_order_that_does_not_matter(digits_run, digits_page):
    whole = text(digits_page)
    assert "Other orders of the rows gave the same clusters." in whole
    assert digits_run.audit.verdict in whole
    orders, seeds = tables(digits_page)["Agreement of clusterings (ARI; 1 is equal)"]
    assert orders == ["Another order, same seed", "1.000", "1.000 to 1.000"]
    assert seeds[1] == f"{digits_run.audit.seed_ari:.3f}"


def test_order_that_matters(small_run, tmp_path):
    model = tm.TSVDMVC(n_clusters=10, basis="fft", random_state=0).fit(small_run.views)
    audit = tm.audit_order(model, small_run.views, n_permutations=2)
    root = read(replace(small_run, estimator=model, labels=model.labels_, audit=audit), tmp_path)
    whole = text(root)
    assert "The clusters depend on the order of the rows." in whole
    assert audit.verdict in whole
    assert f"Least stable samples: {', '.join(map(str, audit.unstable_samples))}." in whole
    assert tables(root)["Agreement of clusterings (ARI; 1 is equal)"][0][1] == f"{audit.order_ari:.3f}".replace(
        "-", "−"
    )


def test_order_that_was_not_tried(digits_run, tmp_path):
    whole = text(read(replace(digits_run, audit=None, file_name="my data/x.npz", reading=["--on", "id"]), tmp_path))
    assert "did not test whether the clusters depend on the order" in whole
    assert "By design the order of the rows does not matter to TSVDMVC" in whole
    assert "tensormvc audit 'my data/x.npz' --on id --clusters 10 --basis auto --method tsvdmvc --seed 0" in whole


def test_the_command_for_the_audit_works(small_run, tmp_path, monkeypatch):
    pytest.importorskip("typer")
    from typer.testing import CliRunner

    from tensormvc.cli import app

    monkeypatch.chdir(tmp_path)
    tm.datasets.save_views("my file.npz", list(small_run.views.values()))
    model = tm.ESTMC(n_clusters=10, alpha=0.5, max_iter=300, random_state=4).fit(small_run.views)
    run = replace(small_run, estimator=model, labels=model.labels_, audit=None, file_name="my file.npz")
    command = [text(e) for e in read(run, tmp_path).iter("pre")][-1]
    assert command.endswith("--basis auto --method estmc --param alpha=0.5 --param max_iter=300 --seed 4")
    result = CliRunner().invoke(app, [*shlex.split(command)[1:], "--orders", "2"])
    assert result.exit_code == 0, result.output
    assert "same partition" in result.output


@pytest.mark.parametrize(("basis", "matters"), [("fft", True), ("dct", True), ("fft-view", False), ("agft", False)])
def test_what_a_basis_tells_of_the_order(small_run, tmp_path, basis, matters):
    model = tm.ESTMC(n_clusters=10, basis=basis, random_state=0).fit(small_run.views)
    whole = text(read(replace(small_run, estimator=model, labels=model.labels_, audit=None), tmp_path))
    assert ("The basis transforms the rows in the order of the file." in whole) == matters
    assert ("By design the order of the rows does not matter" in whole) == (not matters)


def test_sample_ids(digits_run, digits_page, tmp_path):
    ids = [f"cell-{row}" for row in range(150)]
    shown = tables(read(replace(digits_run, sample_ids=ids), tmp_path))["The clusters"]
    by_row = tables(digits_page)["The clusters"]
    assert [row[4] for row in shown] == [re.sub(r"(\d+)", r"cell-\1", row[4]) for row in by_row]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_method_without_embedding_and_history(small_run, tmp_path):
    model = tm.GMC(n_clusters=10).fit(small_run.views)
    root = read(replace(small_run, estimator=model, labels=model.labels_), tmp_path)
    whole = text(root)
    assert "the method's graph" in whole.lower()
    assert ("GMC converged after" if model.converged_ else "GMC did not converge in") in whole
    assert "Residuals" not in tables(root)


def test_a_clusterer_of_another_house(digits_run, tmp_path):
    from sklearn.cluster import KMeans

    labels = KMeans(3, random_state=0, n_init=1).fit(digits_run.views["pixels"]).labels_
    estimator = SimpleNamespace(get_params=lambda deep: {"n_clusters": 3})
    root = read(replace(digits_run, estimator=estimator, labels=labels), tmp_path)
    assert "does not record its iterations" in text(root)
    assert len(tables(root)["The clusters"]) == 3


def test_not_converged_is_said(small_run, tmp_path):
    with pytest.warns(UserWarning, match="did not converge"):
        model = tm.TSVDMVC(n_clusters=10, max_iter=3, random_state=0).fit(small_run.views)
    root = read(replace(small_run, estimator=model, labels=model.labels_), tmp_path)
    assert "TSVDMVC did not converge in 3 iterations." in text(root)


def test_one_cluster_and_one_view(tmp_path):
    views = [np.random.default_rng(0).normal(size=(12, 3))]
    model = tm.TSVDMVC(n_clusters=1, random_state=0).fit(views)
    run = tm.report.ClusterRun(
        "tensormvc cluster x.npz -k 1", "x.npz", tm.datasets.describe(views), views, model, model.labels_, 3725.0
    )
    root = read(run, tmp_path)
    assert tables(root)["Agreement of each view with the clusters"] == [["view 0", "100.0%", "—"]]
    assert "1 h 2 min" in text(root)


@pytest.mark.parametrize("n_clusters", [100, 400])
def test_many_samples_make_no_larger_page(tmp_path, n_clusters):
    rng = np.random.default_rng(0)
    n, labels = 30_000, rng.integers(0, n_clusters, 30_000)
    views = [rng.normal(size=(n, 3)) + labels[:, None]]
    estimator = SimpleNamespace(get_params=lambda deep: {}, embedding_=rng.normal(size=(n, 10)))
    run = tm.report.ClusterRun("x", "x.npz", tm.datasets.describe(views), views, estimator, labels, 1.0, y=labels)
    path = tm.report.write_cluster_report(tmp_path, run)
    assert path.stat().st_size < 1_000_000
    root = ET.fromstring(path.read_text())
    whole = text(root)
    assert "Based on 2,000 of the 30,000 samples" in whole
    assert "2,000 of 30,000 samples" in whole
    assert "Samples of each class in each cluster" not in tables(root)
    listed = {int(row[0]): int(row[1]) for row in tables(root)["The clusters"]}
    sizes = np.bincount(labels)
    assert sorted(listed.values()) == np.sort(sizes)[-200:].tolist()
    assert all(sizes[cluster] == size for cluster, size in listed.items())
    assert ("There are 200 more clusters" in whole) == (n_clusters == 400)


@pytest.mark.parametrize("method", ["TSVDMVC", "MultiViewClustering"])
def test_pages_are_equal_whatever_the_order_of_the_rows(digits_run, tmp_path, method):
    """Numbers, typical samples (of which many tie) and the dots and pixels of the pictures."""
    order = np.random.default_rng(0).permutation(150)
    y, ids = digits_run.y, [f"digit {row}" for row in range(150)]
    pages = []
    for rows in (np.arange(150), order):
        views = {name: view[rows] for name, view in digits_run.views.items()}
        model = getattr(tm, method)(n_clusters=10, random_state=0)
        if method == "TSVDMVC":
            model.set_params(keep="all")
        data = tm.datasets.Dataset(views, None, np.array([ids[row] for row in rows]))
        model.fit(data.tables)
        model.history_ = []  # seconds are on an axis, and differ
        described = tm.datasets.describe(views, y[rows])
        run = replace(digits_run, description=described, views=views, estimator=model, labels=model.labels_, audit=None)
        run = replace(run, y=y[rows], sample_ids=[ids[row] for row in rows])
        pages.append(tm.report.write_cluster_report(tmp_path / str(len(pages)), run).read_text(encoding="utf-8"))
    assert pages[0] == pages[1]


def test_pages_are_equal_whatever_the_settings_of_matplotlib(small_run, tmp_path):
    mpl = pytest.importorskip("matplotlib")
    first = tm.report.write_cluster_report(tmp_path / "first", small_run).read_bytes()
    with mpl.rc_context({"text.color": "red", "figure.facecolor": "blue", "font.size": 30}):
        before = dict(mpl.rcParams)
        assert tm.report.write_cluster_report(tmp_path / "second", small_run).read_bytes() == first
        assert dict(mpl.rcParams) == before


def test_features_of_our_own_are_named(digits_run, tmp_path):
    whole = text(read(replace(digits_run, file_name="Some-20_recomputed.mat"), tmp_path))
    assert "not those of the published data set" in whole


def test_sorted_files_are_named(tmp_path):
    views, y = tm.datasets.load_digits_views(60, class_sorted=True)
    model = tm.GMC(n_clusters=10).fit(views)
    described = tm.datasets.describe(views, y)
    run = tm.report.ClusterRun("x", "x.npz", described, views, model, model.labels_, 1.0, y=y)
    assert "and its rows are sorted by class" in text(read(run, tmp_path))


def test_existing_pages_are_kept(digits_run, tmp_path):
    (tmp_path / "index.html").write_text("mine")
    with pytest.raises(FileExistsError, match=r"index\.html"):
        tm.report.write_cluster_report(tmp_path, digits_run)
    assert (tmp_path / "index.html").read_text() == "mine"
    assert "Clusters of digits.npz" in text(read(digits_run, tmp_path, force=True))
