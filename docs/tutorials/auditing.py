"""
Auditing somebody else's pipeline
=================================

You have a pipeline that works, and somebody asks whether its clusters depend on how the rows of the table happen to be
sorted. `audit_order` answers this for anything that takes data and returns labels: it runs the pipeline on the same
samples in several orders with one seed, and in one order with several seeds. This tutorial audits scikit-learn, UMAP
with HDBSCAN, and scanpy with Leiden.
"""

# %%
# ## scikit-learn estimators
#
# Pass the estimator, with its seed. k-means depends on the order although its seed is fixed, because the seed picks
# *row numbers* as initial centres. Agglomerative clustering compares all pairs of samples, and does not.
from sklearn.cluster import AgglomerativeClustering, Birch, KMeans
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline

import tensormvc as tm

views, y = tm.datasets.load_digits_views(600)
pixels = views[0]
for clusterer in (
    KMeans(10, n_init=1, random_state=0),
    KMeans(10, n_init=20, random_state=0),
    Birch(threshold=20, n_clusters=10),
    AgglomerativeClustering(10),
    make_pipeline(PCA(20, random_state=0), KMeans(10, n_init=10, random_state=0)),
):
    print(tm.audit_order(clusterer, pixels, n_permutations=5).verdict)

# %%
# ## UMAP followed by HDBSCAN
#
# Wrap anything that is not an estimator in a function of the data. If the function has a parameter `random_state`, the
# audit sets it, and can separate the effect of the order from that of the seed.
from sklearn.cluster import HDBSCAN
from umap import UMAP


def umap_hdbscan(data, random_state=0):
    flat = UMAP(random_state=random_state, n_jobs=1).fit_transform(data)
    return HDBSCAN(min_cluster_size=15, copy=True).fit_predict(flat)


audit = tm.audit_order(umap_hdbscan, pixels, n_permutations=5)
print(audit)

# %%
# ## scanpy and Leiden
#
# The function contains the whole recipe, from the matrix to the labels: PCA, neighbours, Leiden. The noise in HDBSCAN
# and the number of clusters in Leiden may also change with the order.
import anndata
import scanpy as sc


def leiden(data, random_state=0):
    cells = anndata.AnnData(data)
    sc.pp.pca(cells, n_comps=20, random_state=random_state)
    sc.pp.neighbors(cells, random_state=random_state)
    sc.tl.leiden(cells, flavor="igraph", n_iterations=2, directed=False, random_state=random_state)
    return cells.obs["leiden"].astype(int)


audit = tm.audit_order(leiden, pixels, n_permutations=5)
print(audit)

# %%
# ## How to see it
#
# Grey dots are pairs of orders, and pairs of seeds. If both are alike, the order acts as one more random draw.
audit.plot()

# %%
# ## tensormvc
#
# The labels of this package are identical in every order.
print(tm.audit_order(tm.MultiViewClustering(10, random_state=0), views, n_permutations=3).verdict)

# %%
# ## Guard it in your own tests
#
# `testing.assert_order_independent` turns the audit into a test: it raises an `AssertionError` that says how many
# samples change their cluster. For recipes, see [guarding a project](../guide/guarding.md).
try:
    tm.testing.assert_order_independent(KMeans(10, n_init=1, random_state=0), pixels)
except AssertionError as error:
    print(error)
