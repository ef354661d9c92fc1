"""The parsed value of ``spark.master``: where Spark runs lanes.

local | local[N] | local[N,F]        in the engine's own JVM; N may be *
spark://host:port[,host:port…]       a standalone cluster; several masters, one of them active
yarn                                 the cluster of HADOOP_CONF_DIR or YARN_CONF_DIR
k8s://[http[s]://]host[:port][/path] Kubernetes, by the URL of its API server
"""

from __future__ import annotations

import re
from dataclasses import dataclass

FORMS = "local[4], spark://host:7077, yarn, or k8s://https://host:6443"

_LOCAL = re.compile(r"local(\[(?P<threads>\*|[0-9]+)\s*(,\s*[0-9]+)?\])?")
_STANDALONE = re.compile(r"spark://(?P<addresses>.+)")
_ADDRESS = re.compile(r"(?:\[(?P<ipv6>[0-9a-fA-F:.%]+)\]|(?P<host>[0-9a-zA-Z._-]+)):(?P<port>[0-9]{1,5})")
_ELSEWHERE = re.compile(r"yarn|k8s://.+")
_LOOPBACK = re.compile(r"localhost|127\.[0-9.]+|::1", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkMaster:
    """``addresses``: hosts and ports of a standalone cluster's masters. ``elsewhere``: lanes can run on other machines
    than the node. ``threads``: N of local[N], the number of lanes that run at the same time, 1 for local; None: as many
    as the machine has cores, or a cluster."""

    url: str
    elsewhere: bool
    addresses: tuple[tuple[str, int], ...] = ()
    threads: int | None = None

    @property
    def is_cluster(self) -> bool:
        """Whether the engine requests executors, instead of running lanes in its own JVM."""
        return self.elsewhere or bool(self.addresses)


def read_master(text: str) -> SparkMaster:
    """Parse ``text``. Raises ValueError, with the rule, if it is not a Spark master.

    A standalone master on a loopback address is not ``elsewhere``: only workers on this machine can reach it.
    """
    url = text.strip()
    if (local := _LOCAL.fullmatch(url)) is not None:
        threads = local["threads"] or "1"
        return SparkMaster(url=url, elsewhere=False, threads=None if threads == "*" else int(threads))
    if _ELSEWHERE.fullmatch(url):
        return SparkMaster(url=url, elsewhere=True)
    standalone = _STANDALONE.fullmatch(url)
    found = [] if standalone is None else [_ADDRESS.fullmatch(one) for one in standalone["addresses"].split(",")]
    addresses = tuple((match["ipv6"] or match["host"], int(match["port"])) for match in found if match is not None)
    if not found or len(addresses) < len(found):
        raise ValueError(f"must be {FORMS}")
    return SparkMaster(url=url, elsewhere=not all(is_loopback(host) for host, _ in addresses), addresses=addresses)


def is_loopback(host: str) -> bool:
    """Return whether ``host`` is a loopback address or name."""
    return _LOOPBACK.fullmatch(host) is not None
