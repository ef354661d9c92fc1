"""requirements-runtime.lock: the production dependencies, a subset of requirements.lock. requirements-kerberos.lock: an
extra that is built from source."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
PACKAGE = re.compile(r"^([a-z0-9-]+)==(\S+)(.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
HASH = re.compile(r"sha256:[0-9a-f]{64}")


def packages(name: str) -> dict[str, tuple[str, frozenset[str]]]:
    """Return version and hashes by package."""
    text = (ROOT / name).read_text("utf-8")
    return {found[1]: (found[2], frozenset(HASH.findall(found[3]))) for found in PACKAGE.finditer(text)}


def test_versions_and_hashes_equal_those_of_the_tests() -> None:
    tested, shipped = packages("requirements.lock"), packages("requirements-runtime.lock")
    assert len(shipped) > 20
    assert [name for name, pinned in shipped.items() if tested.get(name) != pinned or not pinned[1]] == []


def test_runtime_lock_has_the_dependencies_and_no_development_tools() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    shipped = packages("requirements-runtime.lock").keys()
    assert {_name(line) for line in project["project"]["dependencies"]} <= shipped
    assert {_name(line) for line in project["dependency-groups"]["dev"]} & shipped == set()


def test_the_extra_that_needs_a_compiler_is_in_its_own_lock() -> None:
    built = packages("requirements-kerberos.lock")
    assert {"gssapi", "cython"} <= built.keys()
    assert all(hashes for _, hashes in built.values())
    assert "gssapi" not in packages("requirements.lock")


def _name(requirement: str) -> str:
    return re.split(r"[^a-z0-9-]", requirement)[0]


def test_no_lock_contains_a_host() -> None:
    for name in ("requirements.lock", "requirements-runtime.lock", "requirements-kerberos.lock"):
        assert "://" not in (ROOT / name).read_text("utf-8")
