"""Does a clustering depend on the order of the rows? For any estimator with `fit_predict`, and for functions."""

from ._audit import OrderAudit, audit_order
from ._sweep import ShuffleSweep, shuffle_sweep

__all__ = ["OrderAudit", "ShuffleSweep", "audit_order", "shuffle_sweep"]
