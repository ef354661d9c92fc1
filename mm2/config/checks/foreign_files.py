"""Recognition of configuration files of other programs, and of files that are no properties.

Such a file gets one error with the lines of mm2.properties to write instead, not a list of unknown keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mm2.config.checks.foreign import clients, connect, file_types, kubernetes
from mm2.config.checks.foreign.foreign_file import ForeignFile, Settings
from mm2.config.grammar.problems import ProblemLog
from mm2.config.grammar.properties import parse


def report(content: bytes, problems: ProblemLog) -> bool:
    """Add one error if ``content`` is not an mm2.properties file, and return whether it was added."""
    found = file_types.binary(content) or _of_a_program(content)
    if found is None:
        return False
    problems.error(found.rule, found.fix)
    return True


def _of_a_program(content: bytes) -> ForeignFile | None:
    content = content.removeprefix(file_types.BYTE_ORDER_MARK)
    text = content.decode("utf-8", "replace")
    properties = {key: entry.value.strip() for key, entry in parse(content, ProblemLog("")).items()}
    return next(filter(None, (recognise(text, properties) for recognise in _RECOGNISERS)), None)


_RECOGNISERS: Sequence[Callable[[str, Settings], ForeignFile | None]] = (
    kubernetes.manifest,
    connect.connector,
    connect.worker,
    clients.mirror_maker_1,
    clients.other_client,
    file_types.json_text,
    file_types.yaml_text,
    file_types.no_settings,
)
