"""Lists the small plausible bugs that one source file can have, each as one edit of its text.

What a reader would not call a bug is left out: annotations, docstrings, imports, texts, `__all__`,
`if TYPE_CHECKING`, and what is raised or asserted.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from itertools import pairwise

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

# Methods that end something or forget something, and those that copy.
RELEASES = frozenset(
    (
        "cancel",
        "close",
        "deleteLater",
        "disconnect",
        "join",
        "kill",
        "release",
        "remove",
        "shutdown",
        "stop",
        "terminate",
        "unlink",
        "unlock",
    )
)
RESETS = frozenset(
    (
        "clear",
        "discard",
        "forget",
        "invalidate",
        "popleft",
        "reset",
        "zero_",
        "zero_grad",
    )
)
COPIES = frozenset(("clone", "copy", "deepcopy"))
MODULES = frozenset(
    ("F", "dict", "functools", "itertools", "math", "nn", "np", "threading", "torch")
)


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
        self._begins = False  # in a constructor, where nothing is set a second time

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
        self._begins = node.name in ("__init__", "__post_init__")
        self._swap_reads(node.body)
        for statement in node.body:
            self._statement(statement)
        self._begins = False
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
            self._add(self._kind_of_loss(node), node, "pass")
        self.visit(node)

    def _kind_of_loss(self, node: ast.stmt) -> str:
        """What it is to leave this statement out."""
        value = getattr(node, "value", None)
        called = getattr(getattr(value, "func", None), "attr", "")
        if isinstance(node, ast.Expr) and called in RELEASES:
            return "release forgotten"
        if isinstance(node, ast.Expr) and called in RESETS:
            return "reset left out"
        if isinstance(node, ast.Assign) and not self._begins and _is_empty(node.value):
            return "reset left out"
        return "statement left out"

    def _swap_reads(self, body: list[ast.stmt]) -> None:
        """Two reads of one object that are made one after the other, in the other order."""
        for first, second in pairwise(body):
            asked = _asked_object(first)
            if self._functions == 0 or not asked or asked != _asked_object(second):
                continue
            if _stored(first) & _names(second) or _stored(second) & _names(first):
                continue  # the second needs what the first found
            start, end = self._span(first)[0], self._span(second)[1]
            gap = self._source[self._span(first)[1] : self._span(second)[0]].decode()
            text = self._text(second) + gap + self._text(first)
            self._note("reads swapped", first.lineno, start, end, text)

    def generic_visit(self, node: ast.AST) -> None:
        for name, value in ast.iter_fields(node):
            if name in ("body", "orelse", "finalbody") and isinstance(value, list):
                self._swap_reads(value)
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
        self._forget_part(node)
        parts: list[ast.AST] = [*node.args, *node.keywords]
        if node.keywords and len(parts) > 1:
            last = node.keywords[-1]
            if last.arg not in (None, "strict"):
                start = self._span(parts[-2])[1]
                end = self._span(last)[1]
                self._note("argument left out", last.lineno, start, end, "")
        self.generic_visit(node)

    def _forget_part(self, node: ast.Call) -> None:
        """A copy that is the thing itself, and the buffers of a module left out."""
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        if name in COPIES and owner is not None and not node.args:
            self._add("copy left out", node, self._text(owner))
        elif name in COPIES and len(node.args) == 1:
            self._add("copy left out", node, self._text(node.args[0]))
        elif name in ("buffers", "named_buffers"):
            self._add("buffers forgotten", node, "()")
        elif name == "state_dict" and owner is not None and not node.args:
            self._add("buffers forgotten", node, f"dict({self._text(owner)}.named_parameters())")

    def visit_Subscript(self, node: ast.Subscript) -> None:
        index = {"-1": "0", "0": "-1"}.get(self._text(node.slice))
        if index is not None and isinstance(node.ctx, ast.Load):
            self._add("first for last", node.slice, index)
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


def _is_empty(value: ast.expr) -> bool:
    """Whether this is what something is before anything happened."""
    if isinstance(value, ast.Constant):
        return not value.value
    if isinstance(value, (ast.List, ast.Tuple, ast.Set)):
        return not value.elts
    return (isinstance(value, ast.Dict) and not value.keys) or (
        isinstance(value, ast.Call) and not value.args and not value.keywords
    )


def _asked_object(node: ast.stmt) -> str:
    """`log` of `rows = log.read()`: whose method gives what is kept; '' of other statements."""
    call = node.value if isinstance(node, ast.Assign) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return ""
    owner = ast.unparse(call.func.value)
    return "" if owner in MODULES else owner


def _names(node: ast.AST) -> set[str]:
    return {ast.unparse(part) for part in ast.walk(node) if isinstance(part, _PLACES)}


def _stored(node: ast.AST) -> set[str]:
    return {
        ast.unparse(part)
        for part in ast.walk(node)
        if isinstance(part, _PLACES) and isinstance(part.ctx, ast.Store)
    }


_PLACES = (ast.Name, ast.Attribute)

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
