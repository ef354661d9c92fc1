"""Spark's daemon for local mode: it forks the Python worker of each lane with our modules already imported.

``spark.python.daemon.module`` names it instead of ``pyspark.daemon``. So a lane starts half a second of CPU sooner,
also after a fault, and all lanes share the memory of the modules. pyarrow is left to SQL lanes: its import starts
threads, which do not survive a fork.
"""

from __future__ import annotations

import gc

from pyspark.daemon import manager

if __name__ == "__main__":
    gc.disable()
    import flows.lane.lane_runner
    import flows.spark.lane_task  # noqa: F401

    gc.freeze()  # a collection in a lane would otherwise write to, and so copy, the pages of these modules
    gc.enable()
    manager()
