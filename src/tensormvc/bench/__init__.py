"""Reproduce the tables of the paper: benchmark plans, resumable runs, and reports that compare the figures."""

from ._plan import Plan, load_plan
from ._report import write_bench_report
from ._run import RunSummary, run_plan

__all__ = ["Plan", "RunSummary", "load_plan", "run_plan", "write_bench_report"]
