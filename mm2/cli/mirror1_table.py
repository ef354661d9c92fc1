"""The options of ``kafka-mirror-maker`` and ``mm2 migrate-mm1``: those of MirrorMaker 1 in Kafka 0.8 to 3.9."""

from __future__ import annotations

from mm2.cli.parameters import CliCommand, Parameter

MIRROR1_NAME = "kafka-mirror-maker"

_COMMON = (
    Parameter(
        names=("--consumer.config",),
        value="FILE ...",
        noun="file",
        keyword="consumer_config",
        help="Consumer of the source. Several: several sources.",
    ),
    Parameter(
        names=("--producer.config",),
        value="FILE",
        keyword="producer_config",
        help="Producer of the target.",
    ),
    Parameter(names=("--include",), value="REGEX", help="Topics to mirror: a Java regular expression."),
    Parameter(names=("--whitelist",), value="REGEX", help="Old name of --include, which wins."),
    Parameter(names=("--blacklist",), value="REGEX", help="Mirror all topics but these."),
    Parameter(
        names=("--num.streams",), value="N", keyword="num_streams", help="Members of the group per consumer (1)."
    ),
    Parameter(
        names=("--offset.commit.interval.ms",),
        value="N",
        keyword="commit_interval",
        help="Time between offset commits (60000).",
    ),
    Parameter(
        names=("--abort.on.send.failure",),
        value="true|false",
        keyword="abort",
        help="End if a record cannot be written (true).",
    ),
)

_CLASSES = (
    Parameter(
        names=("--message.handler",),
        value="MODULE:CLASS",
        keyword="handler",
        help="Python class that changes or drops records.",
    ),
    Parameter(
        names=("--message.handler.args",),
        value="TEXT",
        keyword="handler_args",
        help="Argument for the message handler.",
    ),
    Parameter(
        names=("--consumer.rebalance.listener",),
        value="MODULE:CLASS",
        keyword="listener",
        help="Python class, called at each rebalance.",
    ),
    Parameter(
        names=("--rebalance.listener",), value="MODULE:CLASS", keyword="listener_too", help="The same, a shorter name."
    ),
    Parameter(
        names=("--rebalance.listener.args",),
        value="TEXT",
        keyword="listener_args",
        help="Argument for the rebalance listener.",
    ),
)

_WITHOUT_EFFECT = (
    Parameter(names=("--new.consumer",), keyword="new_consumer", help="No effect."),
    Parameter(names=("--new.producer",), keyword="new_producer", help="No effect."),
    Parameter(names=("--num.producers",), value="N", keyword="num_producers", help="No effect: see --num.streams."),
    Parameter(
        names=("--queue.size",),
        value="N",
        keyword="queue_size",
        help="No effect: see buffer.memory of the producer.",
    ),
)

MIRROR1_COMMAND = CliCommand(
    function="mm2.cli.mirror1.mirror_maker:mirror_maker",
    parameters=(
        *_COMMON,
        Parameter(
            names=("--partitions",),
            value="same|key",
            help="Keep partitions (same), or choose by key.",
        ),
        *_CLASSES,
        Parameter(
            names=("--listeners",),
            value="URL,...",
            help="Serve /health and /metrics (none).",
        ),
        *_WITHOUT_EFFECT,
        Parameter(names=("--check",), help="Check options and files, and exit."),
        Parameter(names=("--version",), help="Print the version."),
    ),
    java_options=True,
    example=f"{MIRROR1_NAME} --consumer.config c.properties --producer.config p.properties --include '.*'",
    help="Mirror topics with the command line and the files of MirrorMaker 1.\n\n"
    "Topics keep their names. With --partitions same, records keep their partitions\n"
    "where the topic has as many partitions on the target, and otherwise get one by\n"
    "key. Offsets are committed to the source, as by MirrorMaker 1, so both can run in\n"
    "one group or replace each other. --abort.on.send.failure false writes records that\n"
    "the target rejects to a dead-letter topic. Properties spark.* belong into the\n"
    "producer's file. Forms of options: --name value, --name=value, -name value.\n\n"
    "Exit codes: 0 stopped by a signal, or checked; 1 fatal error at run time; 2 wrong\n"
    "files or command line; 130 second signal.",
)

MIGRATE_COMMAND = CliCommand(
    function="mm2.cli.mirror1.migrate:migrate",
    parameters=(
        *_COMMON,
        Parameter(names=("--partitions",), value="same", help="No effect: flows keep partitions."),
        *_CLASSES,
        *_WITHOUT_EFFECT,
        Parameter(names=("--source",), value="ALIAS", help="Alias of the source (A)."),
        Parameter(names=("--target",), value="ALIAS", help="Alias of the target (B)."),
        Parameter(
            names=("--write-offsets",),
            help="Copy the group's offsets to the target.",
        ),
    ),
    java_options=True,
    example="mm2 migrate-mm1 --consumer.config c.properties --producer.config p.properties --include '.*'",
    help="Turn the files of MirrorMaker 1 into an mm2.properties file.\n\n"
    "Step 1: without --write-offsets the file is printed; topics keep their names.\n"
    "Passwords stay in the files of MirrorMaker 1, to which the new file refers.\n"
    "Step 2: stop MirrorMaker 1, and repeat the command with --write-offsets. It reads\n"
    "the committed offsets of the consumer group, and stores them on the target as\n"
    "source offsets of the flow. If auto.offset.reset is latest, partitions without a\n"
    "committed offset get their current end. It refuses if the group has members, or\n"
    "if source offsets are stored already.\n"
    "Step 3: mm2 run mm2.properties continues where the group stands.\n\n"
    "Exit codes: 0 done; 1 refused, or no answer; 2 wrong files or command line.",
)
