"""A function of a user for `A->B.mm2.sql.own.transform`."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


def shout(records: DataFrame) -> Mapping[str, Column]:
    """Write values in capitals, and drop records without a key."""
    return {"value": F.upper(F.col("Value").cast("string")), "where": records["KEY"].isNotNull()}
