"""Finds tests that wait by themselves: ``python -m tests.lint.waits`` prints FILE:LINE for each and exits with 1.

A loop that sleeps until something is true (a ``while`` with a condition, or a loop that is left by ``break`` or
``return``) has no deadline or does not report what it saw. Such waits go through `tests.lab.waiting`. A loop that
sleeps for another reason, such as a rate of requests, is listed in `PACED` with that reason.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]

PACED = {
    "tests/bench/copying.py": {"watch": "takes samples at a rate; it reports its own deadlines"},
    "tests/bench/idle.py": {"measure_latency": "a rate of requests"},
    "tests/bench/links/__main__.py": {"_measure": "takes samples at a rate, until a deadline"},
    "tests/bench/steady.py": {"_send": "a rate of records"},
    "tests/demo/screen.py": {"_show_table": "a rate of pictures", "_show_lines": "a rate of pictures"},
    "tests/faults/fault_round.py": {
        "_judge_losses": "judges what is there at its deadline, and reports that",
        "_settled": "ends when no more records arrive, and judges what is there",
    },
    "tests/integration/access/test_required_acls.py": {
        "test_messages_lead_from_nothing_to_exactly_the_listed_acls": "acts in each round, and names what is missing",
    },
    "tests/integration/election/cutting_proxy.py": {"_serve": "gives the server time to execute a request"},
    "tests/integration/kafka/test_control_producer.py": {"send_for": "a rate of records"},
    "tests/lab/cable.py": {"_pump": "a rate of bytes", "_delayed": "the time that bytes need"},
    "tests/lab/identity_provider.py": {"answer": "hangs until the test releases it"},
    "tests/lab/verify.py": {
        "wait_until_copied": "the helper for copies, with verdicts of its own",
        "_read_to_end": "reads after its deadline in any case",
    },
    "tests/lab/waiting.py": {"wait_until": "the helper", "until": "the helper"},
    "tests/unit/flows/lane/test_loop_turns.py": {
        "test_batches_of_very_many_records_do_not_hold_the_loop": "sees every turn of the loop; has a deadline"
    },
}
"""Functions with loops that sleep and are no waits of a test, by file: why they sleep."""

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def _loops(tree: ast.AST, function: str = "") -> Iterator[tuple[str, ast.Call]]:
    """Yield (function, call of sleep) for each call within a loop of the same function."""

    def visit(node: ast.AST, function: str, loop: ast.AST | None) -> Iterator[tuple[str, ast.Call]]:
        if isinstance(node, ast.Call) and loop is not None and _sleeps(node, loop):
            yield function, node
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (*_FUNCTIONS, ast.Lambda)):
                yield from visit(child, getattr(child, "name", function), None)
            else:
                yield from visit(child, function, child if isinstance(child, _LOOPS) else loop)

    return visit(tree, function, None)


def _sleeps(call: ast.Call, loop: ast.AST) -> bool:
    """Whether it sleeps in a loop that something can end early. ``sleep(0)`` counts in a loop with a condition only:
    otherwise it lets other tasks run, a number of times."""
    function = call.func
    if not (isinstance(function, ast.Attribute) and function.attr == "sleep" and isinstance(function.value, ast.Name)):
        return False
    if function.value.id not in {"time", "asyncio"}:
        return False
    if isinstance(loop, ast.While) and not isinstance(loop.test, ast.Constant):
        return True
    zero = len(call.args) > 0 and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0
    return not zero and any(isinstance(node, (ast.Break, ast.Return)) for node in _within(loop))


def _within(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below, without those of other functions."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (*_FUNCTIONS, ast.Lambda)):
            yield child
            yield from _within(child)


def findings(root: Path, paced: dict[str, dict[str, str]]) -> Iterator[str]:
    """Yield ``FILE:LINE: function: what to do`` for each loop below ``root``/tests, and entries without a loop."""
    unused = {(file, function) for file, functions in paced.items() for function in functions}
    for path in sorted((root / "tests").rglob("*.py")):
        file = path.relative_to(root).as_posix()
        for function, call in _loops(ast.parse(path.read_bytes(), file)):
            unused.discard((file, function))
            if function not in paced.get(file, {}):
                yield (
                    f"{file}:{call.lineno}: {function}: a loop that sleeps: wait with tests.lab.waiting, which has a "
                    "deadline and reports what it saw; if it does not wait, list it in PACED of tests/lint/waits.py"
                )
    for file, function in sorted(unused):
        yield f"{file}: {function}: has no loop that sleeps: remove it from PACED of tests/lint/waits.py"


def main() -> int:
    """Print all findings; return 1 if there are any."""
    found = list(findings(ROOT, PACED))
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
