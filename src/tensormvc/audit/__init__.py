"""Does a clustering depend on the order of the rows? Of any estimator with `fit_predict`."""

from ._audit import OrderAudit, ShuffleSweep, audit_order, shuffle_sweep

__all__ = ["OrderAudit", "ShuffleSweep", "audit_order", "shuffle_sweep"]
