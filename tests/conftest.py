"""Fixtures: every installed array backend, and the reference numbers where there are any."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("ci", max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("full", parent=settings.get_profile("ci"), max_examples=500)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# What runs in the background may have been started to ignore interrupts; commands that tests interrupt must not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# What clusters of Dask leave open when they are closed.
CLUSTER_LEFTOVERS = pytest.mark.filterwarnings(
    "ignore::ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
    "ignore::pytest.PytestUnhandledThreadExceptionWarning",
    "ignore::DeprecationWarning",
)


@dataclass(frozen=True)
class Backend:
    """An array library on a device: how to hand arrays over, and how to get them back."""

    name: str
    device: str = "cpu"

    def array(self, values, dtype=None):
        values = np.asarray(values, dtype=dtype)
        if self.name == "numpy":
            return values.copy()
        import torch

        return torch.tensor(values, device=self.device)

    def numpy(self, array):
        return array if self.name == "numpy" else array.cpu().numpy()


@pytest.fixture(scope="session", autouse=True)
def _garbage_where_nothing_may_be_read():
    """Let every test see whether work on rows reads an array that it declares only to set."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tensormvc.rows._memory.POISON", True)
        yield


@pytest.fixture(params=["numpy", "torch", "torch-cuda"], scope="session")
def backend(request):
    if request.param == "numpy":
        return Backend("numpy")
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra 'torch')")
    if request.param == "torch":
        return Backend("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return Backend("torch", "cuda")


@pytest.fixture(scope="session")
def shared():
    """The folder with reference numbers and benchmark files, which are not part of the project."""
    root = Path(__file__).parents[1]
    path = Path(os.environ.get("TENSORMVC_SHARED", root.parent / "shared"))
    if not path.is_dir():
        pytest.skip(f"no reference numbers: set TENSORMVC_SHARED to their folder (not found: {path})")
    return path


def local_cluster(n_workers, threads_per_worker):
    """A cluster of Dask on this machine, which ``with`` closes; tests with one are marked with `CLUSTER_LEFTOVERS`."""
    distributed = pytest.importorskip("distributed", reason="distributed is not installed (extra 'dask')")
    return distributed.LocalCluster(n_workers=n_workers, threads_per_worker=threads_per_worker, dashboard_address=":0")
