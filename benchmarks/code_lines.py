"""Count the lines of code in `src/`, without docstrings, comments and blank lines; `--files` lists every file."""

import argparse
import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "tensormvc"
_NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def code_lines(text: str) -> set[int]:
    """Return the numbers of the lines on which code stands."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def functions(text: str) -> Iterator[tuple[str, int]]:
    """Yield the name of every function and its lines of code."""
    lines = code_lines(text)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, len(lines & set(range(node.lineno, (node.end_lineno or node.lineno) + 1)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", action="store_true", help="list every file, the longest last")
    parser.add_argument("source", nargs="?", type=Path, default=SOURCE, help="folder to count")
    options = parser.parse_args()
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(options.source.rglob("*.py"))}
    counts = {path: len(code_lines(text)) for path, text in texts.items()}
    if options.files:
        for path, count in sorted(counts.items(), key=lambda item: item[1]):
            print(f"{count:6d}  {path.relative_to(options.source)}")
    longest = max((lines, name, path) for path, text in texts.items() for name, lines in functions(text))
    largest = max(counts, key=lambda path: counts[path])
    print(f"{sum(counts.values())} lines of code in {len(counts)} files")
    print(f"largest file: {largest.relative_to(options.source)}, {counts[largest]} lines")
    print(f"longest function: {longest[1]} in {longest[2].relative_to(options.source)}, {longest[0]} lines")


if __name__ == "__main__":
    main()
