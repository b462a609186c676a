"""The methods, one file each, and the parts of a method of your own (`examples/custom_method.py`)."""

from ._admm import Schedule, Step
from ._anchor_representation import embed, initial_anchors, polar_factor
from ._asretr import ASRETR
from ._base import SILENT_PARAMETERS, TensorClusterer
from ._coordinates import SampleCoordinates
from ._estmc import ESTMC
from ._gmc import GMC
from ._tlrlf4mvc import TLRLF4MVC
from ._tlspnm import TLSpNM
from ._tsvdmvc import TSVDMVC

__all__ = ["ASRETR", "ESTMC", "GMC", "TLRLF4MVC", "TSVDMVC", "TLSpNM"]
__all__ += ["SILENT_PARAMETERS", "SampleCoordinates", "Schedule", "Step", "TensorClusterer"]
__all__ += ["embed", "initial_anchors", "polar_factor"]
