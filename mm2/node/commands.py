"""How the leader of a flow carries out what operators ask: by records that every node of the flow reads."""

from __future__ import annotations

import time
from typing import assert_never

from mm2.core.command_records import KEY, encode_command
from mm2.core.commands import Command, CommandRefusedError, Pause, Refresh, RestartTask, Resume
from mm2.core.placement import Placement
from mm2.kafka.errors import ClusterError
from mm2.node.config_topic import ConfigTopic
from mm2.node.leadership import Leadership


async def carry_out(command: Command, leadership: Leadership, configs: ConfigTopic, placement: Placement) -> str:
    """Do it, and say in a sentence what happens now. Raises CommandRefusedError."""
    try:
        return await _carried_out(command, leadership, configs, placement)
    except ClusterError as error:
        raise CommandRefusedError(f"the command cannot be written down: {error}") from error


async def _carried_out(command: Command, leadership: Leadership, configs: ConfigTopic, placement: Placement) -> str:
    match command:
        case Pause(topics=topics):
            _known(topics, leadership)
            await leadership.pause(configs.pauses.pause(topics))
            await configs.catch_up()
            return f"{_named(topics)} until it is resumed; what is in flight is finished"
        case Resume(topics=topics):
            _paused(topics, configs)
            await leadership.pause(configs.pauses.resume(topics))
            await configs.catch_up()
            left = [topic or "the flow" for topic in configs.pauses.named]
            return "copying goes on" + (f"; still paused: {', '.join(left)}" if left else "")
        case RestartTask(task=task):
            place = {str(one): place for one, place in placement.places.items()}.get(task)
            if place is None:
                others = ", ".join(map(str, placement.places)) or "none"
                raise CommandRefusedError(f"there is no task {task}; the flow's tasks: {others}", is_unknown=True)
            if place.owner is None:
                raise CommandRefusedError(f"{task} runs nowhere now: it begins when a node is given it")
            await leadership.tell([(KEY, encode_command(command, _now_ms()))])
            return f"{task} begins anew on node {place.node}"
        case Refresh():
            leadership.look_now()
            await leadership.tell([(KEY, encode_command(command, _now_ms()))])
            return "topics, groups, configurations and ACLs are looked at now"
        case other:
            assert_never(other)


def _known(topics: tuple[str, ...], leadership: Leadership) -> None:
    """Raises CommandRefusedError for a topic the flow does not replicate: a typing error must not look like a pause."""
    if topics and leadership.trouble is not None and not leadership.topics:
        raise CommandRefusedError(f"it is not known yet which topics the flow replicates: {leadership.trouble}")
    known = {topic.topic for topic in leadership.topics}
    unknown = [topic for topic in topics if topic not in known]
    if unknown:
        raise CommandRefusedError(f"the flow does not replicate {', '.join(unknown)}", is_unknown=True)


def _paused(topics: tuple[str, ...], configs: ConfigTopic) -> None:
    """Raises CommandRefusedError for a topic that is not paused by itself."""
    strange = [topic for topic in topics if topic not in configs.pauses.topics]
    if strange:
        paused = ", ".join(topic or "the flow as a whole" for topic in configs.pauses.named) or "nothing"
        raise CommandRefusedError(f"{', '.join(strange)}: not paused by name; paused is {paused}", is_unknown=True)


def _named(topics: tuple[str, ...]) -> str:
    named = ", ".join(dict.fromkeys(topics))
    return f"{named}: not copied any more" if named else "nothing of the flow is copied any more"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
