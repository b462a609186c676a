"""Pages in HTML: one file each, without network."""

from ._cluster import ClusterRun, write_cluster_report

__all__ = ["ClusterRun", "write_cluster_report"]
