"""Runs a notebook: `python -m documentation.notebook_runner FILE.ipynb` stores what its cells give.

Cells run in order in one namespace, as in Jupyter; figures become PNG.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

Output = dict[str, Any]


def notebook(path: Path) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return tree


def code_cells(tree: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in tree["cells"] if cell["cell_type"] == "code"]


def outputs_of(tree: dict[str, Any]) -> list[list[Output]]:
    """Return the outputs of each code cell: text, the value of a last expression, figures."""
    import matplotlib as mpl

    mpl.use("Agg")
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = [("".join(cell["source"]), number) for number, cell in enumerate(code_cells(tree), 1)]
    return [_outputs(source, number, names) for source, number in cells]


def _outputs(source: str, number: int, names: dict[str, Any]) -> list[Output]:
    from matplotlib import pyplot as plt

    body = ast.parse(source, f"cell {number}")
    last = body.body.pop() if body.body and isinstance(body.body[-1], ast.Expr) else None
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed):
        exec(compile(body, f"cell {number}", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
    found: list[Output] = []
    if printed.getvalue():
        found.append(
            {"output_type": "stream", "name": "stdout", "text": _lines(printed.getvalue())}
        )
    if value is not None and not source.rstrip().endswith(";"):  # as Jupyter has it
        data: dict[str, Any] = {"text/plain": _lines(repr(value))}
        if hasattr(value, "_repr_png_"):
            data["image/png"] = base64.b64encode(value._repr_png_()).decode("ascii")
        found.append(
            {
                "output_type": "execute_result",
                "execution_count": number,
                "data": data,
                "metadata": {},
            }
        )
    for figure in plt.get_fignums():
        content = io.BytesIO()
        plt.figure(figure).savefig(content, format="png", metadata={"Software": None})
        data = {"image/png": base64.b64encode(content.getvalue()).decode("ascii")}
        found.append({"output_type": "display_data", "data": data, "metadata": {}})
    plt.close("all")
    return found


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def rewrite(path: Path) -> None:
    """Run the notebook and store its outputs."""
    tree = notebook(path)
    for number, (cell, found) in enumerate(
        zip(code_cells(tree), outputs_of(tree), strict=True), start=1
    ):
        cell["execution_count"], cell["outputs"] = number, found
    path.write_text(json.dumps(tree, ensure_ascii=False, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    rewrite(Path(sys.argv[1]))
