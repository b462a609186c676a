"""The examples of extensions run as they are; those that draw figures are run by `test_plotting`."""

import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.parametrize("name", ["custom_graph", "custom_penalty", "custom_transform"])
def test_extensions(name, capsys):
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    accuracy = re.fullmatch(r"ESTMC with .*: ACC (\d+\.\d)%\n", capsys.readouterr().out)
    assert float(accuracy[1]) > 60
