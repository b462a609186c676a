"""
Blood cells from transcripts and surface proteins
=================================================

CITE-seq counts the transcripts and the surface proteins of the same cells. `tensormvc.tl.cluster` takes the raw counts
both and stores its results in the MuData object, where scanpy's tools find the fused graph: here its UMAP. Four
proteins mark the lineages of blood cells: CD3 T cells, CD19 B cells, CD14 monocytes and CD56 natural killer cells. Each
is high in clusters of its own.

The data, CITEseq500.h5mu, are not part of the package: set TENSORMVC_SHARED to the folder whose ``data`` has them.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import mudata
import numpy as np
import pandas as pd
import scanpy as sc

import tensormvc as tm

LINEAGES = {"CD3": "T cells", "CD19": "B cells", "CD14": "monocytes", "CD56": "NK cells"}

folder = Path(os.environ.get("TENSORMVC_SHARED", Path(__file__).parents[2] / "shared"))
path = folder / "data" / "CITEseq500.h5mu"
if not path.is_file():
    raise SystemExit(f"no {path}: set TENSORMVC_SHARED to the folder whose 'data' has CITEseq500.h5mu")
cells = mudata.read_h5mu(path)
tm.tl.cluster(cells, n_clusters=8, random_state=0)
sc.tl.umap(cells, neighbors_key="tensormvc")
print(cells.uns["tensormvc"]["report"])

# The centred log-ratio of each protein in its cell, then its standard score over the cells.
logs = pd.DataFrame(np.log1p(cells["adt"].X.toarray()), cells["adt"].obs_names, cells["adt"].var_names)
ratios = logs.sub(logs.mean(axis=1), axis=0)[list(LINEAGES)].loc[cells.obs_names]
scores = (ratios - ratios.mean()) / ratios.std()
clusters = cells.obs["tensormvc"]
means = scores.groupby(clusters, observed=True).mean()
means = means.iloc[np.lexsort((-means.max(axis=1), means.to_numpy().argmax(axis=1)))]
sizes = clusters.value_counts()

figure = plt.figure(figsize=(12, 4.2), layout="constrained")
panels = figure.subplot_mosaic(
    [["map", "CD3", "CD19", "table"], ["map", "CD14", "CD56", "table"]], width_ratios=[2, 1, 1, 2]
)
x, y = cells.obsm["X_umap"].T
for number, cluster in enumerate(clusters.cat.categories):
    members = clusters == cluster
    panels["map"].scatter(x[members], y[members], s=9, color=plt.colormaps["tab10"](number))
    middle = np.median(x[members]), np.median(y[members])
    panels["map"].annotate(cluster, middle, ha="center", va="center", weight="bold", bbox={"fc": "white", "alpha": 0.7})
panels["map"].set_title("clusters (UMAP of the fused graph)")
shades = {"cmap": "RdBu_r", "vmin": -2, "vmax": 2}
for protein, lineage in LINEAGES.items():
    panels[protein].scatter(x, y, s=4, c=scores[protein], **shades)
    panels[protein].set_title(f"{protein}: {lineage}")
for name in ("map", *LINEAGES):
    panels[name].set(xticks=[], yticks=[])
image = panels["table"].imshow(means, aspect="auto", **shades)
panels["table"].set_xticks(range(len(LINEAGES)), [f"{protein}\n{lineage}" for protein, lineage in LINEAGES.items()])
panels["table"].set_yticks(range(len(means)), [f"{cluster} ({sizes[cluster]} cells)" for cluster in means.index])
for (row, column), value in np.ndenumerate(means.to_numpy()):
    colour = "white" if abs(value) > 1.3 else "black"
    panels["table"].text(column, row, f"{value:z.1f}", ha="center", va="center", color=colour)
panels["table"].set_title("mean of each cluster")
figure.colorbar(image, ax=panels["table"], label="protein, standard score of the centred log-ratio")
plt.show()
