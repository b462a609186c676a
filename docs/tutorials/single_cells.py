"""
Single cells: transcripts and surface proteins
==============================================

CITE-seq counts the transcripts and the surface proteins of the same cells. Neither separates all cell types: proteins
separate the lineages, and transcripts the states within them. `tl.cluster` takes the raw counts of both from a MuData
object, and writes its results where scanpy looks for them. The data are 500 blood cells with 8 306 genes and 48
proteins; you can use any `.h5mu` file with several modalities instead.
"""

# %%
# ## From counts to clusters
#
# You need not normalise the counts first, nor choose a number of principal components. The scalings that are compared
# include the usual ones for both assays: logarithms of relative counts, and centred log-ratios.
import os
from pathlib import Path

import mudata
import scanpy as sc

import tensormvc as tm

data = Path(os.environ["TENSORMVC_SHARED"]) / "data"
cells = mudata.read_h5mu(data / "CITEseq500.h5mu")
tm.tl.cluster(cells, n_clusters=10, random_state=0)
print(cells.obs[["tensormvc", "tensormvc_confidence"]].head())

# %%
# ## What was chosen, and why
#
# The report says how each assay was weighted and scaled, and how far to trust the clusters. It is stored with the
# data.
print(cells.uns["tensormvc"]["report"])

# %%
# ## scanpy on the fused graph
#
# The graph of both assays together is stored in the same way as that of `scanpy.pp.neighbors`. To run UMAP, Leiden or
# PAGA on it, pass its name.
sc.tl.umap(cells, neighbors_key="tensormvc")
sc.tl.leiden(cells, neighbors_key="tensormvc", flavor="igraph", n_iterations=2, directed=False)
print(cells.obs.groupby("tensormvc", observed=True)["leiden"].agg(lambda labels: labels.value_counts().index[0]))

# %%
# ## Which cells are these?
#
# Four proteins mark the lineages of blood cells: CD3 T cells, CD19 B cells, CD14 monocytes and CD56 natural killer
# cells. Each is high in clusters of its own.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

lineages = {"CD3": "T cells", "CD19": "B cells", "CD14": "monocytes", "CD56": "NK cells"}
logs = pd.DataFrame(np.log1p(cells["adt"].X.toarray()), cells["adt"].obs_names, cells["adt"].var_names)
ratios = logs.sub(logs.mean(axis=1), axis=0)[list(lineages)].loc[cells.obs_names]  # centred log-ratios
scores = (ratios - ratios.mean()) / ratios.std()
means = scores.groupby(cells.obs["tensormvc"], observed=True).mean()

figure, (places, table) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
x, y = cells.obsm["X_umap"].T
clusters = cells.obs["tensormvc"]
for number, cluster in enumerate(clusters.cat.categories):
    members = clusters == cluster
    places.scatter(x[members], y[members], s=9, color=plt.colormaps["tab10"](number))
    middle = np.median(x[members]), np.median(y[members])
    places.annotate(cluster, middle, ha="center", va="center", weight="bold", bbox={"fc": "white", "alpha": 0.7})
places.set(title="UMAP of the fused graph", xticks=[], yticks=[])
image = table.imshow(means, aspect="auto", cmap="RdBu_r", vmin=-2, vmax=2)
table.set_xticks(range(len(lineages)), [f"{protein}\n{lineage}" for protein, lineage in lineages.items()])
table.set(title="mean of each cluster", yticks=range(len(means)), yticklabels=means.index, ylabel="cluster")
figure.colorbar(image, label="standard score")

# %%
# ## What sets a cluster apart
#
# The model lists the transcripts and proteins that set each cluster apart. `fit` accepts the same object.
model = tm.MultiViewClustering(10, random_state=0).fit(cells)
effects = model.explain().to_frame()  # leading features first; effect is the area under the ROC curve
higher = effects[effects["effect"] > 0.5].groupby("cluster").head(3)
print(higher[["cluster", "view", "feature", "effect", "low", "high"]].round(2).to_string(index=False))

# %%
# ## Cells that lack an assay
#
# Suppose that a tenth of the cells have no protein measurement. They stay in the data and are compared by their
# transcripts; `sample_view_weights_` shows the weight of each assay for each cell. With less information the clusters
# are less clear, and `fit` gives a warning.
without = cells["adt"].obs_names[::10]
few = mudata.MuData({"rna": cells["rna"], "adt": cells["adt"][~cells["adt"].obs_names.isin(without)].copy()})
partial = tm.MultiViewClustering(10, random_state=0).fit(few)
same = pd.Series(model.labels_, index=model.sample_ids_).loc[partial.sample_ids_]
print(f"{len(without)} cells without proteins; ARI with the clusters above {tm.metrics.ari(same, partial.labels_):.2f}")

# %%
# ## On the command line
#
# You can do the same without Python: `tensormvc cluster cells.h5mu -k 10 -o labelled.h5mu --save model.tmvc --report
# page` writes a copy of the file with the clusters in `obs`, a model that labels new cells, and an HTML report.
