"""The data plane, which runs inside Spark. The node starts it as ``python -m flows.engine``.

`flows.engine` keeps one Spark job per lane running; `flows.lane` runs the source tasks of a lane. In a source task a
batch takes these steps from the fetch response to the committed offset:

1. ``BrokerFetcher`` (source/broker_fetcher.py) receives the response and passes each partition its part:
   ``PartitionReplicator.fetched``.
2. ``PartitionReplicator`` (partition/replicator.py) reads the batches (``read_completed_fetch``), queues them, and
   reports that it has something to send: ``Producer.update``.
3. ``Producer`` (target/producer.py) offers the partition to the ``BrokerProducer`` of its leader, in the same file.
4. ``BrokerProducer`` fills its next request with one batch of each partition offered:
   ``PartitionReplicator.next_batch``.
5. ``PartitionReplicator`` packs fetched batches into one for the target (``Packer``: passed through, merged or split),
   and ``InFlightBatches.send`` (partition/in_flight.py) assigns its sequence and producer id.
6. ``BrokerProducer`` sends the request and reports the result of each batch: ``PartitionReplicator.acknowledged``, or
   ``produce_failed``.
7. ``PartitionReplicator`` gets the batches that are now acknowledged without a gap (``InFlightBatches.acknowledged``),
   moves its position, and reports each: ``OffsetCommitter.acknowledged`` (commit/offset_committer.py).
8. ``OffsetCommitter`` stores the exact offsets and then the source offset of all partitions that moved, once per flush
   interval, and reports it: ``PartitionReplicator.committed``.

With exactly-once (`flows.transaction`), step 4 waits until the partition is part of the open transaction
(``Transactions.admits``); ``TransactionCommitter`` (commit/transaction_committer.py) takes the place of
``OffsetCommitter``, and in step 8 source and exact offsets are written in the same transaction, every 100 ms.

In a SQL lane, what step 2 reads passes through the lane's query (`flows.sql`) and comes back as
``PartitionReplicator.transformed`` before it is queued.

``PartitionReplicator`` is the only owner of a partition's state (partition/state.py), which says in one place what each
side of it waits for; it has no I/O and no clock. `flows.source_task`
connects the parts. They use two kinds of pure functions: `flows.batch` for batches, `flows.source.completed_fetch` for
fetch responses.
"""
