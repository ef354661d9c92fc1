"""Checks of the settings of exactly-once against each other (KIP-618; Java: DistributedHerder's validation)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mm2.config.clients.client_reader import MOST_IDEMPOTENT_IN_FLIGHT
from mm2.config.grammar.problems import ProblemLog
from mm2.config.grammar.values import Properties, Value
from mm2.config.settings import FlowSettings
from mm2.core.lanes.lease import TransactionsLease
from mm2.core.settings.client import IsolationLevel

SOURCE_SUPPORT = "exactly.once.source.support"
SUPPORT = "exactly.once.support"
BOUNDARY = "transaction.boundary"
INTERVAL = "transaction.boundary.interval.ms"
TIMEOUT = "transaction.timeout.ms"


@dataclass(frozen=True, slots=True)
class ExactlyOnceChecks:
    """Checks one enabled flow. ``clients`` are the property maps of its clients, by `FlowClients` field."""

    connector: Properties
    worker: Properties
    clients: Mapping[str, Properties]
    settings: FlowSettings
    problems: ProblemLog

    def run(self) -> None:
        """Report the problems. Lines with invalid values are reported already."""
        transactions = self.settings.transactions
        if transactions is None:
            self._check_not_enabled()
            return
        self._check_isolation()
        self._check_idempotence()
        self._check_interval(transactions)

    @property
    def _required(self) -> bool:
        return self.settings.source.exactly_once_support == "required"

    def _check_not_enabled(self) -> None:
        if SOURCE_SUPPORT in self.worker and self._valid(self.worker, SOURCE_SUPPORT) is None:
            return
        target, support = self.settings.flow.target, self.settings.worker.exactly_once_source_support
        add = f"add {target}.{SOURCE_SUPPORT} = enabled"
        if SOURCE_SUPPORT in self.worker:
            add = f"write {target}.{SOURCE_SUPPORT} = enabled"
        if self._required:
            self.connector[SUPPORT].refuse(
                self.problems,
                f"{target}.{SOURCE_SUPPORT} is {support}, so Java does not start the flow, either",
                f"{add}, or remove this line if at-least-once is acceptable",
            )
        for name in (BOUNDARY, INTERVAL):
            if (line := self._valid(self.connector, name)) is not None:
                line.warn(
                    self.problems,
                    f"has no effect: {target}.{SOURCE_SUPPORT} is {support}",
                    f"{add}, or remove the line",
                )

    def _check_isolation(self) -> None:
        """As Java's MirrorSourceConnector.exactlyOnceSupport; without ``required``, Java accepts it silently."""
        flow, clients = self.settings.flow, self.clients
        if self.settings.clients.fetch.isolation_level is IsolationLevel.READ_COMMITTED:
            return
        line = clients["source_consumer"].get("isolation.level")
        if line is not None and line.entry is not None:
            fix = f"write {line.entry.key} = read_committed"
        else:
            fix = f"add {flow.source}.consumer.isolation.level = read_committed"
        rule = (
            f"records of aborted transactions of {flow.source} are copied too, and consumers of {flow.target} see them "
            "as committed: the source is read with isolation.level = read_uncommitted"
        )
        if self._required:
            self.connector[SUPPORT].refuse(
                self.problems, rule, f"{fix}, or remove this line if such copies are acceptable"
            )
        else:
            self.worker[SOURCE_SUPPORT].warn(self.problems, rule, fix)

    def _check_idempotence(self) -> None:
        """A transactional producer of Java has the same requirements."""
        producer = self.clients["record_producer"]
        if self.settings.clients.produce.idempotent:
            return
        for name, ok, needed in (
            ("acks", ("all", "-1"), "all"),
            ("enable.idempotence", ("true",), "true"),
            (
                "max.in.flight.requests.per.connection",
                tuple(map(str, range(MOST_IDEMPOTENT_IN_FLIGHT + 1))),
                f"at most {MOST_IDEMPOTENT_IN_FLIGHT}",
            ),
        ):
            line = self._valid(producer, name)
            if line is not None and line.text.strip().lower() not in ok:
                line.refuse(
                    self.problems,
                    f"must be {needed} while {self.settings.flow.target}.{SOURCE_SUPPORT} is enabled: transactions need"
                    " idempotence",
                    "remove the line",
                )

    def _check_interval(self, transactions: TransactionsLease) -> None:
        """Check that transactions are committed before the broker aborts them."""
        polls = self.settings.source.transaction_boundary == "poll"
        if polls and (line := self._valid(self.connector, INTERVAL)) is not None:
            line.warn(
                self.problems,
                "has no effect: transaction.boundary is poll, as in Java",
                f"add {self.settings.flow}.{BOUNDARY} = interval, or remove the line",
            )
        interval, timeout = transactions.interval_ms, transactions.timeout_ms
        if interval < timeout:
            return
        producer = self.clients["record_producer"]
        places = [] if polls else [(self.connector, INTERVAL), (self.worker, "offset.flush.interval.ms")]
        line = next(properties[name] for properties, name in [*places, (producer, TIMEOUT)] if name in properties)
        line.refuse(
            self.problems,
            f"transactions are committed every {interval} ms, but brokers abort them after {timeout} ms"
            f" ({TIMEOUT}), so nothing would be copied",
            f"write {self.settings.flow.target}.producer.{TIMEOUT} above {interval}"
            + ("" if polls else f", or {self.settings.flow}.{INTERVAL} below {timeout}"),
        )

    def _valid(self, properties: Properties, name: str) -> Value | None:
        """Return the line of a property, unless there is none or it has an error already."""
        value = properties.get(name)
        if value is None or value.entry is None or self.problems.has_error_at(value.entry):
            return None
        return value
