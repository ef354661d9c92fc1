"""Keys of Java's worker and connectors that have no effect, and why. Accepted so that Java can use the file."""

from __future__ import annotations

from collections.abc import Mapping

_BYTES = "keys, values and headers are copied as bytes"
_JAVA_CODE = "Java classes cannot be loaded"
_METRICS = "metrics are served in Prometheus format on GET /metrics"
_PLUGINS = "Connect plugins are not used"
_TASKS = "a source task retries, and every other error is logged and shown; see errors.tolerance"
_GROUP = "source tasks are assigned with mm2's own protocol"

CONNECTOR: Mapping[str, str] = {
    "config.action.reload": "a node watches the files of references, and restarts a flow itself",
    "config.providers": "references are replaced when the file is read",
    "connector.class": "connectors are fixed",
    "connector.plugin.version": _PLUGINS,
    "errors.log.enable": _TASKS,
    "errors.log.include.messages": _TASKS,
    "errors.retry.delay.max.ms": _TASKS,
    "errors.retry.timeout": _TASKS,
    "consumer.poll.timeout.ms": "the broker delays fetches, see fetch.max.wait.ms",
    "header.converter": _BYTES,
    "header.converter.plugin.version": _BYTES,
    "key.converter": _BYTES,
    "key.converter.plugin.version": _BYTES,
    "metric.names.formats": f"{_METRICS}, with one set of names",
    "metric.reporters": _METRICS,
    "name": "connectors keep Java's default names, which offsets are stored under",
    "tasks.max.enforce": "there are never more source tasks than tasks.max",
    "value.converter": _BYTES,
    "value.converter.plugin.version": _BYTES,
}

WORKER: Mapping[str, str] = {
    "access.control.allow.methods": "the REST interface belongs to the node",
    "access.control.allow.origin": "the REST interface belongs to the node",
    "admin.listeners": "the REST interface belongs to the node",
    "client.dns.lookup": "all addresses of a host name are tried",
    "config.providers": "references are replaced when the file is read",
    "connect.protocol": _GROUP,
    "connector.client.config.override.policy": "all overrides are allowed, as in dedicated mode",
    "header.converter": _BYTES,
    "header.converter.plugin.version": _BYTES,
    "key.converter": _BYTES,
    "key.converter.plugin.version": _BYTES,
    "listeners": "the REST interface belongs to the node: write listeners",
    "metadata.recovery.rebootstrap.trigger.ms": "clients return to bootstrap.servers when no broker responds",
    "metadata.recovery.strategy": "clients always return to bootstrap.servers",
    "metric.reporters": _METRICS,
    "metrics.num.samples": _METRICS,
    "metrics.recording.level": _METRICS,
    "metrics.sample.window.ms": _METRICS,
    "offset.flush.timeout.ms": "writing source offsets is retried until it succeeds, and does not block records",
    "plugin.discovery": _PLUGINS,
    "plugin.path": "classes of your own are Python modules, which are found on PYTHONPATH",
    "receive.buffer.bytes": "the operating system sets the size of socket buffers",
    "response.http.headers.config": "the REST interface belongs to the node",
    "rest.advertised.host.name": "the REST interface belongs to the node",
    "rest.advertised.listener": "the REST interface belongs to the node",
    "rest.advertised.port": "the REST interface belongs to the node",
    "rest.extension.classes": _JAVA_CODE,
    "send.buffer.bytes": "the operating system sets the size of socket buffers",
    "socket.connection.setup.timeout.max.ms": "request.timeout.ms also limits connecting",
    "socket.connection.setup.timeout.ms": "request.timeout.ms also limits connecting",
    "ssl.client.auth": "the REST interface belongs to the node",
    "topic.creation.enable": "remote topics are always created by the flow",
    "topic.tracking.allow.reset": "there is no command to reset the list of topics",
    "value.converter": _BYTES,
    "value.converter.plugin.version": _BYTES,
    "worker.sync.timeout.ms": _GROUP,
    "worker.unsync.backoff.ms": _GROUP,
}
