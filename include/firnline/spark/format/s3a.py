"""Tells Spark's S3 connector the endpoint and region of a store that is not Amazon's.

A session that names no endpoint would look for the bucket at Amazon, and one that names no region
would sign its requests for us-east-2, which other stores refuse (400).
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from firnline.spark.tasks import is_connect
from firnline.store.access import StoreAccess
from firnline.store.connect import DEFAULT_REGION

_HADOOP_DEFAULTS = "core-default.xml"
"""Hadoop's name for the source of its own default values."""


def s3a_options(spark: SparkSession, bucket: str, access: StoreAccess) -> dict[str, str]:
    """Return options of a read from a bucket: endpoint, region and addressing, never a key.

    Only what the session, or Hadoop's configuration, does not state itself; nothing for a session
    that reads the bucket from another endpoint. A Connect server's configuration is its own, since
    an endpoint of this machine may have another name there.

    Args:
        spark: session that reads.
        bucket: name of the bucket.
        access: by which firnline reads it; without an endpoint it is Amazon's, which the connector
            finds by itself.
    """
    if access.endpoint is None or is_connect(spark):
        return {}
    endpoint = access.endpoint.rstrip("/")
    ours = {
        "endpoint": endpoint,
        "endpoint.region": access.region or DEFAULT_REGION,
        "path.style.access": str(access.path_style).lower(),
    }
    stated = {name: value for name in ours if (value := _stated(spark, bucket, name))}
    if stated.get("endpoint", endpoint).rstrip("/") not in (endpoint, endpoint.partition("://")[2]):
        return {}
    return {f"fs.s3a.{name}": value for name, value in ours.items() if name not in stated}


def _stated(spark: SparkSession, bucket: str, name: str) -> str | None:
    """Return what was configured for a bucket or for all; None where that is Hadoop's default."""
    hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001 -- no other door
    for key in (f"fs.s3a.bucket.{bucket}.{name}", f"fs.s3a.{name}"):
        # Set while the session runs, by which reads go first.
        for own in (key, f"spark.hadoop.{key}"):
            if value := spark.conf.get(own, None):
                return value
        if list(hadoop.getPropertySources(key) or ()) not in ([], [_HADOOP_DEFAULTS]):
            found: str | None = hadoop.get(key)
            return found
    return None
