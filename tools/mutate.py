"""Mutation run: make one small change to a copy of the package at a time, and see whether a test fails.

    python tools/mutate.py --n 200 --seed 0 --minutes 90 --out mutants.json

Changes are drawn at random from newfound/losses, methods, evaluate and trust, or from the files and folders that are
named. Each mutant runs in a copy of the package of its own, in a process forked from one that has imported torch: the
nearest tests first, then the wider ones. Survivors are printed, and all mutants are written to --out.

Spots where a change would mean nothing are left out: docstrings, annotations, error texts, messages, devices and data
types, thresholds below 0.001 (they guard a division), hexadecimal numbers (they name a stream of random numbers) and
bounds of settings (they catch slips of the finger).
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACES = ("newfound/losses", "newfound/methods", "newfound/evaluate", "newfound/trust")
NEAREST = {
    "newfound/losses": ("tests/losses",),
    "newfound/evaluate": ("tests/evaluate",),
    "newfound/trust": ("tests/trust",),
    "newfound/model": ("tests/model",),
    "newfound/methods/apl_features": (
        *("tests/methods/test_meaning_features.py", "tests/methods/test_tuning.py"),
        "tests/methods/test_meaning_stage2.py",
    ),
    "newfound/methods": (
        *("tests/methods/test_meaning_stage1.py", "tests/methods/test_meaning_stage2.py"),
        *("tests/methods/test_meaning_tasks.py", "tests/methods/test_meaning_features.py"),
        *("tests/methods/test_parts.py", "tests/methods/test_label_options.py", "tests/methods/test_kmeans_row.py"),
    ),
}
"""The quickest tests that should notice a change; of two places the first counts."""
WIDER = (
    *("tests/methods", "tests/trust", "tests/evaluate", "tests/losses", "tests/model"),
    *("tests/plan", "tests/config", "tests/runs/test_predict.py"),
)
QUICK = "not (slow or page or gpu or data)"
IMPORTED_ONCE = (
    *("torch", "numpy", "scipy.optimize", "sklearn.metrics", "sklearn.cluster", "sklearn.manifold", "PIL.Image"),
    *("safetensors.torch", "yaml", "hypothesis", "pytest"),
)

COMPARISONS = {
    ast.Lt: ("<", "<=", ">="),
    ast.LtE: ("<=", "<", ">"),
    ast.Gt: (">", ">=", "<="),
    ast.GtE: (">=", ">", "<"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
ARITHMETIC = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "//"),
    ast.Pow: ("**", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
}
TWINS = (
    *(("argmax", "argmin"), ("amax", "amin"), ("max", "min"), ("any", "all"), ("mean", "sum"), ("ceil", "floor")),
    *(("zeros", "ones"), ("zeros_like", "ones_like"), ("new_zeros", "new_ones")),
)
SWAPPED = {a: b for pair in TWINS for a, b in (pair, pair[::-1])}
DROPPED_METHODS = {"detach", "clone", "flip", "clamp", "exp", "log", "sqrt", "square", "abs", "masked_fill"}
DROPPED_FUNCTIONS = {"F.normalize", "np.sort"}
MEANINGLESS_KEYWORDS = {"device", "dtype", "strict", "persistent", "keepdim", "title", "kind"}
NOT_VISITED = (ast.Raise, ast.Assert, ast.Import, ast.ImportFrom, ast.JoinedStr)
NOT_VISITED_FIELDS = {"annotation", "returns", "decorator_list"}
SMALLEST = 1e-3
LARGE = 100


@dataclass(frozen=True)
class Mutant:
    """One change: the bytes ``start`` to ``end`` of a file become ``new``."""

    path: str
    line: int
    start: int
    end: int
    old: str
    new: str

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.new.encode() + source[self.end :]

    def __str__(self) -> str:
        """Where, what, and the line as it was."""
        code = (ROOT / self.path).read_text().splitlines()[self.line - 1].strip()
        return f"{self.path}:{self.line}: {_short(self.old)} -> {_short(self.new)}   in: {code}"


def _short(text: str) -> str:
    return " ".join(text.split()) or "nothing"


class Finder(ast.NodeVisitor):
    """Collects the changes that can be made to a source file, in ``found``."""

    def __init__(self, path: str, source: str) -> None:
        self.path, self.data, self.found = path, source.encode(), []
        self.line_starts = [0]
        for line in self.data.splitlines(keepends=True):
            self.line_starts.append(self.line_starts[-1] + len(line))
        self.function = ""

    def start(self, node: ast.AST) -> int:
        return self.line_starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.AST) -> int:
        return self.line_starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.AST) -> str:
        return self.data[self.start(node) : self.end(node)].decode()

    def change(self, start: int, end: int, new: str) -> None:
        line = self.data[:start].count(b"\n") + 1
        self.found.append(Mutant(self.path, line, start, end, self.data[start:end].decode(), new))

    def replace(self, node: ast.AST, new: str) -> None:
        self.change(self.start(node), self.end(node), new)

    def operator(self, left: ast.AST, right: ast.AST, old: str, new: str) -> None:
        """Change the operator that stands between two operands."""
        after, before = self.end(left), self.start(right)
        between = self.data[after:before].decode()
        place = re.search(rf"(?<![<>=!*/&|\w]){re.escape(old)}(?![<>=!*/&|\w])", between)
        if place:
            self.change(after + place.start(), after + place.end(), new)

    # What is left out

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, NOT_VISITED) or self._is_docstring(node) or self._only_reports(node):
            return
        if isinstance(node, ast.keyword) and node.arg in MEANINGLESS_KEYWORDS:
            return
        if isinstance(node, ast.If) and "TYPE_CHECKING" in self.text(node.test):
            return
        handle = getattr(self, f"on_{type(node).__name__}", None)
        if handle:
            handle(node)
        outer = self.function
        if isinstance(node, ast.FunctionDef):
            self.function = node.name
        if isinstance(node, ast.Call) and self.text(node.func) == "number":
            node = ast.Tuple(node.args[:1])  # the default; bounds follow
        for field, value in ast.iter_fields(node):
            if field not in NOT_VISITED_FIELDS:
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.AST):
                        self.visit(child)
        self.function = outer

    def _is_docstring(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)

    def _only_reports(self, node: ast.AST) -> bool:
        call = (
            node.value if isinstance(node, ast.Expr) else node.context_expr if isinstance(node, ast.withitem) else None
        )
        return isinstance(call, ast.Call) and bool(re.search(r"\b(reporter|progress)\b", self.text(call.func)))

    # What is changed

    def on_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for left, right, kind in zip(operands, operands[1:], node.ops, strict=False):
            old, *others = COMPARISONS[type(kind)]
            for new in others:
                self.operator(left, right, old, new)

    def on_BinOp(self, node: ast.BinOp) -> None:
        texts = (ast.JoinedStr, ast.Dict)
        if any(isinstance(side, texts) or _is_text(side) for side in (node.left, node.right)):
            return
        if type(node.op) in ARITHMETIC and not (isinstance(node.op, ast.BitOr) and not self.function):
            self.operator(node.left, node.right, *ARITHMETIC[type(node.op)])

    def on_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.operator(left, right, old, new)

    def on_UnaryOp(self, node: ast.UnaryOp) -> None:
        self.replace(node, f"({self.text(node.operand)})")

    def on_Constant(self, node: ast.Constant) -> None:
        value, text = node.value, self.text(node)
        if isinstance(value, bool):
            self.replace(node, str(not value))
        elif isinstance(value, int) and not text.lower().startswith("0x"):
            self.replace(node, str({0: 1, 1: 0}.get(value, value // 2 if value >= LARGE else value + 1)))
        elif isinstance(value, float) and (value == 0 or value >= SMALLEST):
            self.replace(node, repr({0.0: 1.0, 1.0: 0.5}.get(value, round(0.75 * value, 6))))

    def on_If(self, node: ast.If | ast.IfExp) -> None:
        """The other branch, where the condition has no operator of its own that is changed."""
        if isinstance(node.test, ast.Name | ast.Call | ast.Attribute):
            self.replace(node.test, f"not {self.text(node.test)}")

    on_IfExp = on_If

    def on_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            if isinstance(test, ast.Name | ast.Call | ast.Attribute):
                self.replace(test, f"not {self.text(test)}")

    def on_Slice(self, node: ast.Slice) -> None:
        if node.step is None and (node.lower is None) != (node.upper is None):
            self.replace(node, f":{self.text(node.lower)}" if node.lower else f"{self.text(node.upper)}:")

    def on_Call(self, node: ast.Call) -> None:
        function = self.text(node.func)
        if isinstance(node.func, ast.Attribute):
            name, place = node.func.attr, self.end(node.func)
            if name in SWAPPED:
                self.change(place - len(name.encode()), place, SWAPPED[name])
            if name in DROPPED_METHODS and not function.startswith(("torch.", "np.", "math.")):
                self.change(self.end(node.func.value), self.end(node), "")
            if name == "topk":
                self.change(self.end(node) - 1, self.end(node), ", largest=False)")
        elif function in ("max", "min"):
            self.replace(node.func, SWAPPED[function])
        if function in DROPPED_FUNCTIONS and node.args:
            self.replace(node, f"({self.text(node.args[0])})")
        if function.endswith(".where") and len(node.args) == 3:
            second, third = node.args[1:]
            between = self.data[self.end(second) : self.start(third)].decode()
            self.change(self.start(second), self.end(third), self.text(third) + between + self.text(second))
        for keyword in node.keywords:
            if function.endswith(".clamp") and keyword.arg in SWAPPED:
                start = self.start(keyword)
                self.change(start, start + len(keyword.arg), SWAPPED[keyword.arg])

    def on_Assign(self, node: ast.Assign) -> None:
        targets = [part for t in node.targets for part in (t.elts if isinstance(t, ast.Tuple) else [t])]
        kept = all(isinstance(target, ast.Attribute | ast.Subscript) for target in targets)
        if kept and self.function not in ("", "__init__"):
            self.replace(node, "pass")

    def on_AugAssign(self, node: ast.AugAssign) -> None:
        if self.function not in ("", "__init__"):
            self.replace(node, "pass")

    def on_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call) and self.function not in ("", "__init__"):
            self.replace(node, "pass")


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def find_mutants(path: str, source: str) -> list[Mutant]:
    """The changes that can be made to a file: each gives a valid program that is another one."""
    tree = ast.parse(source)
    finder = Finder(path, source)
    finder.visit(tree)
    data, seen, found = source.encode(), {ast.dump(tree)}, []
    for mutant in sorted(finder.found, key=lambda m: (m.start, m.end, m.new)):
        try:
            program = ast.dump(ast.parse(mutant.apply(data)))
        except SyntaxError:
            continue
        if program not in seen:
            seen.add(program)
            found.append(mutant)
    return found


def draw(places: Sequence[str], n: int, seed: int) -> list[Mutant]:
    """``n`` mutants, or all where there are fewer, drawn at random from files and folders of the package."""
    files = sorted({f for place in places for f in _python_files(ROOT / place)})
    every = [m for f in files for m in find_mutants(f.relative_to(ROOT).as_posix(), f.read_text())]
    return random.Random(seed).sample(every, min(n, len(every)))


def _python_files(place: Path) -> Iterator[Path]:
    return iter([place]) if place.is_file() else place.rglob("*.py")


# Running


class Runner:
    """Runs the tests as they are now on copies of the package, in forked processes: edit what you like meanwhile."""

    def __init__(self, folder: Path, wider: tuple[str, ...]) -> None:
        self.folder, self.wider, self.limits = folder, wider, {}
        self.original = folder / "original"
        shutil.copytree(ROOT, self.original, ignore=shutil.ignore_patterns(".*", "__pycache__", "build", "dist"))

    def begin(self, groups: Sequence[tuple[str, ...]]) -> None:
        """Stop unless the tests pass without a change; their time is the measure of how long a mutant may take."""
        for tests in filter(None, groups):
            began = time.monotonic()
            status, by = self.test(self.original, tests, 1800)
            if status != "survived":
                raise SystemExit(f"{' '.join(tests)} must pass before anything is changed: {status} {by}")
            self.limits[tests] = 20 + 3 * (time.monotonic() - began)

    def judge(self, mutant: Mutant) -> tuple[str, str]:
        """Whether the mutant was "killed", "survived" or ran into a "timeout", and the test that killed it."""
        copy = self.folder / "mutant"
        shutil.copytree(self.original / "newfound", copy / "newfound")
        try:
            place = copy / mutant.path
            place.write_bytes(mutant.apply(place.read_bytes()))
            for compiled in place.parent.glob(f"__pycache__/{place.stem}.*"):
                compiled.unlink()
            first = nearest(mutant.path)
            status, by = self.test(copy, first, self.limits[first])
            if status == "survived" and self.wider:
                others = [place for place in self.wider if place not in first]
                done = [f"--ignore={place}" for place in first]
                status, by = self.test(copy, (*others, *done), self.limits[self.wider])
            return status, by
        finally:
            shutil.rmtree(copy)

    def test(self, copy: Path, tests: Sequence[str], limit: float) -> tuple[str, str]:
        output = self.folder / "output.txt"
        child = os.fork()
        if child == 0:
            self._run_tests(copy, tests, output)
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                code = os.waitstatus_to_exitcode(status)
                return ("survived", "") if code == 0 else ("killed", _first_failure(output.read_text()))
            time.sleep(0.02)
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return "timeout", ""

    def _run_tests(self, copy: Path, tests: Sequence[str], output: Path) -> None:
        """In the forked process: never comes back."""
        code = 70
        try:
            os.setsid()
            handle = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for stream in (1, 2):
                os.dup2(handle, stream)
            os.chdir(self.original)
            sys.path.insert(0, str(copy))
            os.environ["PYTHONPATH"] = str(copy)
            import pytest
            from hypothesis import Phase, settings

            import newfound

            # The same examples every time, and none is made smaller: it is enough to know that there is one.
            settings.register_profile("mutants", phases=[Phase.explicit, Phase.generate], derandomize=True)
            settings.load_profile("mutants")
            assert newfound.__file__.startswith(str(copy)), newfound.__file__
            options = ["-x", "-q", "-rfE", "--tb=no", "-p", "no:cacheprovider", "-m", QUICK]
            code = int(pytest.main([*options, f"--basetemp={self.folder / 'pytest'}", *tests]))
        finally:
            sys.stdout.flush()
            os._exit(code)


def _first_failure(output: str) -> str:
    place = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", output, re.MULTILINE)
    return place[1] if place else "at import"


def nearest(path: str) -> tuple[str, ...]:
    return next((tests for place, tests in NEAREST.items() if path.startswith(place)), WIDER)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("places", nargs="*", default=PLACES, help="files and folders of the package")
    parser.add_argument("--n", type=int, default=200, help="mutants to draw")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=120, help="stop after so long")
    parser.add_argument("--out", type=Path, help="a JSON file of all mutants and what became of them")
    parser.add_argument("--again", type=Path, help="try the survivors of such a file instead of drawing")
    parser.add_argument("--nearest", action="store_true", help="leave the wider tests out: quicker, and more survive")
    parser.add_argument("--list", action="store_true", help="print the mutants without running any")
    chosen = parser.parse_args(arguments)
    mutants = _survivors(chosen.again) if chosen.again else draw(chosen.places, chosen.n, chosen.seed)
    if chosen.list:
        print(*mutants, sep="\n")
        return
    run(mutants, chosen.minutes, chosen.out, () if chosen.nearest else WIDER)


def _survivors(file: Path) -> list[Mutant]:
    """Those that survived, looked up anew by their change: lines may have moved."""
    kept = [row for row in json.loads(file.read_text()) if row["status"] == "survived"]
    found = []
    for path in sorted({row["path"] for row in kept}):
        now = find_mutants(path, (ROOT / path).read_text())
        for row in (row for row in kept if row["path"] == path):
            alike = [m for m in now if (m.old, m.new) == (row["old"], row["new"])]
            if alike:
                found.append(min(alike, key=lambda m: abs(m.line - row["line"])))
    return found


def run(mutants: Sequence[Mutant], minutes: float, out: Path | None, wider: tuple[str, ...] = WIDER) -> None:
    # Before torch is imported, as in tests/conftest.py.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("TRITON_INTERPRET", "1")
    for name in IMPORTED_ONCE:
        importlib.import_module(name)
    rows: list[dict] = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        runner = Runner(Path(folder), wider)
        runner.begin(sorted({nearest(m.path) for m in mutants} | {wider}))
        began = time.monotonic()
        for number, mutant in enumerate(mutants, 1):
            if time.monotonic() - began > 60 * minutes:
                break
            status, by = runner.judge(mutant)
            rows.append({**asdict(mutant), "status": status, "by": by})
            print(f"{number:4d} {status:8s} {mutant}   by: {by}", flush=True)
            if out:
                out.write_text(json.dumps(rows, indent=1))
    counts = {status: sum(row["status"] == status for row in rows) for status in ("killed", "timeout", "survived")}
    print(f"\n{counts}, {len(mutants) - len(rows)} not run")
    print(f"{(counts['killed'] + counts['timeout']) / max(1, len(rows)):.1%} of {len(rows)} did not survive")
    for row, mutant in zip(rows, mutants, strict=False):
        if row["status"] == "survived":
            print(mutant)


if __name__ == "__main__":
    main()
