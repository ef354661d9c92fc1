"""Our table of ignored keys, and names with other aliases, compared with what real Java MirrorMaker 2 did.

`tests/parity/test_ignored_keys.py` and `tests/parity/test_aliases.py` ran it, and run it again in the long tier.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mm2.config.keys.java_effects import BYTES_CONVERTERS, CHANGING_CLASSES, EFFECTS, Aspect
from mm2.core.naming.internal_topics import Side, checkpoints, configs, offset_syncs, source_offsets, status
from mm2.core.naming.names import Flow
from tests.golden.vectors import java_vectors
from tests.unit.config.files import loaded

FLOWS: list[dict[str, Any]] = java_vectors("ignored-keys")
CHANGED = [one for one in FLOWS if one["differs"]]
REFUSED = ("transforms", "predicates")
"""Keys that are not in the table, as they are errors, and what begins with them."""


def bare(key: str) -> str:
    """Return a key as it is in the table."""
    found = key if key in EFFECTS else key.removeprefix("producer.override.").removeprefix("consumer.")
    assert found in EFFECTS, key
    return found


def claimed(keys: dict[str, str]) -> set[str]:
    """Return what of a copy differs because of ``keys`` by our table. The run did not compare times."""
    found: set[str] = set()
    for key, value in keys.items():
        if not key.startswith(REFUSED) and not (key in CHANGING_CLASSES and value in BYTES_CONVERTERS):
            found |= {str(aspect) for aspect in EFFECTS[bare(key)].differs if aspect is not Aspect.TIMING}
    return found


@pytest.mark.parametrize("one", FLOWS, ids=lambda one: one["flow"])
def test_java_copied_as_the_table_says(one: dict[str, Any]) -> None:
    if not any(key.startswith(REFUSED) for key in one["keys"]):
        assert claimed(one["keys"]) == set(one["differs"])


def test_each_kind_of_key_was_run() -> None:
    """Each key that changes copies, and some of each kind that do not."""
    run = {bare(key) for one in FLOWS for key in one["keys"] if not key.startswith(REFUSED)}
    changing = {name for name, effect in EFFECTS.items() if set(effect.differs) - {Aspect.TIMING}}
    assert changing - run == {"value.serializer"}  # as key.serializer
    assert len(run - changing) > 20


@pytest.mark.parametrize("one", CHANGED, ids=lambda one: one["flow"])
def test_a_file_with_a_key_that_changes_the_copy_has_a_problem(tmp_path: Path, one: dict[str, Any]) -> None:
    """An error where records would be replicated without what Java does on purpose, else a warning."""
    problems = loaded(tmp_path, "".join(f"A->B.{key} = {value}\n" for key, value in one["keys"].items())).problems
    assert problems
    assert {problem.key for problem in problems} <= {f"A->B.{key}" for key in one["keys"]}
    refused = any(key in REFUSED for key in one["keys"])
    assert all(problem.is_warning is not refused for problem in problems)


def test_names_with_other_aliases(tmp_path: Path) -> None:
    """A is the cluster a, and B the cluster b."""
    java = java_vectors("aliases")
    lines = "".join(f"{key} = {value}\n" for key, value in java["keys"].items())
    lines += "B->A.enabled = true\nA->B.topics = orders\nB->A.topics = bills\n"
    result = loaded(tmp_path, lines).settings
    assert result is not None
    topics = {Flow("A", "B"): "orders", Flow("B", "A"): "bills"}
    for one, (flow, topic) in zip(sorted(result.flows, key=lambda one: str(one.flow)), topics.items(), strict=True):
        assert one.flow == flow
        source, target = flow.source.lower(), flow.target.lower()
        assert {
            f"{target}: {one.policy.format_remote_topic(one.aliases.source, topic)}",
            f"{target}: {checkpoints(one.policy, one.aliases).name}",
            f"{source}: {offset_syncs(one.policy, one.aliases, Side.SOURCE).name}",
            f"{target}: {source_offsets(flow).name}",
            f"{target}: {configs(flow).name}",
            f"{target}: {status(flow).name}",
        } <= set(java["topics"])
    assert [[one.aliases.source] for one in result.flows] == java["clusters in source offsets"]
