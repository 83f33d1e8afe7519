"""Runs the code cells of a notebook without Jupyter, and keeps what they show.

    python -m tests.testing.notebooks docs/tutorials/pretrain.ipynb

writes the outputs into the notebook. A cell is Python alone, without magic; what its
last expression gives is shown, as Jupyter shows it.
"""

import ast
import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from launch.reports.figures import image_bytes


def run(notebook: dict[str, Any], folder: Path) -> list[list[dict[str, Any]]]:
    """The outputs of each code cell, run one after another in a folder."""
    names: dict[str, Any] = {"__name__": "__main__"}
    with contextlib.chdir(folder):
        return [_outputs("".join(cell["source"]), names) for cell in code(notebook)]


def code(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """The code cells."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def text(outputs: list[dict[str, Any]]) -> str:
    """What a cell prints and shows, as text."""
    return "".join(
        "".join(each.get("text") or each["data"]["text/plain"]) for each in outputs
    )


def _outputs(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    tree, printed, value = ast.parse(source), io.StringIO(), None
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    found: list[dict[str, Any]] = []
    if printed.getvalue():
        lines = printed.getvalue().splitlines(keepends=True)
        found.append({"output_type": "stream", "name": "stdout", "text": lines})
    if value is None:
        return found
    data: dict[str, Any] = {"text/plain": repr(value).splitlines(keepends=True)}
    if isinstance(value, Figure):
        data = {"text/plain": ["a figure"]}
        data["image/png"] = base64.b64encode(image_bytes(value, "png")).decode()
    elif hasattr(value, "_repr_html_"):
        data["text/html"] = value._repr_html_()
    shown = {"output_type": "display_data", "data": data, "metadata": {}}
    return [*found, shown]


def main() -> None:
    path = Path(sys.argv[1]).resolve()
    notebook = json.loads(path.read_text("utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        outputs = run(notebook, Path(folder))
    for number, (cell, shown) in enumerate(
        zip(code(notebook), outputs, strict=True), 1
    ):
        for each in shown:  # pages of rows are large, and GitHub does not show them
            each.get("data", {}).pop("text/html", None)
        cell |= {"outputs": shown, "execution_count": number}
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + os.linesep)


if __name__ == "__main__":
    main()
