"""The table of commands. A command is a module with a function, and one entry here."""

from __future__ import annotations

from mm2.cli.mirror1_table import MIGRATE_COMMAND
from mm2.cli.parameters import (
    CHOSEN_FLOW,
    CLUSTERS,
    COMMANDED_FLOW,
    FILE,
    FLOW,
    JSON,
    LOST_PARTITION,
    LOST_TOPIC,
    NODE,
    ONE_PARTITION,
    REASON,
    STRICT,
    TOPICS,
    WATCH,
    CliCommand,
    Parameter,
)

NODE_HELP = """\
Replicates the flows of FILE until SIGTERM or SIGINT. The first signal drains
the node: records in flight are written and offsets are committed, within
task.shutdown.graceful.timeout.ms. A second signal ends the process immediately.

Exit codes: 0 drained; 1 fatal error at run time; 2 wrong FILE or command line;
130 second signal. If a cluster is unreachable, the node does not exit: it
retries, and logs which setting to check.
"""

CLUSTERS_HELP = """\
Reads the clusters directly, within 10 s each; no node needs to run.
Exit codes: 0 answered; 1 no answer; 2 wrong FILE or command line.
"""

COMMAND_HELP = """\
Any node of the flow accepts the command over https, or over http on its own
machine, if its file has mm2.rest.admin = true. The token is that of the
environment variable MM2_TOKEN, else the one in FILE; for a URL, else that of
MM2_REST_ADMIN_TOKEN.
Exit codes: 0 accepted; 1 rejected, or no answer; 2 wrong command line, FILE or
token.
"""

COMMANDS = {
    "run": CliCommand(
        function="mm2.cli.run.run:run",
        parameters=(FILE, CLUSTERS),
        example="mm2 run mm2.properties",
        help=f"Run one node in the foreground.\n\n{NODE_HELP}",
    ),
    "check": CliCommand(
        function="mm2.cli.file.check:check",
        parameters=(FILE, CLUSTERS, STRICT, JSON),
        example="mm2 check mm2.properties --json",
        help="Check a file and print every problem.\n\n"
        "With --strict, for pipelines, warnings are errors, but not those that depend on\n"
        "the time or on the mode of the file.\n\n"
        "Connects to nothing.\n"
        "Exit codes: 0 no errors (there can be warnings, unless --strict); 2 errors.",
    ),
    "explain": CliCommand(
        function="mm2.cli.file.explain:explain",
        parameters=(
            FILE,
            FLOW,
            Parameter(names=("--non-default",), help="Leave out settings that have their default."),
            CLUSTERS,
        ),
        example="mm2 explain mm2.properties --flow 'A->B' --non-default",
        help="Print the effective settings and the line each one came from.\n\n"
        "Connects to nothing.\n"
        "Exit codes: 0 printed; 2 FILE has errors, or no such flow.",
    ),
    "acls": CliCommand(
        function="mm2.cli.file.acls:acls",
        parameters=(
            FILE,
            Parameter(
                names=("--principal",),
                value="P ...",
                noun="principal",
                help="The node's principal (User:mm2), or A=User:NAME for cluster A.",
            ),
            FLOW,
            CLUSTERS,
            JSON,
        ),
        example="mm2 acls mm2.properties --principal User:mirror B=User:mm2",
        help="Print the commands that create the ACLs which the flows need.\n\n"
        "The list is complete and minimal for the features that FILE turns on. The output\n"
        "is a shell script; kafka-acls.sh also needs --command-config with your own login.\n"
        "Connects to nothing.\n"
        "Exit codes: 0 printed; 1 a custom class failed; 2 FILE has errors, or wrong\n"
        "command line.",
    ),
    "status": CliCommand(
        function="mm2.cli.node.status:status",
        parameters=(
            NODE,
            FLOW,
            TOPICS,
            ONE_PARTITION,
            Parameter(names=("--problems",), help="Only what has a problem."),
            WATCH,
            JSON,
        ),
        example="mm2 status mm2.properties --watch",
        help="Show flows with their nodes, tasks, topics, rates and lag.\n\n"
        "Any node of a flow reports the whole flow. While records are copied, the node is\n"
        "queried twice within 3 s to compute rates. --json prints GET /flows.\n\n"
        "Problems with one cause are one line. --problems leaves out flows and topics\n"
        "without any; a pause and an unknown lag are none.\n\n"
        "With --topic and --partition: what one partition does at its source and at its\n"
        "target, what it waits for, and its last events.\n\n"
        "FILE must have listeners: the node of this machine is queried over REST.\n"
        "Exit codes: 0 answered; 1 no answer; 2 wrong FILE or command line.",
    ),
    "dump": CliCommand(
        function="mm2.cli.dump:dump",
        parameters=(
            FILE,
            Parameter(names=("--to",), value="FILE.tar.gz", help="The archive; it must not exist."),
        ),
        example="mm2 dump mm2.properties",
        help="Write what a bug report needs into one archive, without secrets.\n\n"
        "It contains the problems and effective settings of FILE, and if the node of this\n"
        "machine answers: /health, /flows, /metrics, /node with the last 1,000 lines of\n"
        "its log, and the steps and events of partitions that do not just fetch.\n"
        "Exit codes: 0 written; 1 cannot be written; 2 wrong FILE or command line.",
    ),
    "lag": CliCommand(
        function="mm2.cli.node.lag:lag",
        parameters=(
            NODE,
            FLOW,
            TOPICS,
            Parameter(names=("--sort",), value="ORDER", help="lag (default), seconds, topic or node."),
            WATCH,
            JSON,
        ),
        example="mm2 lag mm2.properties --flow 'A->B' --topic orders",
        help="Show the lag of flows and partitions, and when they will catch up.\n\n"
        "Partitions with the largest lag come first. If there is lag, the node is queried\n"
        "twice within 3 s to compute rates. With --topic, the sums of flows include only\n"
        "these topics.\n\n"
        "Queries the node over REST. With FILE, the clusters are read instead if no node\n"
        "answers or FILE has no listeners, within 10 s each: the lag is then that from the\n"
        "offsets stored on the target to the end offsets of the source. With --watch they\n"
        "are read every 10 s, or less often if that takes longer.\n\n"
        "A lag is unknown if the source has not told its end offset for 10 s; the last\n"
        "known one is shown with its time.\n"
        "Exit codes: 0 every lag in records is known; 1 one is not, or no answer; 2 wrong\n"
        "FILE or command line.",
    ),
    "topics": CliCommand(
        function="mm2.cli.node.topics:topics",
        parameters=(
            NODE,
            FLOW,
            Parameter(
                names=("--all",),
                keyword="everything",
                help="Also show topics that are not replicated, and why. Needs FILE.",
            ),
            Parameter(names=("--deleted",), help="Show remote topics whose source topic is gone instead. Needs FILE."),
            JSON,
        ),
        example="mm2 topics mm2.properties --flow 'A->B' --all",
        help="Show which topics are replicated to which remote topics.\n\n"
        "Queries the node over REST. With FILE, the clusters are read instead, within 10 s\n"
        "each, if no node answers or for --all.\n\n"
        "--deleted reads the clusters, too: remote topics whose source topic was deleted,\n"
        "since when (as the flow's leader noticed), and at most how many records they have.\n"
        "They are never deleted by MirrorMaker. If the source does not answer, it is\n"
        "unknown which topics are gone.\n"
        "Exit codes: 0 answered; 1 no answer, or unknown; 2 wrong FILE or command line.",
    ),
    "offsets": CliCommand(
        function="mm2.cli.clusters.offsets:offsets",
        parameters=(
            FILE,
            CHOSEN_FLOW,
            Parameter(names=("--group",), value="G ...", noun="group", help="Only these consumer groups."),
            JSON,
        ),
        example="mm2 offsets mm2.properties --flow 'A->B' --group orders-service",
        help="Show where consumer groups of the source would resume on the target.\n\n"
        "exact: no record is consumed twice. conservative: some records are consumed\n"
        "twice, none is skipped. If the source does not answer, positions are those of\n"
        f"the last checkpoints.\n\n{CLUSTERS_HELP}",
    ),
    "translate": CliCommand(
        function="mm2.cli.clusters.translate:translate",
        parameters=(
            FILE,
            CHOSEN_FLOW,
            Parameter(names=("--topic",), value="T", help="One position: its topic."),
            Parameter(names=("--partition",), value="P", help="Its partition."),
            Parameter(names=("--offset",), value="N", help="Its offset: the next one to read."),
            Parameter(
                names=("--time",),
                value="TIME",
                help="Instead of the offset: that of the first record at this time or later.",
            ),
            Parameter(names=("--positions",), value="FILE|-", help="Positions in a file, or on standard input."),
            Parameter(names=("--groups",), value="REGEX", help="Positions of the source's groups with these names."),
            Parameter(names=("--reverse",), help="The positions are on the target: show them on the source."),
            JSON,
        ),
        example="mm2 translate mm2.properties --flow 'A->B' --topic orders --partition 0 --offset 1042",
        help="Show where positions on the source are on the target, or the other way round.\n\n"
        "A position is the next offset to read. FILE of --positions is as Spark writes it,\n"
        '{"orders":{"0":123}}, has lines such as orders:0:123, or is what GET\n'
        "/connectors/NAME/offsets returns for a sink or for MirrorMaker 2, which has the\n"
        "last copied offset. The output has the same form, with the names of the other\n"
        "cluster; that of --groups has lines GROUP,TOPIC,PARTITION,OFFSET, as\n"
        "kafka-consumer-groups.sh --reset-offsets --from-file reads them.\n\n"
        "Each position that is not exact has a line on stderr: next is the next copied\n"
        "record, end that everything is copied and read, ahead that records before it are\n"
        "not copied yet, conservative that records are read again. None skips a copied\n"
        "record. The source may be down; a time is then looked up on the target.\n\n"
        "Reads the clusters directly, within 10 s each; no node needs to run.\n"
        "Exit codes: 0 every position is exact; 3 one is not; 1 no answer; 2 wrong FILE,\n"
        "positions or command line.",
    ),
    "heartbeats": CliCommand(
        function="mm2.cli.clusters.heartbeats:heartbeats",
        parameters=(
            FILE,
            Parameter(names=("--cluster",), value="B", help="Only heartbeats that arrive at this cluster."),
            JSON,
        ),
        example="mm2 heartbeats mm2.properties --cluster B",
        help="Show which heartbeats arrived where, and which are late or missing.\n\n"
        "late: older than three intervals. missing: expected from the flows of FILE, but\n"
        f"never seen.\n\n{CLUSTERS_HELP}",
    ),
    "pause": CliCommand(
        function="mm2.cli.node.flow_commands:pause",
        parameters=(NODE, COMMANDED_FLOW, TOPICS, REASON),
        example="mm2 pause mm2.properties --flow 'A->B' --topic orders",
        help="Pause a flow, or some of its topics, until resumed.\n\n"
        f"Offsets are kept. A pause survives restarts and leader changes.\n\n{COMMAND_HELP}",
    ),
    "resume": CliCommand(
        function="mm2.cli.node.flow_commands:resume",
        parameters=(NODE, COMMANDED_FLOW, TOPICS, REASON),
        example="mm2 resume mm2.properties --flow 'A->B'",
        help="Resume a flow, or some of its topics.\n\n"
        "Without --topic every pause of the flow ends. Replication continues where it was\n"
        f"paused.\n\n{COMMAND_HELP}",
    ),
    "restart": CliCommand(
        function="mm2.cli.node.flow_commands:restart",
        parameters=(
            NODE,
            Parameter(names=("TASK",), help="The task ID that mm2 status --json shows.", required=True),
            COMMANDED_FLOW,
            REASON,
        ),
        example="mm2 restart mm2.properties MirrorSourceConnector-0 --flow 'A->B'",
        help=f"Restart a task, including a FAILED one.\n\n{COMMAND_HELP}",
    ),
    "refresh": CliCommand(
        function="mm2.cli.node.flow_commands:refresh",
        parameters=(NODE, COMMANDED_FLOW, REASON),
        example="mm2 refresh mm2.properties --flow 'A->B'",
        help="Refresh topics, groups, topic configurations and ACLs now.\n\n"
        f"Without it they are refreshed at their configured intervals.\n\n{COMMAND_HELP}",
    ),
    "skip": CliCommand(
        function="mm2.cli.node.flow_commands:skip",
        parameters=(
            NODE,
            LOST_TOPIC,
            LOST_PARTITION,
            Parameter(
                names=("--offset",), value="N", help="The source offset that stops the partition.", required=True
            ),
            CHOSEN_FLOW,
            REASON,
        ),
        example="mm2 skip mm2.properties --topic orders --partition 0 --offset 1042",
        help="Skip a record that cannot be copied and stops its partition.\n\n"
        "mm2 status shows the offset. Of a batch that cannot be read, all records are\n"
        "skipped, and the answer says which. The skip is recorded as a loss, and copying\n"
        f"continues at once.\n\n{COMMAND_HELP}",
    ),
    "copy-again": CliCommand(
        function="mm2.cli.node.flow_commands:copy_again",
        parameters=(
            NODE,
            COMMANDED_FLOW,
            LOST_TOPIC,
            Parameter(names=("--partition",), value="P", help="Only this partition of the topic."),
            Parameter(
                names=("--from",),
                value="OFFSET|TIME",
                keyword="start",
                help="Source offset, or time with a zone; default: earliest.",
            ),
            Parameter(names=("--yes",), help="Do not ask; also if the history of a query is unknown."),
            REASON,
        ),
        example="mm2 copy-again mm2.properties --flow 'A->B' --topic orders --from 2026-11-01T00:00:00Z",
        help="Copy a topic again from an earlier offset.\n\n"
        "Its partitions are drained, the start is stored, and copying continues from there.\n"
        "The records are written a second time, behind those that the remote topic has:\n"
        "its consumers read them again. Committed offsets never move back.\n\n"
        "It first says which offsets of which partitions it repeats, and asks. Without a\n"
        "terminal it needs --yes. Rejected: an offset that is not copied yet, because\n"
        "records would be skipped; one that the source has deleted; a topic that the flow\n"
        f"does not replicate, or that is paused.\n\n{COMMAND_HELP}",
    ),
    "losses": CliCommand(
        function="mm2.cli.node.losses:losses",
        parameters=(NODE, FLOW, TOPICS, JSON),
        example="mm2 losses mm2.properties --flow 'A->B' --topic orders",
        help="Show every recorded loss: source records that could no longer be copied.\n\n"
        "With FILE the losses topics are read from the clusters, and no node needs to\n"
        "run; with a URL the node is queried over REST. first and last are offsets on the\n"
        "source. --json prints an array of objects.\n"
        "Exit codes: 0 answered; 1 not all flows could be read; 2 wrong FILE or command\n"
        "line, for example a topic that is not replicated and has no losses.",
    ),
    "accept-loss": CliCommand(
        function="mm2.cli.node.flow_commands:accept_loss",
        parameters=(
            NODE,
            Parameter(names=("--topic",), value="T", help="Only this topic, by its source topic name."),
            Parameter(names=("--partition",), value="P", help="Only this partition of the topic."),
            CHOSEN_FLOW,
            REASON,
        ),
        example="mm2 accept-loss mm2.properties --topic orders --partition 0 --reason 'ticket 4711'",
        help="Accept losses, and continue after those that stopped a partition or a flow.\n\n"
        "mm2 losses shows them, with the time, the name and the reason of the acceptance.\n"
        "An accepted loss ends the alert MM2RecordsLost and its line in mm2 status. Losses\n"
        "stop something if mm2.on.data.loss is stop-partition or stop-flow. A partition\n"
        "that is stopped because its stored offset is gone starts again. Without\n"
        "--partition the losses of all partitions of the topic are accepted, without\n"
        f"--topic all of the flow.\n\n{COMMAND_HELP}",
    ),
    "map": CliCommand(
        function="mm2.cli.clusters.map_rebuild:map_command",
        parameters=(
            Parameter(names=("ACTION",), help="rebuild.", required=True),
            FILE,
            LOST_TOPIC,
            Parameter(names=("--partition",), value="P", help="Only this partition of the topic."),
            CHOSEN_FLOW,
            Parameter(
                names=("--rate",),
                value="MB/s",
                help="The most that is read per second from both clusters; default: 20.",
            ),
            Parameter(names=("--yes",), help="Write without asking."),
        ),
        example="mm2 map rebuild mm2.properties --topic orders --flow 'A->B'",
        help="Rebuild the exact offset map of a topic by comparing both clusters.\n\n"
        "For a map that is damaged, deleted or unreadable. Reads the topic and its remote\n"
        "topic, finds the copy of each record by its content, shows what it has found, and\n"
        "asks before it replaces the map. Where records are equal, positions stay\n"
        "conservative: none skips a record.\n\n"
        "The topic must be paused (mm2 pause), or no node of the flow may run. Topics with\n"
        "a query cannot be compared. Brokers know the command by mm2-map-rebuild in the\n"
        "client.id. Ctrl-C changes nothing until writing begins, which is then completed.\n"
        "Exit codes: 0 written, or declined; 1 nothing to rebuild, or no answer; 2 wrong\n"
        "FILE or command line; 130 Ctrl-C.",
    ),
    "migrate-mm1": MIGRATE_COMMAND,
    "version": CliCommand(
        function="mm2.cli.version:version", example="mm2 version", help="Print the version, as mm2 --version does."
    ),
}

JAVA_NAME = "connect-mirror-maker"
JAVA_COMMAND = CliCommand(
    function="mm2.cli.run.run:connect_mirror_maker",
    parameters=(Parameter(names=("-daemon", "--daemon"), help="Detach from the terminal."), FILE, CLUSTERS),
    example=f"{JAVA_NAME} -daemon mm2.properties",
    help=f"Run one node, with the command line of Kafka's {JAVA_NAME}.sh.\n\n{NODE_HELP}\n"
    "With -daemon it detaches from the terminal, prints its process ID, and appends\n"
    "its output to mirrorMaker.out in LOG_DIR, or in the current directory if LOG_DIR\n"
    "is not set.",
)

CHECKER_NAME = "kafka-consumer-offset-checker"
CHECKER_COMMAND = CliCommand(
    function="mm2.cli.offset_checker.checker:check_offsets",
    parameters=(
        Parameter(names=("--group",), value="G", help="The consumer group.", required=True),
        Parameter(
            names=("--bootstrap-server",), value="S", help="Brokers, host:port[,host:port]: offsets are in Kafka."
        ),
        Parameter(
            names=("--zookeeper", "--zkconnect"),
            value="Z",
            keyword="zookeeper",
            help="ZooKeeper of the old consumer; default: localhost:2181.",
        ),
        Parameter(names=("--topic",), value="T,...", help="Only these topics; default: all of the group."),
        Parameter(names=("--broker-info",), help="Also print the brokers that lead the partitions."),
        Parameter(names=("--command-config",), value="FILE", help="Client properties, such as security.protocol."),
        Parameter(
            names=("--socket.timeout.ms",),
            value="MS",
            keyword="socket_timeout_ms",
            help="Request timeout; default: 6000.",
        ),
        Parameter(
            names=("--retry.backoff.ms",), value="MS", keyword="retry_backoff_ms", help="Retry backoff; default: 3000."
        ),
    ),
    example=f"{CHECKER_NAME} --group KafkaMirror --bootstrap-server b1:9092 --topic orders",
    help="Show offset, log size, lag and owner of each partition of a consumer group.\n\n"
    "It has the command line and the output of Kafka's ConsumerOffsetChecker, which\n"
    "Kafka no longer includes. With --bootstrap-server it reads groups in Kafka, of both\n"
    "protocols; with --zookeeper groups of the old consumer, and their offsets in Kafka\n"
    "if they have some there.\n"
    "Exit codes: 0 printed; 1 no such group, or no answer; 2 wrong command line.",
)
