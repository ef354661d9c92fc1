"""Keys of Java's worker and connectors that mean nothing here, and why. They are accepted: the same file runs there."""

from __future__ import annotations

from collections.abc import Mapping

_BYTES = "keys, values and headers are copied as bytes"
_JAVA_CODE = "it names Java classes, and this is not Java"
_METRICS = "metrics are Prometheus's, on GET /metrics"
_PLUGINS = "there are no Connect plugins here"
_TASKS = "a slot retries by itself, and what cannot be retried stops its partition only"
_GROUP = "nodes share out slots by a protocol of their own"

CONNECTOR: Mapping[str, str] = {
    "config.action.reload": "a node watches the files that references lead to, and starts a flow again itself",
    "config.providers": "references are replaced when the file is read",
    "connector.class": "a flow always has the same three connectors",
    "connector.plugin.version": _PLUGINS,
    "errors.log.enable": _TASKS,
    "errors.log.include.messages": _TASKS,
    "errors.retry.delay.max.ms": _TASKS,
    "errors.retry.timeout": _TASKS,
    "consumer.poll.timeout.ms": "fetches wait at the broker, see fetch.max.wait.ms",
    "header.converter": _BYTES,
    "header.converter.plugin.version": _BYTES,
    "key.converter": _BYTES,
    "key.converter.plugin.version": _BYTES,
    "metric.names.formats": f"{_METRICS}, with one kind of names",
    "metric.reporters": _METRICS,
    "name": "connectors keep Java's default names, under which offsets are stored",
    "source.cluster.alias": "a flow's name says it",
    "target.cluster.alias": "a flow's name says it",
    "tasks.max.enforce": "there are never more slots than tasks.max",
    "value.converter": _BYTES,
    "value.converter.plugin.version": _BYTES,
}

WORKER: Mapping[str, str] = {
    "access.control.allow.methods": "REST is the node's, not the worker's",
    "access.control.allow.origin": "REST is the node's, not the worker's",
    "admin.listeners": "REST is the node's, not the worker's",
    "client.dns.lookup": "a name is tried with the addresses it resolves to",
    "config.providers": "references are replaced when the file is read",
    "connect.protocol": _GROUP,
    "connector.client.config.override.policy": "all overrides are allowed, as in dedicated mode",
    "header.converter": _BYTES,
    "header.converter.plugin.version": _BYTES,
    "key.converter": _BYTES,
    "key.converter.plugin.version": _BYTES,
    "listeners": "REST is the node's, not the worker's: write listeners",
    "metadata.recovery.rebootstrap.trigger.ms": "clients go back to bootstrap.servers when no broker answers",
    "metadata.recovery.strategy": "clients always go back to bootstrap.servers",
    "metric.reporters": _METRICS,
    "metrics.num.samples": _METRICS,
    "metrics.recording.level": _METRICS,
    "metrics.sample.window.ms": _METRICS,
    "offset.flush.timeout.ms": "source offsets are written until it works, and records do not wait for that",
    "plugin.discovery": _PLUGINS,
    "plugin.path": _PLUGINS,
    "receive.buffer.bytes": "the operating system sizes socket buffers",
    "response.http.headers.config": "REST is the node's, not the worker's",
    "rest.advertised.host.name": "REST is the node's, not the worker's",
    "rest.advertised.listener": "REST is the node's, not the worker's",
    "rest.advertised.port": "REST is the node's, not the worker's",
    "rest.extension.classes": _JAVA_CODE,
    "send.buffer.bytes": "the operating system sizes socket buffers",
    "socket.connection.setup.timeout.max.ms": "request.timeout.ms bounds connecting too",
    "socket.connection.setup.timeout.ms": "request.timeout.ms bounds connecting too",
    "ssl.client.auth": "REST is the node's, not the worker's",
    "topic.creation.enable": "remote topics are always created by the flow",
    "topic.tracking.allow.reset": "no command resets the list of topics",
    "value.converter": _BYTES,
    "value.converter.plugin.version": _BYTES,
    "worker.sync.timeout.ms": _GROUP,
    "worker.unsync.backoff.ms": _GROUP,
}
