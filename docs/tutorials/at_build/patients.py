"""
Patients with missing assays
============================

Three assays were made of 240 patients: expression in blood, a panel of proteins, and a questionnaire with categories.
Every patient has at least one; nearly half have all three. Dropping the others would more than halve the study, and
filling in means would invent measurements. The tables are used as they are. The patients are synthetic, with four
subtypes of a disease.
"""

# %%
# Three tables of different patients
# ----------------------------------
#
# Every subtype has its own profile in 20 genes and in 10 proteins; the questionnaire reflects it only weakly. Each
# table contains the patients that were measured, in its own order.
import numpy as np
import pandas as pd

import tensormvc as tm

rng = np.random.default_rng(0)
ids = pd.Index([f"P{number:03d}" for number in range(240)])
subtype = pd.Series(rng.integers(4, size=240), index=ids)


def assay(values, share):
    """Keep a share of the patients, in an order of its own."""
    return pd.DataFrame(values, index=ids).sample(frac=share, random_state=len(values.T))


def profiles(n_features, n_informative):
    """Draw one profile per subtype, and noise."""
    profile = rng.normal(size=(4, n_features)) * (np.arange(n_features) < n_informative)
    return profile[subtype] + rng.normal(size=(240, n_features))


expression, proteins = assay(profiles(60, 20), 0.75), assay(profiles(24, 10), 0.6)
survey = pd.DataFrame({"age": rng.normal(55 + 6 * subtype, 6), "pain": rng.normal(subtype % 3, 0.7)}, index=ids)
survey["smoker"] = pd.Categorical(np.where(rng.random(240) < 0.2 + 0.5 * (subtype == 3), "yes", "no"))
survey.loc[ids[::9], "pain"] = np.nan  # single gaps
expression.columns = [f"gene {i}" for i in range(60)]
proteins.columns = [f"protein {i}" for i in range(24)]
tables = {"expression": expression, "proteins": proteins, "survey": survey}
print({name: table.shape for name, table in tables.items()})
print("patients with all three:", len(expression.index.intersection(proteins.index)))

# %%
# Fit
# ---
#
# Tables are joined on their index. A patient is compared with others in the assays that both have.
model = tm.MultiViewClustering(n_clusters=4, random_state=0).fit(tables)
print(model.report_)

# %%
# Results by patient
# ------------------
#
# `sample_ids_` lists the patients in the order of the labels. `sample_view_weights_` shows the weight of each assay: 0
# if it is missing.
result = pd.DataFrame(model.sample_view_weights_.round(2), index=model.sample_ids_, columns=model.view_names_)
result.insert(0, "confidence", model.confidence_.round(2))
result.insert(0, "cluster", model.labels_)
print(result.head(8))

# %%
# Who is uncertain?
# -----------------
#
# Patients with fewer assays, as expected. The subtypes are used only to measure this.
truth = subtype.loc[model.sample_ids_].to_numpy()
assays = (model.sample_view_weights_ > 0).sum(axis=1)
for count in (1, 2, 3):
    chosen = assays == count
    right = tm.metrics.clustering_accuracy(truth[chosen], model.labels_[chosen])
    sure = model.confidence_[chosen].mean()
    print(f"{count} assays: {chosen.sum():>3} patients, mean confidence {sure:.2f}, accuracy {right:.0%}")

# %%
# Compared with mean imputation
# -----------------------------
#
# For comparison, the same clustering after missing values were replaced by means. A warning says that the clusters may
# be parts of a continuum.
numbers = {**tables, "survey": survey[["age", "pain"]]}
filled = {name: table.reindex(model.sample_ids_).fillna(table.mean()) for name, table in numbers.items()}
imputed = tm.MultiViewClustering(4, random_state=0).fit(filled)
print(f"the tables as they are: {tm.metrics.clustering_accuracy(truth, model.labels_):.0%}")
print(f"means filled in:        {tm.metrics.clustering_accuracy(truth, imputed.labels_):.0%}")

# %%
# What makes the subtypes?
# ------------------------
#
# The genes and proteins that set each cluster apart, computed over the patients in whom they were measured.
print(model.explain().to_frame().groupby("cluster").head(3)[["cluster", "view", "feature", "effect", "n"]])

# %%
# A new patient
# -------------
#
# Only blood was taken. The label comes with shares, and ``min_confidence`` rejects unclear ones.
patient = expression.iloc[[0]]
print(model.predict({"expression": patient}), model.predict_proba({"expression": patient}).round(2))
print(model.predict({"expression": patient}, min_confidence=0.95))
