"""
Documents: titles, bodies and readers
=====================================

A document has a title, a body, and readers. Titles are short and to the point, bodies are long and digress, and
documents on a topic share readers. All three are counts. This tutorial generates 400 documents on five topics, so that
it needs no download; for your own documents, compute the three matrices with `CountVectorizer` in the same way.
"""

# %%
# Three matrices of counts
# ------------------------
#
# Every topic has its own words, and all topics share common words. Bodies draw one word in four from the topic, titles
# one in two; a third of the documents have no title.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer

import tensormvc as tm

topics = {
    "medicine": "patient doctor therapy dose trial blood heart surgery clinic symptom",
    "space": "orbit rocket moon launch planet telescope star crew probe comet",
    "cooking": "recipe oven flour salt butter pan garlic sauce dough spoon",
    "football": "goal league match coach striker referee penalty stadium season cup",
    "law": "court judge appeal contract statute clause verdict lawyer plaintiff rights",
}
common = [
    "the",
    "people",
    "said",
    "year",
    "time",
    "first",
    "new",
    "work",
    "day",
    "report",
    "made",
    "part",
    "group",
    "place",
]
rng = np.random.default_rng(0)
y = rng.integers(5, size=400)
own = [words.split() for words in topics.values()]


def text(topic, length, share):
    """Draw words from a topic and from the common words."""
    return " ".join(rng.choice(own[topic] if rng.random() < share else common) for _ in range(length))


bodies = [text(topic, rng.integers(12, 40), 0.25) for topic in y]
titles = [text(topic, rng.integers(2, 5), 0.5) if rng.random() < 2 / 3 else "" for topic in y]
readers = rng.poisson(0.08 + 0.6 * (np.arange(100) // 20 == y[:, None]))  # 20 readers per topic, and strays
print(bodies[0])

# %%
# Pass the raw counts: sparse matrices of words, and an array of readers. Logarithms, tf-idf and latent components
# are among the scalings that are compared.
by_body, by_title = CountVectorizer(), CountVectorizer()
views = {"body": by_body.fit_transform(bodies), "title": by_title.fit_transform(titles), "readers": readers}
print({name: view.shape for name, view in views.items()})

# %%
# How many topics?
# ----------------
#
# Without `n_clusters` the number is estimated. Documents without a title have an empty row in that view, which counts
# as missing; the report says so.
model = tm.MultiViewClustering(random_state=0).fit(views)
print(model.report_)
print(f"accuracy {tm.metrics.clustering_accuracy(y, model.labels_):.1%} (uses the topics)")

# %%
# What is a cluster about?
# ------------------------
#
# The features that set a cluster apart are words. Pass the names of the features to see them.
names = {"body": by_body.get_feature_names_out(), "title": by_title.get_feature_names_out()}
explanation = model.explain(names)
effects = explanation.to_frame()
words = effects[effects["view"].isin(["body", "title"]) & (effects["effect"] > 0.5)]
for cluster, rows in words.groupby("cluster"):
    print(cluster, ", ".join(rows["feature"].drop_duplicates().head(5)))

# %%
# The next figure shows the same for the largest cluster, with confidence intervals.
tm.plotting.plot_cluster_features(explanation, 0)
plt.show()

# %%
# A new document
# --------------
#
# It has only a body so far.
new = by_body.transform(["the judge said the court will hear the appeal and the lawyer made a new contract"])
print(model.predict({"body": new}), model.predict_proba({"body": new}).round(2))
