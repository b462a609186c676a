"""The transforms by name, from the registry: a new one joins the tests that run over all of them."""

from tensormvc._registry import BASIS_NAMES
from tensormvc.bases import make_basis
from tensormvc.bases._base import FixedBasis

BASES = [name for name in BASIS_NAMES if name != "gft"]  # which is another name of "gft-sim"
FIXED = [name for name in BASES if isinstance(make_basis(name), FixedBasis)]
ADAPTIVE = [name for name in BASES if make_basis(name).adapts_to_data]
ORDER_DEPENDENT = [name for name in FIXED if name != "fft-view"]
