"""Lists the small plausible bugs that one source file can have, each as one edit of its text.

What a reader would not call a bug is left out: annotations, docstrings, imports, texts, `__all__`,
`if TYPE_CHECKING`, and what is raised or asserted.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

COMPARE: dict[type[ast.cmpop], tuple[str, ...]] = {
    ast.Lt: ("<=", ">="),
    ast.LtE: ("<", ">"),
    ast.Gt: (">=", "<="),
    ast.GtE: (">", "<"),
    ast.Eq: ("!=",),
    ast.NotEq: ("==",),
    ast.Is: ("is not",),
    ast.IsNot: ("is",),
    ast.In: ("not in",),
    ast.NotIn: ("in",),
}
ARITHMETIC: dict[type[ast.operator], tuple[str, ...]] = {
    ast.Add: ("-",),
    ast.Sub: ("+",),
    ast.Mult: ("/",),
    ast.Div: ("*",),
    ast.FloorDiv: ("/",),
    ast.Mod: ("//",),
    ast.Pow: ("*",),
}


@dataclass(frozen=True)
class Mutation:
    """The text from byte `start` to `end` becomes `text`; `line` is where it stands.

    `at_import`: in no function, so that it runs once, before any test or in the first that asks.
    """

    kind: str
    line: int
    start: int
    end: int
    text: str
    at_import: bool = False

    def applied(self, source: bytes) -> bytes:
        """The source with the bug."""
        return source[: self.start] + self.text.encode() + source[self.end :]


def mutations(source: bytes) -> list[Mutation]:
    """Every mutation of a file, in the order of its text; a few may not parse (`parses`)."""
    found = _Finder(source).found()
    return sorted(set(found), key=lambda m: (m.start, m.end, m.kind, m.text))


def parses(source: bytes) -> bool:
    """Whether it is Python at all."""
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


class _Finder(ast.NodeVisitor):
    def __init__(self, source: bytes) -> None:
        self._source = source
        self._lines = [0]
        for line in source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self._found: list[Mutation] = []
        self._functions = 0  # how many we are in

    def found(self) -> list[Mutation]:
        self.visit(ast.parse(self._source))
        return self._found

    def _span(self, node: ast.AST) -> tuple[int, int]:
        start = self._lines[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        end = self._lines[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
        return start, end

    def _text(self, node: ast.AST) -> str:
        start, end = self._span(node)
        return self._source[start:end].decode()

    def _add(self, kind: str, node: ast.AST, text: str) -> None:
        self._note(kind, node.lineno, *self._span(node), text)  # type: ignore[attr-defined]

    def _note(self, kind: str, line: int, start: int, end: int, text: str) -> None:
        self._found.append(Mutation(kind, line, start, end, text, self._functions == 0))

    def _between(self, kind: str, left: ast.AST, right: ast.AST, old: str, new: str) -> None:
        """Replace the operator that stands between two operands."""
        start, end = self._span(left)[1], self._span(right)[0]
        gap = self._source[start:end].decode()
        if gap.count(old) == 1:
            text = gap.replace(old, new)
            self._note(kind, left.end_lineno, start, end, text)  # type: ignore[attr-defined]

    # What is passed over.

    def visit_Assert(self, node: ast.Assert) -> None:
        return

    def visit_Raise(self, node: ast.Raise) -> None:
        return

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        return

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(default)
        self._functions += 1
        for statement in node.body:
            self._statement(statement)
        self._functions -= 1

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit(node.args)
        self._functions += 1
        self.visit(node.body)
        self._functions -= 1

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for statement in node.body:
            self._statement(statement)

    def visit_Assign(self, node: ast.Assign) -> None:
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        if "__all__" not in names:
            self.visit(node.value)

    # What is changed.

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return  # a docstring
        call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        kept = isinstance(node, (ast.Assign, ast.AugAssign)) and isinstance(
            node.targets[0] if isinstance(node, ast.Assign) else node.target,
            (ast.Attribute, ast.Subscript),
        )
        if call or kept:
            self._add("statement left out", node, "pass")
        self.visit(node)

    def generic_visit(self, node: ast.AST) -> None:
        for _, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.stmt):
                    self._statement(child)
                elif isinstance(child, ast.AST):
                    self.visit(child)

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" in self._text(node.test):
            return
        self._add("condition turned round", node.test, f"not ({self._text(node.test)})")
        if len(node.body) == 1 and isinstance(node.body[0], ast.Raise):
            self._add("check left out", node.test, "False")
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._add("condition turned round", node.test, f"not ({self._text(node.test)})")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for left, op, right in zip(operands, node.ops, operands[1:], strict=False):
            old = {"NotIn": "not in", "IsNot": "is not"}.get(type(op).__name__) or _SIGNS[type(op)]
            for new in COMPARE[type(op)]:
                self._between("comparison", left, right, old, new)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        text = isinstance(node.left, (ast.JoinedStr, ast.Constant)) and not isinstance(
            getattr(node.left, "value", None), (int, float)
        )
        if not text:
            for new in ARITHMETIC.get(type(node.op), ()):
                self._between("arithmetic", node.left, node.right, _SIGNS[type(node.op)], new)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._between("and, or", left, right, old, new)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, (ast.Not, ast.USub)):
            self._add("sign left out", node, f"({self._text(node.operand)})")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._add("constant", node, str(not node.value))
        elif isinstance(node.value, int):
            self._add("constant", node, str(node.value + 1))
        elif isinstance(node.value, float) and node.value:
            self._add("constant", node, repr(node.value * 2))

    def visit_Call(self, node: ast.Call) -> None:
        parts: list[ast.AST] = [*node.args, *node.keywords]
        if node.keywords and len(parts) > 1:
            last = node.keywords[-1]
            if last.arg not in (None, "strict"):
                start = self._span(parts[-2])[1]
                end = self._span(last)[1]
                self._note("argument left out", last.lineno, start, end, "")
        self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg != "strict":  # of zip: it asserts, and changes nothing that is right
            self.visit(node.value)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Break(self, node: ast.Break) -> None:
        self._add("break, continue", node, "continue")

    def visit_Continue(self, node: ast.Continue) -> None:
        self._add("break, continue", node, "break")


_SIGNS: dict[type[ast.AST], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Is: "is",
    ast.In: "in",
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
}
