"""What a caller says about the contents of a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Samples = Literal["rows", "columns"]
Join = Literal["inner", "outer"]


@dataclass(frozen=True)
class Request:
    """The parameters of `load_views` of the same names."""

    views: Sequence[str] | None
    labels: str | Literal[False] | None
    samples: Samples | None
    on: str | None
    join: Join | None
