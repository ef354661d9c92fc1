"""Keeps words out that readers stumble over: ``python -m tests.lint.words`` prints FILE:LINE for each and exits with 1.

It reads messages, docstrings, comments and documentation alike. A word is listed if a reviewer stumbled over it more
than once; the reason says what to write instead.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACES = ("README.md", "CONTRIBUTING.md", "mm2.properties.example", "docs", "deploy", "mm2", "flows")
SUFFIXES = (".py", ".md", ".yml", ".yaml", ".json", ".sh", ".example", ".service")

WORDS = {
    r"anew": "write again, or recreated and restarted",
    r"begun": "write started",
    r"go(es)? on|gone on|went on": "write continue or resume",
    r"good-?bye": "name the request: LeaveGroup",
    r"hears? of|heard of": "write receives, detects or is notified",
    r"is no key|are no keys": "write unknown property, ignored",
    r"let(s)? go( of)?|letting go": "Kafka's words are revoke and release",
    r"made (up )?anew": "write recreated",
    r"nobody|somebody|whoever|whomever": "name who: the operator, a consumer, the leader; or write no one, someone",
    r"of its own accord": "write on its own, or automatically",
    r"parted (by|at)": "write separated by",
    r"(is|are|was|were|be) told": "programs report, receive or are notified",
    r"(a|the|one|this|that) sentence": "write message or error",
    r"spoken to": "write connected to",
    r"the like": "write and similar, or list the cases",
    r"(to|can) be had": "write available",
    r"whereabouts": "write ownership, membership or address",
    r"mm2-compat|contract: |contract\.md|design\.md": "not in this repository: name a KIP, Kafka class or docs page",
}
_ANY = re.compile("|".join(rf"(?P<w{number}>\b(?:{word}))" for number, word in enumerate(WORDS)), re.IGNORECASE)


def files() -> Iterator[Path]:
    """Yield every file of the product and its documentation."""
    for place in PLACES:
        path = ROOT / place
        yield from [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.suffix in SUFFIXES)


def findings(path: Path) -> Iterator[str]:
    """Yield ``FILE:LINE: word: what to write instead``."""
    reasons = list(WORDS.values())
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
        for match in _ANY.finditer(line):
            reason = reasons[int(str(match.lastgroup)[1:])]
            yield f"{path.relative_to(ROOT)}:{number}: {match[0]!r}: {reason}"


def main() -> int:
    """Print all findings; return 1 if there are any."""
    found = [line for path in files() for line in findings(path)]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
