"""Every repair in docs/how-to/troubleshooting.md: the test that does it beside a node that runs, or why none can."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/how-to/troubleshooting.md"

_NOT_COPIED = "tests/integration/test_records_not_copied.py"
_LOSSES = "tests/integration/test_flow_losses.py"
_RELOAD = "tests/integration/test_reload.py"
_STORES = "tests/integration/test_store_renewal.py"
_ACLS = "tests/integration/access/test_required_acls.py"
_REJECTED = f"{_NOT_COPIED}::test_repairs_of_rejected_records_last"
_REFUSED = f"{_NOT_COPIED}::test_repairs_of_refused_topics_last"
_GRANTED = "tests/integration/guarded/test_topic_acls.py::test_permissions_that_are_granted_on_a_remote_topic_last"
_ACTIVE = "tests/integration/test_flow_groups.py::test_active_group_is_reported"

REPAIRS: dict[str, tuple[str, ...]] = {
    "It exits with code 2": ("no node: its fix: lines are applied by", "tests/snapshots/test_advice_applied.py"),
    "The port of a listener is taken": ("no node: another port is another start",),
    "Java is missing or too old": ("needs a machine without Java; retries:", "tests/unit/node/engine"),
    "The file enables no flow": (f"{_RELOAD}::test_flow_is_removed_and_added_again",),
    "Everything is copied again after a change of the alias": (
        "tests/parity/test_aliases.py::test_another_alias_than_that_of_the_stored_offsets_is_reported",
    ),
    "The flow stops because of a converter": (
        "needs another start:",
        "tests/parity/test_aliases.py::test_mm2_does_not_continue_what_java_converted",
    ),
    "One topic is missing on the target": (_REFUSED, f"{_RELOAD}::test_changed_topics_apply_while_records_are_copied"),
    "The flow waits for another program": (
        "tests/parity/test_mutual_fencing.py::test_each_program_fences_the_lost_source_tasks_of_the_other",
    ),
    "The flow is paused": (f"{_LOSSES}::test_losses_while_a_topic_is_paused_are_recorded_and_copying_continues",),
    "Old records are missing": ("nothing to repair: it tells where copying starts",),
    "Connection refused, timeout, unknown host": (
        "tests/integration/test_flow_unreachable.py::test_node_waits_for_both_clusters",
    ),
    "TLS fails": (f"{_STORES}::test_certificates_that_are_missing_expired_and_renewed_while_a_node_runs",),
    "A key store is rejected": (
        f"{_STORES}::test_certificates_that_are_missing_expired_and_renewed_while_a_node_runs",
    ),
    "Login fails": ("tests/integration/test_security_node.py::test_node_recovers_and_copies",),
    "A token is missing or rejected": (
        "tests/integration/test_oauth_node.py::test_tokens_that_expire_and_an_endpoint_that_is_down",
        "tests/integration/test_oauth_node.py::test_a_token_file_that_is_replaced",
    ),
    "Login with Kerberos fails": (
        "tests/integration/kerberos/test_node_recovers.py::test_an_unknown_principal_and_clocks_that_differ",
        "tests/integration/kerberos/test_ticket_cache.py::test_tickets_are_renewed_and_replaced",
    ),
    "A permission is missing": (
        _GRANTED,
        f"{_ACLS}::test_messages_lead_from_nothing_to_exactly_the_listed_acls",
    ),
    "A topic or group is not replicated, and there is no error": (
        f"{_ACLS}::test_messages_lead_from_nothing_to_exactly_the_listed_acls",
    ),
    "A remote topic cannot be created": (_REFUSED,),
    "A record cannot be copied": (
        _REJECTED,
        f"{_NOT_COPIED}::test_a_record_is_skipped_through_any_node",
        _REFUSED,
        "tests/integration/queries/test_failures.py::test_a_record_for_which_the_query_fails_stops_its_partition",
        "tests/integration/queries/test_large_batches.py::test_a_record_that_its_topic_allows_passes",
        "a damaged batch without a node:",
        "tests/integration/flows/test_records_left_out.py::test_a_corrupt_batch_of_the_source",
    ),
    "A query ends Spark's JVM": (
        "nothing to repair; then as above:",
        "tests/integration/queries/test_fatal_records.py::test_a_record_that_ends_its_lane_again_and_again",
    ),
    "A dead letter cannot be written": (
        "without a node:",
        "tests/integration/flows/test_records_left_out.py::test_a_partition_stops_if_its_dead_letter_cannot_be_written",
    ),
    "A batch is too large to rebuild": (
        "without a node, as the key restarts the flow:",
        "tests/integration/flows/test_bombs.py::test_bombs_are_passed_through_or_fail_their_partition",
    ),
    "The target rejects writes": (_GRANTED,),
    "The target cannot fence source tasks": (f"{_ACLS}::test_messages_lead_from_nothing_to_exactly_the_listed_acls",),
    "Source tasks wait for the leader": (
        "tests/integration/test_exactly_once_upgrade.py::test_upgrade_and_downgrade_node_by_node",
    ),
    "The stored offset no longer exists": (f"{_LOSSES}::test_a_change_of_the_file_continues_after_a_loss",),
    "The stored offsets are gone": (
        f"{_LOSSES}::test_a_partition_whose_stored_offset_is_gone_starts_when_an_operator_says_so",
        "tests/integration/node/test_lease_builder.py::test_a_partition_with_copies_and_without_an_offset_is_held",
        "tests/integration/node/test_worker_topics.py::test_flow_without_its_stored_offsets_waits",
    ),
    "A loss was reported": (
        "the records are gone; accepted by",
        f"{_LOSSES}::test_losses_while_a_topic_is_paused_are_recorded_and_copying_continues",
    ),
    "A loss stopped a partition or a flow": (
        f"{_LOSSES}::test_a_loss_stops_a_partition_or_a_flow_until_it_is_accepted",
        f"{_LOSSES}::test_a_change_of_the_file_continues_after_a_loss",
    ),
    "A topic was deleted and recreated": ("nothing to repair",),
    "Lag grows": (f"{_RELOAD}::test_changed_tasks_max_applies", "the rest is capacity"),
    "One partition stands still": (
        "nothing to repair: it asks",
        f"{_NOT_COPIED}::test_a_record_is_skipped_through_any_node",
    ),
    "The lag is unknown": ("nothing to repair but the source:", "tests/integration/test_silent_source.py"),
    "One of several nodes is idle": (f"{_RELOAD}::test_changed_tasks_max_applies",),
    "Records arrive seconds later than expected": ("settings of the flow, which restart it",),
    "A group has no offsets on the target": (
        "tests/integration/test_flow_groups.py::test_no_checkpoint_before_records_are_mirrored",
        "tests/integration/test_flow_groups.py::test_group_offsets_are_synced",
    ),
    "Group offset sync does nothing": (_ACTIVE,),
    "Consumers read records twice after a failover": ("nothing to repair: it is expected",),
    "A change has no effect": (f"{_RELOAD}::test_invalid_file_is_rejected_and_reported_until_corrected",),
    "A password is not found": ("no node: another environment is another start",),
    "The command does not reach the node": ("no node answers",),
    "Commands are rejected": ("keys of the node, which need another start:", "tests/contract/test_flow_commands.py"),
    "Two nodes with the same name": ("another name is another start",),
}
"""By heading of the page. Words that are no path of a test are the reason why a repair is not done beside a node."""

LASTING = {
    "One topic is missing on the target": _REFUSED,
    "A permission is missing": _GRANTED,
    "A remote topic cannot be created": _REFUSED,
    "A record cannot be copied": _REJECTED,
    "The target rejects writes": _GRANTED,
    "Group offset sync does nothing": _ACTIVE,
}
"""Repairs of what a node syncs: topics, their configurations and ACLs, and offsets of groups. A later round of the sync
could undo them, so their tests, which are in the gate, wait for two."""

ERRORS = {
    "INVALID_REPLICATION_FACTOR",
    "INVALID_CONFIG",
    "INVALID_TOPIC_EXCEPTION",
    "MESSAGE_TOO_LARGE",
    "RECORD_LIST_TOO_LARGE",
    "INVALID_TIMESTAMP",
    "INVALID_RECORD",
}
"""Errors of tables whose repairs tests do as the page says."""

NO_BROKER_REFUSES = {
    "POLICY_VIOLATION": "needs a policy class in the broker; its text: tests/unit/node/leader/test_topic_refusals.py",
    "INVALID_PARTITIONS": "a limit of a provider, as above",
    "THROTTLING_QUOTA_EXCEEDED": "is tried again without a repair",
}


def _headings() -> list[str]:
    found = re.findall(r"^### (.*)$", PAGE.read_text("utf-8"), re.MULTILINE)
    return [str(one) for one in found]


def test_every_repair_has_a_test_or_a_reason() -> None:
    assert _headings() == list(REPAIRS)


@pytest.mark.parametrize("place", sorted({one for tests in REPAIRS.values() for one in tests if one[:6] == "tests/"}))
def test_named_tests_exist(place: str) -> None:
    path, _, name = place.partition("::")
    assert (ROOT / path).exists()
    assert not name or re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text("utf-8"), re.MULTILINE)


@pytest.mark.parametrize("heading", LASTING)
def test_a_repair_of_what_is_synced_lasts_for_two_rounds_of_the_sync(heading: str) -> None:
    assert LASTING[heading] in REPAIRS[heading]
    path, _, name = LASTING[heading].partition("::")
    (test,) = (
        one
        for one in ast.parse((ROOT / path).read_text("utf-8")).body
        if isinstance(one, ast.FunctionDef) and one.name == name
    )
    assert [ast.unparse(one) for one in test.decorator_list] == [], "it is in the gate, without conditions"
    rounds = [
        one for one in ast.walk(test) if isinstance(one, ast.Call) and ast.unparse(one.func).endswith("wait_sync")
    ]
    loops = [one for one in ast.walk(test) if isinstance(one, ast.For)]
    repeated = [one for loop in loops for one in ast.walk(loop) if one in rounds]
    assert len(rounds) + len(repeated) >= 2


def test_every_error_of_a_broker_is_provoked_by_a_test_or_has_a_reason() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)` \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert set(rows) == ERRORS | NO_BROKER_REFUSES.keys()
    text = (ROOT / _NOT_COPIED).read_text("utf-8")
    assert [one for one in sorted(ERRORS) if f'"{one}"' not in text] == []
