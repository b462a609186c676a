import csv
import json
import re

import numpy as np
import pytest

import tensormvc as tm


def read_labels(path, delimiter=","):
    with open(path, encoding="utf-8", newline="") as stream:
        header, *rows = csv.reader(stream, delimiter=delimiter)
    return header, {name: int(label) for name, label, *_ in rows}


def read_columns(path):
    """The columns of a table of labels: numbers, None for an empty field."""
    with open(path, encoding="utf-8", newline="") as stream:
        header, *rows = csv.reader(stream)
    return {name: [json.loads(text or "null") for text in own] for name, *own in zip(header, *rows, strict=True)}


def test_labels_are_those_of_the_estimator_and_the_choice_is_told(run_program, digits, data, tmp_path):
    ended = run_program("cluster", digits, "-k", 10, "-o", "labels.csv")
    assert (ended.code, ended.err) == (0, "")
    header, labels = read_labels(tmp_path / "labels.csv")
    assert header == ["sample", "cluster", "confidence", "runner_up"]
    assert list(labels) == [str(row) for row in range(100)]
    model = tm.MultiViewClustering(n_clusters=10, random_state=0).fit(data[0])
    wanted = model.labels_
    np.testing.assert_array_equal(list(labels.values()), wanted)
    columns = read_columns(tmp_path / "labels.csv")
    np.testing.assert_array_equal(columns["confidence"], model.confidence_)
    assert columns["runner_up"] == [model.explain_sample(row).runner_up for row in range(100)]
    assert f"Certainty: {model.report_.certainty}" in ended.out
    for text in ("100 samples", "MultiViewClustering", "default", "scaling of", "as requested", "labels.csv"):
        assert text in ended.out
    scaled = re.findall(r"scaling of (\S+ \S+)", ended.out)
    assert scaled == sorted(scaled)
    accuracy = tm.metrics.clustering_accuracy(data[1], wanted)
    assert f"ACC {accuracy:.3f}" in ended.out
    assert "used for nothing else" in ended.out


def test_parameters_of_the_default_method_keep_it(run, digits, data, tmp_path):
    ended = run("cluster", digits, "-k", 10, "-o", "labels.csv", "-p", "effort=low", "-p", "n_jobs=1")
    assert (ended.code, ended.err) == (0, "")
    assert "MultiViewClustering" in ended.out
    model = tm.MultiViewClustering(10, effort="low", random_state=0).fit(data[0])
    np.testing.assert_array_equal(list(read_labels(tmp_path / "labels.csv")[1].values()), model.labels_)


def test_with_a_basis_it_is_estmc(run, digits, data, tmp_path):
    ended = run("cluster", digits, "-k", 10, "-o", "labels.csv", "--basis", "auto")
    assert (ended.code, ended.err) == (0, "")
    wanted = tm.ESTMC(n_clusters=10, random_state=0).fit_predict(data[0])
    np.testing.assert_array_equal(list(read_labels(tmp_path / "labels.csv")[1].values()), wanted)
    for text in ("ESTMC", "default with --basis or --param", "gft-sum", "auto: 100 samples"):
        assert text in ended.out


def test_the_number_of_clusters_is_looked_for(run, digits, data, tmp_path):
    ended = run("cluster", digits, "-o", "labels.csv", "--json")
    assert ended.code == 0, ended.err
    result = json.loads(ended.out)
    wanted = tm.MultiViewClustering(random_state=0).fit(data[0])
    assert result["n_clusters"] == wanted.n_clusters_ == len(result["cluster_sizes"])
    assert result["chosen"]["clusters"]["reason"] == wanted.report_.cluster_number.statement
    assert result["auto"]["members"][0]["name"] == wanted.report_.members[0].name
    assert (result["labels"], result["confidence"]) == (wanted.labels_.tolist(), wanted.confidence_.tolist())
    assert (len(result["runner_up"]), result["samples"]) == (100, None)
    assert (result["certainty"], result["warnings"]) == (wanted.report_.certainty, wanted.report_.warnings)


def test_json_is_all_that_is_printed(run, digits, data, tmp_path):
    arguments = ["--method", "tlspnm", "--basis", "agft", "--param", "lam=0.5", "--param", "max_iter=300"]
    ended = run("cluster", digits, "-k", 5, "-o", "l.tsv", "--seed", 3, "--json", *arguments, "--column", "group")
    assert (ended.code, ended.err) == (0, "")
    result = json.loads(ended.out)
    wanted = tm.TLSpNM(5, basis="agft", lam=0.5, max_iter=300, random_state=3).fit(data[0])
    header, labels = read_labels(tmp_path / "l.tsv", "\t")
    assert header == ["sample", "group"]
    np.testing.assert_array_equal(list(labels.values()), wanted.labels_)
    assert result["chosen"]["method"] == {"value": "TLSpNM", "reason": "as requested"}
    assert result["chosen"]["basis"] == {"value": "agft", "reason": "as requested"}
    assert result["cluster_sizes"] == np.bincount(wanted.labels_).tolist()
    assert (result["n_iter"], result["converged"], result["parameters"]["lam"]) == (wanted.n_iter_, True, 0.5)
    assert result["metrics"] == pytest.approx(tm.metrics.clustering_report(data[1], wanted.labels_))
    assert result["command"].startswith("tensormvc cluster digits.npz -k 5 ")


def test_known_classes_change_nothing(run, digits, data, tmp_path):
    tm.datasets.save_views(tmp_path / "without.npz", data[0])
    outputs = [run("cluster", file, "-k", 4, "-o", "-") for file in (digits, "without.npz")]
    assert [ended.code for ended in outputs] == [0, 0]
    assert len({ended.out for ended in outputs}) == 1
    assert "ACC" in outputs[0].err
    assert "ACC" not in outputs[1].err


def test_ids_keep_their_label_whatever_the_order_of_the_rows(run, data, tmp_path):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra 'io')")
    rng = np.random.default_rng(0)
    ids = np.array([f'digit {i}, "{"é" * (i % 3)}"' for i in range(60)])
    found = []
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        for name, view in zip(("pixels", "gradients"), data[0], strict=False):
            order = rng.permutation(60)
            with open(tmp_path / folder / f"{name}.csv", "w", encoding="utf-8", newline="") as stream:
                table = csv.writer(stream)
                table.writerow(["id", *(f"f{i}" for i in range(view.shape[1]))])
                table.writerows([ids[i], *view[i].tolist()] for i in order)
        ended = run("cluster", folder, "-k", 4, "-o", f"{folder}.csv")
        assert ended.code == 0, ended.err
        assert "pixels: 64" in ended.out
        found.append(read_labels(tmp_path / f"{folder}.csv")[1])
    assert set(found[0]) == set(ids)
    assert found[0] == found[1]
    assert list(found[0]) != list(found[1])


def test_parquet(run, digits, data, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed (extra 'io')")
    assert run("cluster", digits, "-k", 3, "-o", "labels.parquet").code == 0
    table = parquet.read_table(tmp_path / "labels.parquet").to_pydict()
    model = tm.MultiViewClustering(n_clusters=3, random_state=0).fit(data[0])
    runner_up = [model.explain_sample(row).runner_up for row in range(100)]
    columns = {"cluster": model.labels_.tolist(), "confidence": model.confidence_.tolist(), "runner_up": runner_up}
    assert table == {"sample": list(range(100)), **columns}


@pytest.mark.filterwarnings("ignore:.*(update|pull).*:FutureWarning", "ignore::UserWarning:mudata")
def test_back_into_obs(run, data, tmp_path):
    mudata = pytest.importorskip("mudata", reason="mudata is not installed (extra 'mudata')")
    anndata = pytest.importorskip("anndata")
    pandas = pytest.importorskip("pandas")
    ids = [f"cell {i}" for i in range(100)]
    parts = {
        name: anndata.AnnData(view, obs=pandas.DataFrame(index=ids))
        for name, view in zip(("rna", "atac"), data[0], strict=False)
    }
    mudata.MuData(parts).write(tmp_path / "cells.h5mu")
    before = (tmp_path / "cells.h5mu").read_bytes()
    assert run("cluster", "cells.h5mu", "-k", 3, "-o", "labelled.h5mu").code == 0
    assert (tmp_path / "cells.h5mu").read_bytes() == before
    model = tm.MultiViewClustering(n_clusters=3, random_state=0).fit(data[0][:2])
    wanted = model.labels_
    again = mudata.read_h5mu(tmp_path / "labelled.h5mu")
    assert again.obs["cluster"].astype(int).tolist() == wanted.tolist()
    np.testing.assert_array_equal(again.obs["cluster_confidence"], model.confidence_)
    assert again.obs["cluster_runner_up"].isin(["0", "1", "2"]).sum() > 0
    np.testing.assert_array_equal(again["rna"].X, data[0][0])
    # Into the file itself only by force.
    assert run("cluster", "cells.h5mu", "-k", 3, "-o", "cells.h5mu").code == 4
    assert (tmp_path / "cells.h5mu").read_bytes() == before
    assert run("cluster", "cells.h5mu", "-k", 3, "-o", "cells.h5mu", "--force").code == 0
    assert mudata.read_h5mu(tmp_path / "cells.h5mu").obs["cluster"].astype(int).tolist() == wanted.tolist()
    # A column that is there, or cannot be, is refused before anything is computed.
    for column, code, message in (("cluster", 4, "has a column 'cluster'"), ("a/b", 2, "'a/b' cannot be the name")):
        ended = run("cluster", "cells.h5mu", "-k", 3, "-o", "new.h5mu", "--column", column, "--param", "max_iter=0")
        assert (ended.code, message in ended.err) == (code, True), ended.err
    assert run("cluster", "nowhere.h5mu", "-k", 3, "-o", "new.h5mu").code == 3


def test_page(run, digits, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (extra 'plot')")
    ended = run("cluster", digits, "-k", 10, "-o", "labels.csv", "--report", "a/page", "--orders", 2, "--json")
    assert ended.code == 0, ended.err
    page = tmp_path / "a" / "page" / "index.html"
    assert json.loads(ended.out)["report"] == str(page.relative_to(tmp_path))
    text = page.read_text(encoding="utf-8")
    assert "tensormvc cluster digits.npz -k 10 -o labels.csv --report a/page --orders 2 --json" in text
    assert "the same partition of 100 samples in all 2 orders" in text
    ended = run("cluster", digits, "-k", 10, "-o", "other.csv", "--report", "a/page")
    assert (ended.code, (tmp_path / "other.csv").exists()) == (4, False)
    assert page.read_text(encoding="utf-8") == text


def test_features_of_our_own_are_named(run, digits, tmp_path):
    (tmp_path / digits).rename(tmp_path / "digits_recomputed.npz")
    for arguments in (["cluster", "-o", "labels.csv"], ["audit", "--orders", 2]):
        ended = run(*arguments, "digits_recomputed.npz", "-k", 10)
        assert (
            "The features in this file were recomputed: results are not those of the published data set." in ended.out
        )


def test_a_result_that_depends_on_the_order_is_called_so(run, digits):
    ended = run("cluster", digits, "-k", 10, "-o", "labels.csv", "--basis", "fft")
    assert "the result depends on the order of the rows" in ended.out


def test_no_convergence_is_a_warning(run_program, digits):
    ended = run_program("cluster", digits, "-k", 10, "-o", "labels.csv", "--param", "max_iter=2", "--json")
    assert ended.code == 0
    assert ended.err.startswith("warning: ESTMC did not converge in 2 iterations")
    result = json.loads(ended.out)
    assert result["converged"] is False
    assert len(result["warnings"]) == 1
