package org.apache.kafka.connect.mirror;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.function.IntFunction;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.ConsumerGroupDescribeRequestData;
import org.apache.kafka.common.message.ConsumerGroupDescribeResponseData;
import org.apache.kafka.common.message.DescribeGroupsRequestData;
import org.apache.kafka.common.message.DescribeGroupsResponseData;
import org.apache.kafka.common.message.FindCoordinatorRequestData;
import org.apache.kafka.common.message.FindCoordinatorResponseData;
import org.apache.kafka.common.message.ListGroupsRequestData;
import org.apache.kafka.common.message.ListGroupsResponseData;
import org.apache.kafka.common.message.OffsetFetchRequestData;
import org.apache.kafka.common.message.OffsetFetchResponseData;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.MessageUtil;

/**
 * Lets Kafka's own classes encode the requests and answers about groups that mm2.kafka encodes and decodes by itself.
 *
 * <p>Compiled and run together with GoldenVectors.
 */
public final class GroupVectors {
    private static final List<String> NAMES = List.of("a,b", "", " ", "gr\u00f6\u00dfe", "x".repeat(200));

    private GroupVectors() { }

    public static void main(String[] args) throws Exception {
        List<Object> all = new ArrayList<>();
        add(all, ApiKeys.FIND_COORDINATOR, new int[] {4}, v -> new FindCoordinatorRequestData().setKeyType((byte) 0)
            .setCoordinatorKeys(NAMES), v -> coordinators());
        add(all, ApiKeys.LIST_GROUPS, new int[] {0, 1, 2, 3, 4, 5}, v -> new ListGroupsRequestData(), v -> listed());
        add(all, ApiKeys.DESCRIBE_GROUPS, new int[] {0, 1, 2}, v -> new DescribeGroupsRequestData().setGroups(NAMES),
            v -> classic());
        add(all, ApiKeys.CONSUMER_GROUP_DESCRIBE, new int[] {0},
            v -> new ConsumerGroupDescribeRequestData().setGroupIds(NAMES), v -> described());
        add(all, ApiKeys.OFFSET_FETCH, new int[] {2, 3, 4, 5}, v -> new OffsetFetchRequestData().setGroupId("a,b")
            .setTopics(null), v -> new OffsetFetchResponseData().setErrorCode((short) 16).setTopics(topics()));
        add(all, ApiKeys.OFFSET_FETCH, new int[] {8}, v -> new OffsetFetchRequestData().setGroups(NAMES.stream()
            .map(name -> new OffsetFetchRequestData.OffsetFetchRequestGroup().setGroupId(name).setTopics(null)).toList()),
            v -> fetched());
        GoldenVectors.write(args, Map.of("group-requests", all));
    }

    static void add(List<Object> all, ApiKeys key, int[] versions, IntFunction<ApiMessage> request,
                            IntFunction<ApiMessage> answer) {
        for (int version : versions) {
            short exact = (short) version;
            ApiMessage header = new RequestHeaderData().setRequestApiKey(key.id).setRequestApiVersion(exact)
                .setCorrelationId(7).setClientId("mm2");
            all.add(Map.of("api", key.id, "version", version,
                "request_header", hex(header, key.requestHeaderVersion(exact)),
                "request", hex(request.apply(version), exact),
                "answer_header", hex(new ResponseHeaderData().setCorrelationId(7), key.responseHeaderVersion(exact)),
                "answer", hex(answer.apply(version), exact)));
        }
    }

    private static String hex(ApiMessage message, short version) {
        ByteBuffer buffer = MessageUtil.toByteBufferAccessor(message, version).buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    private static ApiMessage coordinators() {
        return new FindCoordinatorResponseData().setThrottleTimeMs(9).setCoordinators(List.of(
            new FindCoordinatorResponseData.Coordinator().setKey("a,b").setNodeId(2).setHost("broker-2").setPort(9092)
                .setErrorCode((short) 0).setErrorMessage(null),
            new FindCoordinatorResponseData.Coordinator().setKey("gr\u00f6\u00dfe").setNodeId(-1).setHost("").setPort(-1)
                .setErrorCode((short) 30).setErrorMessage("no")));
    }

    private static ApiMessage listed() {
        return new ListGroupsResponseData().setThrottleTimeMs(9).setErrorCode((short) 14).setGroups(List.of(
            new ListGroupsResponseData.ListedGroup().setGroupId("a,b").setProtocolType("consumer").setGroupState("Stable")
                .setGroupType("consumer"),
            new ListGroupsResponseData.ListedGroup().setGroupId("").setProtocolType("").setGroupState("Empty")
                .setGroupType("classic"),
            new ListGroupsResponseData.ListedGroup().setGroupId("gr\u00f6\u00dfe").setProtocolType("share")
                .setGroupState("").setGroupType("share")));
    }

    private static ApiMessage classic() {
        return new DescribeGroupsResponseData().setThrottleTimeMs(9).setGroups(List.of(
            new DescribeGroupsResponseData.DescribedGroup().setGroupId("a,b").setGroupState("Stable")
                .setProtocolType("consumer").setProtocolData("range").setMembers(List.of(
                    new DescribeGroupsResponseData.DescribedGroupMember().setMemberId("m1").setClientId("c1")
                        .setClientHost("/127.0.0.1").setMemberMetadata(new byte[300]).setMemberAssignment(new byte[700]),
                    new DescribeGroupsResponseData.DescribedGroupMember().setMemberId("m2"))),
            new DescribeGroupsResponseData.DescribedGroup().setGroupId("").setErrorCode((short) 30),
            new DescribeGroupsResponseData.DescribedGroup().setGroupId("gr\u00f6\u00dfe").setGroupState("Dead")));
    }

    private static ApiMessage described() {
        ConsumerGroupDescribeResponseData.Assignment assignment = new ConsumerGroupDescribeResponseData.Assignment()
            .setTopicPartitions(List.of(
                new ConsumerGroupDescribeResponseData.TopicPartitions().setTopicId(new Uuid(1, 2)).setTopicName("t1")
                    .setPartitions(List.of(0, 1, 2)),
                new ConsumerGroupDescribeResponseData.TopicPartitions().setTopicId(new Uuid(3, 4)).setTopicName("t2")
                    .setPartitions(List.of())));
        ConsumerGroupDescribeResponseData.Member full = new ConsumerGroupDescribeResponseData.Member().setMemberId("m1")
            .setInstanceId("i1").setRackId("r1").setMemberEpoch(3).setClientId("c1").setClientHost("/127.0.0.1")
            .setSubscribedTopicNames(List.of("t1", "t2")).setSubscribedTopicRegex("t.*").setAssignment(assignment)
            .setTargetAssignment(assignment);
        ConsumerGroupDescribeResponseData.Member bare = new ConsumerGroupDescribeResponseData.Member().setMemberId("m2")
            .setClientId("").setClientHost("");
        return new ConsumerGroupDescribeResponseData().setThrottleTimeMs(9).setGroups(List.of(
            new ConsumerGroupDescribeResponseData.DescribedGroup().setGroupId("a,b").setGroupState("Stable")
                .setGroupEpoch(4).setAssignmentEpoch(3).setAssignorName("uniform").setMembers(List.of(full, bare)),
            new ConsumerGroupDescribeResponseData.DescribedGroup().setGroupId("").setErrorCode((short) 69)
                .setErrorMessage("Group  not found."),
            new ConsumerGroupDescribeResponseData.DescribedGroup().setGroupId("gr\u00f6\u00dfe").setGroupState("Empty")));
    }

    private static List<OffsetFetchResponseData.OffsetFetchResponseTopic> topics() {
        return List.of(
            new OffsetFetchResponseData.OffsetFetchResponseTopic().setName("t1").setPartitions(List.of(
                new OffsetFetchResponseData.OffsetFetchResponsePartition().setPartitionIndex(0)
                    .setCommittedOffset(5_000_000_000L).setCommittedLeaderEpoch(7).setMetadata("m\u00e9"),
                new OffsetFetchResponseData.OffsetFetchResponsePartition().setPartitionIndex(3)
                    .setCommittedOffset(-1).setMetadata(null))),
            new OffsetFetchResponseData.OffsetFetchResponseTopic().setName("t2").setPartitions(List.of(
                new OffsetFetchResponseData.OffsetFetchResponsePartition().setPartitionIndex(1).setCommittedOffset(0)
                    .setMetadata(""))));
    }

    private static ApiMessage fetched() {
        return new OffsetFetchResponseData().setThrottleTimeMs(9).setGroups(List.of(
            new OffsetFetchResponseData.OffsetFetchResponseGroup().setGroupId("a,b").setTopics(List.of(
                new OffsetFetchResponseData.OffsetFetchResponseTopics().setName("t1").setPartitions(List.of(
                    new OffsetFetchResponseData.OffsetFetchResponsePartitions().setPartitionIndex(0)
                        .setCommittedOffset(5_000_000_000L).setCommittedLeaderEpoch(7).setMetadata("m\u00e9"),
                    new OffsetFetchResponseData.OffsetFetchResponsePartitions().setPartitionIndex(3)
                        .setCommittedOffset(-1).setMetadata(null))),
                new OffsetFetchResponseData.OffsetFetchResponseTopics().setName("t2").setPartitions(List.of(
                    new OffsetFetchResponseData.OffsetFetchResponsePartitions().setPartitionIndex(1)
                        .setCommittedOffset(0).setMetadata(""))))),
            new OffsetFetchResponseData.OffsetFetchResponseGroup().setGroupId("").setTopics(List.of()),
            new OffsetFetchResponseData.OffsetFetchResponseGroup().setGroupId("gr\u00f6\u00dfe").setTopics(List.of())
                .setErrorCode((short) 30)));
    }
}
