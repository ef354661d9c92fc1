package org.apache.kafka.connect.mirror;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.connect.json.JsonConverter;

/**
 * Asks the real Java MirrorMaker 2 what our mm2.core must answer, and writes the answers down. No broker is needed.
 *
 * <p>tests/parity/test_golden_vectors.py compiles and runs it.
 */
public final class GoldenVectors {
    private static final String LONG_TEXT = "a\u00e9\u2028\ud83d\ude00\"\u001b".repeat(150);

    public static void main(String[] args) throws Exception {
        Map<String, List<?>> files = new LinkedHashMap<>();
        files.put("policies", policies());
        files.put("connect-offsets", connectOffsets());
        files.put("formats", formats());
        files.put("murmur2", murmur2());
        files.put("topic-configs", topicConfigs());
        files.put("offset-sync-writer", offsetSyncWriter());
        write(args, files);
    }

    /** Each list of answers into a file of its own, in the directory and with the beginning that the arguments give. */
    static void write(String[] args, Map<String, List<?>> files) throws IOException {
        for (Map.Entry<String, List<?>> file : files.entrySet()) {
            Path path = Path.of(args[0], args[1] + "-" + file.getKey() + ".json");
            List<String> lines = file.getValue().stream().map(GoldenVectors::line).toList();
            Files.writeString(path, "[\n" + String.join(",\n", lines) + "\n]\n");
        }
    }

    /** One answer a line, in ASCII; maps with sorted keys, so that a second run writes the same bytes. */
    private static String line(Object answer) {
        try {
            return new ObjectMapper().configure(JsonGenerator.Feature.ESCAPE_NON_ASCII, true)
                .enable(SerializationFeature.ORDER_MAP_ENTRIES_BY_KEYS).writeValueAsString(answer);
        } catch (JsonProcessingException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Name rules of both policies, and which topics the flow A->B replicates under them. */
    private static List<Object> policies() {
        List<String> topics = List.of("topic1", "A.topic1", "B.topic1", "A.B.topic1", "B.A.topic1", "C.B.A.topic1",
            "my.app.events", "heartbeats", "A.heartbeats", "B.heartbeats", "A.B.heartbeats", "C.heartbeats",
            "any.heartbeats", "myheartbeats", "A.myheartbeats", "heartbeats.", "A.heartbeats.", ".x", "..x", "a..b", "a.",
            "a..", ".", "...", "", "a", "_", "__", "A_", "A__", "A___b", "A_topic1", "A__topic1", "B_topic1", "B__topic1",
            "A_B_topic1", "A_heartbeats", "A__heartbeats", "A__B__heartbeats", "B__heartbeats", "__consumer_offsets",
            "__transaction_state", ".hidden", "mm2-offsets.A.internal", "mm2-configs.A.internal", "mm2-status.A.internal",
            "mm2-offset-syncs.B.internal", "mm2-offset-syncs_B_internal", "mm2-offset-syncs__B__internal",
            "A.checkpoints.internal", "A_checkpoints_internal", "A__checkpoints__internal", "checkpoints.internal",
            "checkpoints-internal", "checkpoints.internal!", "!checkpoints.internal", "source1checkpointsinternal",
            "mm2-offsets-A-internal", "mm2-offsets_A_internal", "mm2-ranges.A.internal", "mm2.internal", "mm2internal",
            "orders.internal", "orders-internal", "connect-configs-internal", "A.orders.replica");
        String separator = "replication.policy.separator";
        String internal = "replication.policy.internal.topic.separator.enabled";
        List<Map<String, String>> settings = List.of(Map.of(), Map.of(internal, "false"), Map.of(separator, "_"),
            Map.of(separator, "__"), Map.of(separator, "__", internal, "false"), Map.of(separator, ""));
        List<Object> answers = new ArrayList<>();
        for (Map<String, String> setting : settings) {
            answers.add(answers(new DefaultReplicationPolicy(), setting, topics));
            answers.add(answers(new IdentityReplicationPolicy(), setting, topics));
            Map<String, String> withAlias = new HashMap<>(setting);
            withAlias.put("source.cluster.alias", "A");
            answers.add(answers(new IdentityReplicationPolicy(), withAlias, topics));
        }
        return answers;
    }

    private static Map<String, Object> answers(DefaultReplicationPolicy policy, Map<String, String> settings,
                                               List<String> topics) {
        policy.configure(settings);
        Map<String, Object> answer = new HashMap<>();
        answer.put("policy", policy.getClass().getName());
        answer.put("settings", settings);
        answer.put("offset_syncs_topic", policy.offsetSyncsTopic("B"));
        answer.put("checkpoints_topic", policy.checkpointsTopic("A"));
        answer.put("heartbeats_topic", policy.heartbeatsTopic());
        answer.put("topics", topics.stream().map(topic -> nameAnswers(policy, topic)).toList());
        return answer;
    }

    /** topic, remote, source, upstream, original; is heartbeats, checkpoints, mm2 internal, internal, cycle; replicated
     * when the filter takes all, none, none without heartbeats. */
    private static List<Object> nameAnswers(ReplicationPolicy policy, String topic) {
        SourceAndTarget flow = new SourceAndTarget("A", "B");
        ConfigPropertyFilter configs = new DefaultConfigPropertyFilter();
        MirrorSourceConnector all = new MirrorSourceConnector(flow, policy, name -> true, configs);
        MirrorSourceConnector none = new MirrorSourceConnector(flow, policy, name -> false, configs);
        MirrorSourceConnector dataOnly = new MirrorSourceConnector(flow, policy, name -> false, configs, false);
        return Arrays.asList(topic, policy.formatRemoteTopic("A", topic), policy.topicSource(topic),
            policy.upstreamTopic(topic), policy.originalTopic(topic), policy.isHeartbeatsTopic(topic),
            policy.isCheckpointsTopic(topic), policy.isMM2InternalTopic(topic), policy.isInternalTopic(topic),
            all.isCycle(topic), all.shouldReplicateTopic(topic), none.shouldReplicateTopic(topic),
            dataOnly.shouldReplicateTopic(topic));
    }

    /** Keys and values of mm2-offsets as the worker's JsonConverter writes them, and the partition each key goes to. */
    private static List<Object> connectOffsets() {
        List<String> texts = new ArrayList<>(List.of("orders", "", "a\"b", "back\\slash", "sl/ash", "\u007f", "\u0080",
            "\u00e9", "\u07ff", "\u0800", "\u2028\u2029", "\ufeff", "\uffff", "lone\ud800", "\ud83d\ude00", "x\ud834\udd1ey", "<&>'",
            LONG_TEXT));
        for (char c = 0; c < 0x20; c++) texts.add("c" + c);
        List<Object> answers = new ArrayList<>();
        for (String text : texts) {
            TopicPartition partition = new TopicPartition(text, texts.indexOf(text));
            answers.add(offset("MirrorSourceConnector", MirrorUtils.wrapPartition(partition, "A"), 41L));
            answers.add(offset("MirrorSourceConnector",
                MirrorUtils.wrapPartition(new TopicPartition("orders", Integer.MAX_VALUE), text), Long.MAX_VALUE));
            answers.add(offset("MirrorCheckpointConnector",
                new Checkpoint(text, new TopicPartition("A.orders", 7), 1, 2, "").connectPartition(), 0L));
            answers.add(offset("MirrorHeartbeatConnector", new Heartbeat(text, "B", 3).connectPartition(), -1L));
        }
        return answers;
    }

    private static Map<String, Object> offset(String connector, Map<String, ?> partition, long offset) {
        JsonConverter converter = new JsonConverter();
        converter.configure(Map.of("schemas.enable", "false"), true);
        byte[] key = converter.fromConnectData(connector, null, Arrays.asList(connector, partition));
        byte[] value = converter.fromConnectData(connector, null, MirrorUtils.wrapOffset(offset));
        return Map.of("connector", connector, "partition", partition, "key", hex(key), "offset", offset,
            "value", hex(value), "of_25", goesTo(key, 25));
    }

    /** The binary records. */
    private static List<Object> formats() {
        List<Object> answers = new ArrayList<>();
        for (String text : List.of("", "orders", "\u00e9\u2028", "\ud83d\ude00", "nul\u0000", "x".repeat(300))) {
            OffsetSync sync = new OffsetSync(new TopicPartition(text, 3), 100, Long.MAX_VALUE);
            answers.add(Map.of("record", "OffsetSync", "fields", List.of(text, 3, 100, Long.MAX_VALUE),
                "key", hex(sync.recordKey()), "value", hex(sync.recordValue())));
            Checkpoint checkpoint = new Checkpoint(text, new TopicPartition("A.t", 0), 10, -1, text);
            answers.add(Map.of("record", "Checkpoint", "fields", List.of(text, "A.t", 0, 10, -1, text),
                "key", hex(checkpoint.recordKey()), "value", hex(checkpoint.recordValue())));
            Heartbeat heartbeat = new Heartbeat(text, "B", 1700000000000L);
            answers.add(Map.of("record", "Heartbeat", "fields", List.of(text, "B", 1700000000000L),
                "key", hex(heartbeat.recordKey()), "value", hex(heartbeat.recordValue())));
        }
        return answers;
    }

    private static List<Object> murmur2() {
        Random random = new Random(2);
        List<Object> answers = new ArrayList<>();
        for (int length = 0; length < 40; length++) {
            byte[] key = new byte[length];
            random.nextBytes(key);
            answers.add(Map.of("key", hex(key), "hash", Utils.murmur2(key), "of_25", goesTo(key, 25)));
        }
        return answers;
    }

    /** What of a source topic's configuration a new remote topic gets, for use.defaults.from target and source. */
    private static List<Object> topicConfigs() {
        List<ConfigEntry> entries = new ArrayList<>();
        for (ConfigEntry.ConfigSource source : ConfigEntry.ConfigSource.values()) {
            for (boolean sensitive : new boolean[] {false, true}) {
                for (boolean readOnly : new boolean[] {false, true}) {
                    for (String name : new String[] {"retention.ms", "min.insync.replicas"}) {
                        entries.add(new ConfigEntry(name, "v" + entries.size(), source, sensitive, readOnly, List.of(),
                            ConfigEntry.ConfigType.STRING, ""));
                    }
                }
            }
        }
        List<Object> answers = new ArrayList<>();
        for (String defaults : new String[] {"target", "source"}) {
            DefaultConfigPropertyFilter filter = new DefaultConfigPropertyFilter();
            filter.configure(Map.of("use.defaults.from", defaults));
            MirrorSourceConnector connector = new MirrorSourceConnector(new SourceAndTarget("A", "B"),
                new DefaultReplicationPolicy(), name -> true, filter);
            for (ConfigEntry entry : entries) {
                boolean kept = !connector.targetConfig(new Config(List.of(entry)), false).entries().isEmpty();
                answers.add(Map.of("use_defaults_from", defaults, "name", entry.name(), "value", entry.value(),
                    "source", entry.source().name(), "sensitive", entry.isSensitive(), "read_only", entry.isReadOnly(),
                    "kept", kept));
            }
        }
        return answers;
    }

    /** Random histories of acknowledgements, completions and commits, and what the writer sent after each event. */
    private static List<Object> offsetSyncWriter() {
        List<Object> histories = new ArrayList<>();
        long[] lags = {0, 1, 7, 50, 100};
        for (int seed = 0; seed < 20; seed++) {
            histories.add(history(new Random(seed), lags[seed % lags.length]));
        }
        return histories;
    }

    private static Map<String, Object> history(Random random, long lagMax) {
        List<long[]> sent = new ArrayList<>();
        List<Callback> inFlight = new ArrayList<>();
        List<Object> events = new ArrayList<>();
        try (SendsNothing producer = new SendsNothing(sent, inFlight)) {
            OffsetSyncWriter writer = new OffsetSyncWriter(producer, "syncs", new Semaphore(10), lagMax);
            long[] upstream = new long[4];
            long[] downstream = new long[4];
            for (int i = 0; i < 120; i++) {
                int before = sent.size();
                Map<String, Object> event = new LinkedHashMap<>();
                int dice = random.nextInt(10);
                if (dice < 6) {
                    int p = random.nextInt(4);
                    int count = random.nextInt(4) == 0 ? 1 + random.nextInt(400) : 1 + random.nextInt(20);
                    if (random.nextInt(4) == 0) upstream[p] += random.nextInt(30) - 8;
                    if (random.nextInt(4) == 0) downstream[p] += random.nextInt(30) - 8;
                    upstream[p] = Math.max(0, upstream[p]);
                    downstream[p] = Math.max(0, downstream[p]);
                    event.put("acked", List.of(p, upstream[p], downstream[p], count));
                    TopicPartition partition = new TopicPartition("t", p);
                    for (int k = 0; k < count; k++) {
                        writer.maybeQueueOffsetSyncs(partition, upstream[p]++, downstream[p]++);
                        writer.firePendingOffsetSyncs();
                    }
                } else if (dice < 9) {
                    int count = Math.min(inFlight.size(), 1 + random.nextInt(6));
                    event.put("completed", count);
                    for (int k = 0; k < count; k++) inFlight.remove(0).onCompletion(null, null);
                    writer.firePendingOffsetSyncs();
                } else {
                    event.put("commit", true);
                    writer.promoteDelayedOffsetSyncs();
                    writer.firePendingOffsetSyncs();
                }
                event.put("sent", List.copyOf(sent.subList(before, sent.size())));
                events.add(event);
            }
        }
        return Map.of("lag_max", lagMax, "events", events);
    }

    /** A producer that notes what it was given and keeps the callbacks. */
    private static final class SendsNothing extends KafkaProducer<byte[], byte[]> {
        private final List<long[]> sent;
        private final List<Callback> inFlight;

        SendsNothing(List<long[]> sent, List<Callback> inFlight) {
            super(Map.of("bootstrap.servers", "127.0.0.1:1"), new ByteArraySerializer(), new ByteArraySerializer());
            this.sent = sent;
            this.inFlight = inFlight;
        }

        @Override
        public Future<RecordMetadata> send(ProducerRecord<byte[], byte[]> record, Callback callback) {
            OffsetSync sync = OffsetSync.deserializeRecord(new org.apache.kafka.clients.consumer.ConsumerRecord<>(
                record.topic(), record.partition(), 0, record.key(), record.value()));
            sent.add(new long[] {
                sync.topicPartition().partition(), sync.upstreamOffset(), sync.downstreamOffset()});
            inFlight.add(callback);
            return null;
        }

        @Override
        public void close() {
            super.close(java.time.Duration.ZERO);
        }
    }

    private static int goesTo(byte[] key, int partitions) {
        return Utils.toPositive(Utils.murmur2(key)) % partitions;
    }

    private static String hex(byte[] bytes) {
        return HexFormat.of().formatHex(bytes);
    }
}
