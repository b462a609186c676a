"""The methods: each a solver under one ADMM driver, and a thin estimator."""

from ._asretr import ASRETR
from ._estmc import ESTMC
from ._gmc import GMC
from ._tlrlf4mvc import TLRLF4MVC
from ._tlspnm import TLSpNM
from ._tsvdmvc import TSVDMVC

__all__ = ["ASRETR", "ESTMC", "GMC", "TLRLF4MVC", "TSVDMVC", "TLSpNM"]
