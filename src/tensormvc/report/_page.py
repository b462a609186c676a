"""Building blocks of HTML pages: one file each, which fetches nothing and runs no script but our own.

A string is text and is escaped wherever it is used; only the results of these functions are HTML. Pages are also
well-formed XML, so that a strict parser can read them.
"""

import base64
import hashlib
import html
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from .._files import writing

# Tells browsers to fetch nothing, and to run nothing but a script with the right hash, whatever names the data contain.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
# Characters that are invalid in HTML or XML, and those that reverse the writing direction of the text after them.
_FORBIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff\u202a-\u202e\u2066-\u2069]"
)
_LONGEST_NAME = 80
# Tables with more rows scroll on their own on a screen.
_LONG_TABLE = 20


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def clean(text: str) -> str:
    """Return a text without characters that HTML and XML forbid, or that reverse the writing direction."""
    return _FORBIDDEN.sub("\ufffd", text)


def escape(value: Any) -> Html:
    """Return a value as HTML: its text, escaped, unless it is HTML already."""
    return value if isinstance(value, Html) else Html(html.escape(clean(str(value))))


def join(parts: Iterable[Any]) -> Html:
    """Return the parts, concatenated."""
    return Html("".join(map(escape, parts)))


def element(tag: str, *children: Any, **attributes: Any) -> Html:
    """Return an element; ``class_`` is the attribute class, ``aria_label`` is aria-label; None omits an attribute.

    Examples
    --------
    >>> element("p", "1 < 2", class_="note", title=None)
    '<p class="note">1 &lt; 2</p>'
    """
    given = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items() if value is not None}
    written = "".join(f' {key}="{escape(value)}"' for key, value in given.items())
    if tag == "br":
        return Html("<br />")
    return Html(f"<{tag}{written}>{join(children)}</{tag}>")


def name(text: Any) -> Html:
    """Return a name from the data, isolated from the writing direction around it, and shortened if it is long."""
    text = str(text)
    short = text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1] + "…"
    return element("bdi", short, title=text[:1000] if short != text else None)


def paragraph(*parts: Any, class_: str | None = None) -> Html:
    """Return a paragraph."""
    return element("p", *parts, class_=class_)


def code(text: str) -> Html:
    """Return a command to copy; one click selects all of it."""
    return element("pre", element("code", text))


def bullets(items: Iterable[Any]) -> Html:
    """Return an unordered list."""
    return element("ul", *(element("li", item) for item in items))


def facts(pairs: Iterable[tuple[Any, Any]]) -> Html:
    """Return the key facts at the top of a page, from pairs of name and value."""
    return element("dl", *(element("div", element("dt", k), element("dd", v)) for k, v in pairs), class_="facts")


def callout(kind: Literal["good", "warning", "info"], title: str, *body: Any) -> Html:
    """Return a highlighted verdict; its title says in words what its colour means."""
    return element("div", element("p", element("strong", title)), *body, class_=f"callout {kind}")


def bar(text: str, share: float) -> Html:
    """Return a number with a bar of length `share` (0 to 1) beside it, or no bar for NaN."""
    if math.isnan(share):
        return escape(text)
    filled = element("span", style=f"--share:{min(max(share, 0.0), 1.0):.2%}")
    drawn = element("span", filled, class_="bar", aria_hidden="true")
    return element("span", element("span", text), drawn, class_="with-bar")


def table(caption: str, columns: Sequence[Any], rows: Iterable[Sequence[Any]], align: str) -> Html:
    """Return a table whose first column names the rows.

    `align` has one letter per column, as in LaTeX: l for names and bars, r for numbers, p for sentences.
    """
    classes = [{"r": "number", "p": "sentence"}.get(letter) for letter in align]
    head = [element("th", column, scope="col", class_=c) for column, c in zip(columns, classes, strict=True)]
    body = []
    for first, *others in rows:
        cells = [element("td", value, class_=c) for value, c in zip(others, classes[1:], strict=True)]
        body.append(element("tr", element("th", first, scope="row", class_=classes[0]), *cells))
    parts = element("caption", caption), element("thead", element("tr", *head)), element("tbody", *body)
    kind = "table long" if len(body) > _LONG_TABLE else "table"
    return element(
        "div", element("table", *parts), class_=kind, tabindex=0, role="region", aria_label=f"Table: {caption}"
    )


def figure(picture: Html, caption: Any) -> Html:
    """Return a picture with a caption."""
    return element("figure", picture, element("figcaption", caption))


def side_by_side(*parts: Html, small: bool = False) -> Html:
    """Return parts side by side, where there is room; more of them in a row if they are small."""
    return element("div", *parts, class_="side-by-side small" if small else "side-by-side")


@dataclass(frozen=True)
class Section:
    """A section of a page: an id for links, a heading, and the contents."""

    key: str
    title: str
    body: Sequence[Html]


def page(title: str, lead: Any, head: Html, sections: Sequence[Section], foot: Any, *, script: str = "") -> str:
    """Return the whole document.

    Parameters
    ----------
    title : str
        Title of the page and of its window.
    lead : text or Html
        One line under the title.
    head : Html
        Contents above the sections.
    sections : sequence of Section
        The sections; the table of contents lists them.
    foot : text or Html
        The last line of the page.
    script : str, default=""
        JavaScript for convenience; the page must be readable without it.
    """
    style = files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    links = join(element("li", element("a", section.title, href=f"#{section.key}")) for section in sections)
    contents = []
    for section in sections:
        heading = element("h2", section.title, id=f"{section.key}-title")
        body = join([heading, *section.body])
        contents.append(element("section", body, id=section.key, aria_labelledby=f"{section.key}-title"))
    # Plain text to an XML parser, a comment to browsers.
    script = script and f"//<![CDATA[\n{script}//]]>"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"{_POLICY}; script-src 'sha256-{digest}'" if script else _POLICY
    # The empty icon keeps browsers from requesting one from the server.
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8" />
<meta http-equiv="Content-Security-Policy" content="{escape(policy)}" />
<meta name="viewport" content="width=device-width, initial-scale=1" />
<meta name="color-scheme" content="light dark" />
<title>{escape(title)}</title><link rel="icon" href="data:," /><style>{style}</style></head>
<body><a href="#content" class="skip">Skip to the content</a>
<header><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p></header>
<nav aria-label="Contents"><ul>{links}</ul></nav>
<main id="content" tabindex="-1">{head}{join(contents)}</main>
<footer><p>{escape(foot)}</p></footer>{f"<script>{script}</script>" if script else ""}</body></html>
"""


def write_page(target: Path, make: Callable[[], str], *, force: bool) -> Path:
    """Write the page that `make` returns, complete or not at all; a bad target is refused before `make` is called."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with writing(target, overwrite=force) as place:
        place.write_text(make(), encoding="utf-8")
    return target
