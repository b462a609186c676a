"""Matplotlib figures as inline SVG, whose text and lines take the colours of the page, light or dark."""

import io
import re
import warnings
from collections.abc import Callable
from typing import Any

from ._page import Html, clean, escape

# The font sizes of `tensormvc.plotting` are made for a column of a paper, which is about as wide as a phone.
_INCHES = (3.7, 2.9)
_SMALL = (2.7, 1.9)
_PIXELS_PER_INCH = 200
# Black, grey and the white outline of text become the colours of the text, the notes and the paper of the page.
_COLOURS = {"#000000": "currentColor", "#666666": "var(--quiet)", '"stroke: #ffffff': '"stroke: var(--card)'}


def picture(draw: Callable[[Any], Any], key: str, alternative: str, *, small: bool = False) -> Html:
    """Return what a function draws into the axes it is given, as SVG.

    Parameters
    ----------
    draw : function of matplotlib Axes
        Draws the picture; black and grey become colours of the page.
    key : str
        Prefix of every id inside, so that the ids of two pictures differ.
    alternative : str
        Text alternative, for readers who do not see the picture.
    small : bool, default=False
        Whether it is one of several small pictures.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("a page with figures needs matplotlib: pip install 'tensormvc[plot]'") from error

    # The user's settings of matplotlib do not apply: a picture has the colours of the page.
    with mpl.rc_context(), warnings.catch_warnings():
        # The browser has fonts for names that matplotlib has none for.
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        mpl.rcdefaults()
        mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": key})
        figure = Figure(figsize=_SMALL if small else _INCHES, layout="constrained")
        draw(figure.subplots())
        written = io.StringIO()
        none = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(written, format="svg", dpi=_PIXELS_PER_INCH, transparent=True, metadata=none)
    return _inline(written.getvalue(), key, alternative)


def _inline(document: str, key: str, alternative: str) -> Html:
    """Return an SVG document as an element of a page."""
    document = clean(document)
    box = document.partition('viewBox="')[2].partition('"')[0]
    body = document[document.index(">", document.index("<svg")) + 1 : document.rindex("</svg>")]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r'\bid="', f'id="{key}-', body)
    body = body.replace("xlink:href", "href").replace('href="#', f'href="#{key}-').replace("url(#", f"url(#{key}-")
    # The page has its own fonts, and nothing depends on spaces between elements.
    body = re.sub(r"font-family: [^;\"]*; ?", "", body)
    body = re.sub(r">\s+<", "><", body)
    # Two decimals of a point are enough.
    body = re.sub(r'\b(?:x|y|d)="[^"]*"', lambda found: re.sub(r"(\.\d\d)\d+", r"\1", found[0]), body)
    for printed, shown in _COLOURS.items():
        body = body.replace(printed, shown)
    # SVG fills shapes with black by default.
    return Html(f'<svg viewBox="{box}" fill="currentColor" role="img" aria-label="{escape(alternative)}">{body}</svg>')
