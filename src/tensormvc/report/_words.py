"""Parts of the page about a clustering with the words of texts.toml, where names in braces are filled in."""

import tomllib
from collections.abc import Callable, Iterable, Sequence
from importlib.resources import files
from typing import Any

from . import _page as html
from ._figures import picture
from ._page import Html, Section

_WORDS = tomllib.loads(files(__package__).joinpath("texts.toml").read_text(encoding="utf-8"))


def section(key: str, *body: Html) -> Section:
    """Return a section."""
    return Section(key, _WORDS["sections"][key], body)


def sentence(key: str, **values: Any) -> str:
    """Return one or more sentences."""
    return str(_WORDS["sentences"][key].format(**values))


def paragraph(key: str, **values: Any) -> Html:
    """Return sentences as a paragraph."""
    return html.paragraph(sentence(key, **values))


def callout(key: str, *body: Html, **values: Any) -> Html:
    """Return a highlighted verdict."""
    words = _WORDS["callouts"][key]
    return html.callout(words["kind"], words["title"].format(**values), *body)


def table(key: str, rows: Iterable[Sequence[Any]], **values: Any) -> Html:
    """Return a table."""
    words = _WORDS["tables"][key]
    columns = [column.format(**values) for column in words["columns"]]
    return html.table(words["caption"].format(**values), columns, rows, words["align"])


def figure(key: str, draw: Callable[..., Any], *, number: int | None = None, **values: Any) -> Html:
    """Return the picture that `draw` draws into the axes that it is called with as ``ax=``.

    With a `number` it is one of several small pictures of a kind.
    """
    words = _WORDS["pictures"][key]
    name = key if number is None else f"{key}-{number}"
    drawn = picture(lambda ax: draw(ax=ax), name, words["alternative"].format(**values), small=number is not None)
    return html.figure(drawn, words["caption"].format(**values))
