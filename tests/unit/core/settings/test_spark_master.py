"""Values of spark.master, and where lanes run with them."""

from __future__ import annotations

import pytest

from mm2.core.settings.spark_master import is_loopback, read_master


@pytest.mark.parametrize("url", ["local", "local[2]", "local[*]", "local[2,4]", "local[*, 4]", " local[1] "])
def test_local_masters(url: str) -> None:
    master = read_master(url)
    assert (master.elsewhere, master.is_cluster, master.addresses) == (False, False, ())


@pytest.mark.parametrize(
    ("url", "threads"), [("local", 1), ("local[2]", 2), ("local[3, 4]", 3), ("local[*]", None), ("yarn", None)]
)
def test_the_lanes_that_a_local_master_runs_at_the_same_time(url: str, threads: int | None) -> None:
    assert read_master(url).threads == threads


@pytest.mark.parametrize("url", ["yarn", "k8s://https://api:6443", "k8s://https://127.0.0.1:6443", "k8s://api"])
def test_cluster_masters(url: str) -> None:
    master = read_master(url)
    assert (master.elsewhere, master.is_cluster, master.addresses) == (True, True, ())


@pytest.mark.parametrize(
    ("url", "addresses", "elsewhere"),
    [
        ("spark://spark:7077", (("spark", 7077),), True),
        ("spark://s1:7077,s2:7078", (("s1", 7077), ("s2", 7078)), True),
        ("spark://[fd00::2]:7077", (("fd00::2", 7077),), True),
        ("spark://127.0.0.1:7077", (("127.0.0.1", 7077),), False),
        ("spark://[::1]:7077,localhost:7077", (("::1", 7077), ("localhost", 7077)), False),
        ("spark://localhost:7077,s2:7077", (("localhost", 7077), ("s2", 7077)), True),
    ],
)
def test_standalone_masters(url: str, addresses: tuple[tuple[str, int], ...], elsewhere: bool) -> None:
    master = read_master(url)
    assert (master.addresses, master.elsewhere, master.is_cluster) == (addresses, elsewhere, True)


@pytest.mark.parametrize(
    "url", ["", "spark", "spark://", "spark://host", "spark://a:1,", "mesos://a:5050", "local[x]", "k8s://", "sc://a:1"]
)
def test_other_values_are_rejected(url: str) -> None:
    with pytest.raises(ValueError, match="must be local"):
        read_master(url)


def test_loopback_addresses() -> None:
    assert all(map(is_loopback, ["localhost", "LOCALHOST", "127.0.0.1", "127.8.9.1", "::1"]))
    assert not any(map(is_loopback, ["", "0.0.0.0", "10.0.0.1", "node-1", "127.example.org"]))
