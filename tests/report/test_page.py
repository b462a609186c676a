"""The shell and its parts: escaping, well-formedness, writing."""

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensormvc.report._page import Section, bar, element, escape, facts, name, page, paragraph, table, write_page


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_any_text_survives_as_text(text):
    """A strict parser reads back what was written, but for the characters that no document may hold."""
    written = element("p", text, title=text)
    root = ET.fromstring(written)
    readable = ET.fromstring(f"<p>{escape(text)}</p>").text or ""
    assert (root.text or "") == readable
    assert not list(root)
    for read, given_character in zip(readable, text.replace("\r\n", "\n").replace("\r", "\n"), strict=True):
        assert read in (given_character, "\ufffd")


@pytest.mark.parametrize("text", ["<b>", "&lt;", '" onclick="', "'", "]]>", "-->", "</style>"])
def test_markup_is_text(text):
    root = ET.fromstring(element("p", element("em", text), title=text))
    assert root[0].text == root.get("title") == text


def test_long_names_are_cut_and_kept_in_the_title():
    short = ET.fromstring(name("x" * 500))
    assert len(short.text) == 80
    assert short.text.endswith("…")
    assert short.get("title") == "x" * 500
    assert ET.fromstring(name("y" * 80)).get("title") is None


def test_bars_stay_inside_their_cell():
    def widths(share):
        return [e.get("style") for e in ET.fromstring(f"<td>{bar('text', share)}</td>").iter() if e.get("style")]

    assert widths(0.25) == ["--share:25.00%"]
    assert widths(-1) == ["--share:0.00%"]
    assert widths(7) == ["--share:100.00%"]
    assert widths(float("nan")) == []


def test_table_has_caption_and_scopes():
    root = ET.fromstring(table("Sizes", ["Name", "Size"], [("a", 1), ("b", 2)], "lr"))
    assert root.find("table/caption").text == "Sizes"
    assert [cell.get("scope") for cell in root.iter("th")] == ["col", "col", "row", "row"]
    assert [cell.text for cell in root.iter("td")] == ["1", "2"]
    assert (root.get("tabindex"), root.get("role")) == ("0", "region")
    with pytest.raises(ValueError, match="zip"):
        table("Sizes", ["Name", "Size"], [("a", 1, 2)], "lr")


def test_page_has_landmarks_and_headings_in_order():
    root = ET.fromstring(page("T", "lead", facts([("n", 1)]), [Section("one", "One", [paragraph("x")])], "foot"))
    assert root.get("lang") == "en"
    body = root.find("body")
    assert [child.tag for child in body] == ["a", "header", "nav", "main", "footer"]
    assert [e.text for e in root.iter() if e.tag in ("h1", "h2")] == ["T", "One"]
    targets = {e.get("id") for e in root.iter() if e.get("id")}
    assert {e.get("href")[1:] for e in body.iter("a")} <= targets


def test_writing(tmp_path):
    target = tmp_path / "new" / "deep" / "index.html"
    assert write_page(target, lambda: "first", force=False) == target
    with pytest.raises(FileExistsError, match=r"index\.html exists already"):
        write_page(target, pytest.fail, force=False)
    assert write_page(target, lambda: "second", force=True).read_text() == "second"
    assert [path.name for path in target.parent.iterdir()] == ["index.html"]


def test_what_fails_leaves_what_was_there(tmp_path):
    target = tmp_path / "index.html"
    target.write_text("old")
    with pytest.raises(ZeroDivisionError):
        write_page(target, lambda: str(1 / 0), force=True)
    with pytest.raises(UnicodeEncodeError):
        write_page(target, lambda: "begun \ud800", force=True)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_page_that_came_meanwhile_is_not_replaced(tmp_path):
    target = tmp_path / "index.html"

    def other_run():
        target.write_text("other")
        return "mine"

    with pytest.raises(FileExistsError):
        write_page(target, other_run, force=False)
    assert target.read_text() == "other"
