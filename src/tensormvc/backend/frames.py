"""Tables for people who have pandas."""

from typing import Any


def data_frame(data: Any) -> Any:
    """Return columns by name, or a list of rows, as a pandas DataFrame."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("to_frame needs pandas: pip install pandas") from error
    return pd.DataFrame(data)
