package org.apache.kafka.connect.mirror;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractPartitionAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.HeartbeatRequestData;
import org.apache.kafka.common.message.HeartbeatResponseData;
import org.apache.kafka.common.message.JoinGroupRequestData;
import org.apache.kafka.common.message.JoinGroupResponseData;
import org.apache.kafka.common.message.OffsetCommitRequestData;
import org.apache.kafka.common.message.OffsetCommitResponseData;
import org.apache.kafka.common.message.SyncGroupRequestData;
import org.apache.kafka.common.message.SyncGroupResponseData;
import org.apache.kafka.common.protocol.ApiKeys;

/**
 * Lets Java's consumer encode what members of a consumer group send, and two of its assignors assign partitions.
 *
 * <p>Compiled and run together with GoldenVectors.
 */
public final class ConsumerVectors {
    private static final String LONG_NAME = "x".repeat(249);
    private static final byte[] METADATA = {0, 0, 1, 2};

    private ConsumerVectors() { }

    public static void main(String[] args) throws Exception {
        Map<String, List<?>> files = new LinkedHashMap<>();
        files.put("consumer-protocol", messages());
        files.put("range-assignments", assignments(new RangeAssignor()));
        files.put("round-robin-assignments", assignments(new RoundRobinAssignor()));
        files.put("membership-requests", requests());
        GoldenVectors.write(args, files);
    }

    private static List<Object> messages() {
        List<Object> all = new ArrayList<>();
        List<TopicPartition> none = List.of();
        List<TopicPartition> some = List.of(new TopicPartition("a", 0), new TopicPartition("a", 7),
            new TopicPartition("gr\u00f6\u00dfe", 2_147_483_647));
        for (List<String> topics : List.of(List.<String>of(), List.of("a"), List.of("b", "a.b", "gr\u00f6\u00dfe", LONG_NAME)))
            for (short version = 0; version <= 3; version++) {
                all.add(subscription(version, new Subscription(topics)));
                all.add(subscription(version, new Subscription(topics, ByteBuffer.wrap(METADATA), some, 5,
                    Optional.of("rack-1"))));
            }
        for (List<TopicPartition> partitions : List.of(none, some))
            for (short version = 0; version <= 3; version++) {
                all.add(assignment(version, new Assignment(partitions)));
                all.add(assignment(version, new Assignment(partitions, ByteBuffer.wrap(METADATA))));
            }
        return all;
    }

    private static Object subscription(short version, Subscription subscription) {
        return Map.of("kind", "subscription", "version", version, "topics", subscription.topics(), "user_data",
            subscription.userData() != null, "bytes", hex(ConsumerProtocol.serializeSubscription(subscription, version)));
    }

    private static Object assignment(short version, Assignment assignment) {
        return Map.of("kind", "assignment", "version", version, "partitions", listed(assignment.partitions()), "user_data",
            assignment.userData() != null, "bytes", hex(ConsumerProtocol.serializeAssignment(assignment, version)));
    }

    private static List<Object> assignments(AbstractPartitionAssignor assignor) {
        List<Object> all = new ArrayList<>();
        all.add(assigned(assignor, Map.of("t", 3), Map.of("m1", List.of("t"), "m2", List.of("t")), Map.of()));
        all.add(assigned(assignor, Map.of("t", 3), Map.of("m1", List.of("t"), "m2", List.of("t")), Map.of("m2", "i")));
        all.add(assigned(assignor, Map.of("t", 5), Map.of("m1", List.of("t"), "m2", List.of("t"), "m3", List.of("t")),
            Map.of("m1", "z", "m3", "y")));
        all.add(assigned(assignor, Map.of("t", 2), Map.of("m1", List.of("t", "gone"), "m2", List.of("t"), "m3", List.of("t")),
            Map.of()));
        all.add(assigned(assignor, Map.of("t", 2), Map.of("m1", List.of(), "m2", List.of("other")), Map.of()));
        all.add(assigned(assignor, Map.of("t", 2, "\ud83d\ude00", 3, "\uffee", 3),
            Map.of("a", List.of("t", "\uffee", "\ud83d\ude00"), "b", List.of("t", "\uffee")), Map.of()));
        all.add(assigned(assignor, Map.of("t", 2), Map.of("\ud83d\ude00", List.of("t"), "\uffee", List.of("t")), Map.of()));
        Random random = new Random(1);
        for (int round = 0; round < 60; round++) {
            List<String> topics = new ArrayList<>();
            Map<String, Integer> counts = new TreeMap<>();
            for (int topic = 0; topic < 1 + random.nextInt(4); topic++) {
                topics.add("t" + topic);
                if (random.nextInt(8) > 0)
                    counts.put("t" + topic, 1 + random.nextInt(12));
            }
            Map<String, List<String>> subscribed = new TreeMap<>();
            Map<String, String> instances = new TreeMap<>();
            for (int member = 0; member < 1 + random.nextInt(5); member++) {
                String id = "c-" + random.nextInt(3) + "-" + Integer.toHexString(random.nextInt());
                List<String> own = new ArrayList<>(topics);
                own.removeIf(topic -> random.nextInt(4) == 0);
                subscribed.put(id, own);
                if (random.nextInt(3) == 0)
                    instances.put(id, "i" + random.nextInt(1_000) + "-" + member);
            }
            all.add(assigned(assignor, counts, subscribed, instances));
        }
        return all;
    }

    private static Object assigned(AbstractPartitionAssignor assignor, Map<String, Integer> counts,
                                   Map<String, List<String>> topics, Map<String, String> instances) {
        Map<String, Subscription> subscriptions = new HashMap<>();
        topics.forEach((member, own) -> {
            Subscription subscription = new Subscription(own);
            subscription.setGroupInstanceId(Optional.ofNullable(instances.get(member)));
            subscriptions.put(member, subscription);
        });
        Map<String, Object> assignment = new TreeMap<>();
        assignor.assign(counts, subscriptions).forEach((member, own) -> assignment.put(member, listed(own)));
        return Map.of("counts", counts, "topics", topics, "instances", instances, "assignment", assignment);
    }

    private static List<String> listed(List<TopicPartition> partitions) {
        return new ArrayList<>(new TreeSet<>(partitions.stream().map(TopicPartition::toString).toList()));
    }

    private static List<Object> requests() {
        List<Object> all = new ArrayList<>();
        GroupVectors.add(all, ApiKeys.JOIN_GROUP, new int[] {2, 3, 4, 5, 6, 7, 8, 9},
            v -> new JoinGroupRequestData().setGroupId("gr\u00f6\u00dfe").setSessionTimeoutMs(45_000)
                .setRebalanceTimeoutMs(300_000).setMemberId("m1").setGroupInstanceId(v < 5 ? null : "i1")
                .setProtocolType("consumer").setProtocols(new JoinGroupRequestData.JoinGroupRequestProtocolCollection(
                    List.of(new JoinGroupRequestData.JoinGroupRequestProtocol().setName("range").setMetadata(METADATA))
                        .iterator())),
            v -> new JoinGroupResponseData().setThrottleTimeMs(9).setErrorCode((short) 79).setGenerationId(7)
                .setProtocolType("consumer").setProtocolName("range").setLeader("m1").setSkipAssignment(v >= 9)
                .setMemberId("m1").setMembers(List.of(
                    new JoinGroupResponseData.JoinGroupResponseMember().setMemberId("m1").setGroupInstanceId("i1")
                        .setMetadata(METADATA),
                    new JoinGroupResponseData.JoinGroupResponseMember().setMemberId("m2").setMetadata(new byte[0]))));
        GroupVectors.add(all, ApiKeys.SYNC_GROUP, new int[] {1, 2, 3, 4, 5},
            v -> new SyncGroupRequestData().setGroupId("gr\u00f6\u00dfe").setGenerationId(7).setMemberId("m1")
                .setGroupInstanceId(v < 3 ? null : "i1").setProtocolType("consumer").setProtocolName("range")
                .setAssignments(List.of(new SyncGroupRequestData.SyncGroupRequestAssignment().setMemberId("m1")
                    .setAssignment(METADATA))),
            v -> new SyncGroupResponseData().setThrottleTimeMs(9).setErrorCode((short) 27).setProtocolType("consumer")
                .setProtocolName("range").setAssignment(METADATA));
        GroupVectors.add(all, ApiKeys.HEARTBEAT, new int[] {1, 2, 3, 4},
            v -> new HeartbeatRequestData().setGroupId("gr\u00f6\u00dfe").setGenerationId(7).setMemberId("m1")
                .setGroupInstanceId(v < 3 ? null : "i1"),
            v -> new HeartbeatResponseData().setThrottleTimeMs(9).setErrorCode((short) 27));
        GroupVectors.add(all, ApiKeys.OFFSET_COMMIT, new int[] {2, 3, 4, 5, 6, 7, 8, 9},
            v -> new OffsetCommitRequestData().setGroupId("gr\u00f6\u00dfe").setGenerationIdOrMemberEpoch(7).setMemberId("m1")
                .setGroupInstanceId(v < 7 ? null : "i1").setTopics(List.of(new OffsetCommitRequestData.OffsetCommitRequestTopic()
                    .setName("t1").setPartitions(List.of(
                        new OffsetCommitRequestData.OffsetCommitRequestPartition().setPartitionIndex(0)
                            .setCommittedOffset(5_000_000_000L).setCommittedMetadata(""),
                        new OffsetCommitRequestData.OffsetCommitRequestPartition().setPartitionIndex(3)
                            .setCommittedOffset(1).setCommittedMetadata(""))))),
            v -> new OffsetCommitResponseData().setThrottleTimeMs(9).setTopics(List.of(
                new OffsetCommitResponseData.OffsetCommitResponseTopic().setName("t1").setPartitions(List.of(
                    new OffsetCommitResponseData.OffsetCommitResponsePartition().setPartitionIndex(0),
                    new OffsetCommitResponseData.OffsetCommitResponsePartition().setPartitionIndex(3)
                        .setErrorCode((short) 22))))));
        return all;
    }

    private static String hex(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return HexFormat.of().formatHex(bytes);
    }
}
