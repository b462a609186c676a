"""The benchmark: plans, runs that can be interrupted, and reports beside the paper's figures."""

from ._plan import Plan, load_plan
from ._report import write_bench_report
from ._run import RunSummary, run_plan

__all__ = ["Plan", "RunSummary", "load_plan", "run_plan", "write_bench_report"]
