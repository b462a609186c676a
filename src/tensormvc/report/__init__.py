"""HTML reports: one file each, which needs no network."""

from ._cluster import ClusterRun, write_cluster_report

__all__ = ["ClusterRun", "write_cluster_report"]
