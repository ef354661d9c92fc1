package org.apache.kafka.connect.mirror;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * Asks the real Java MirrorMaker 2 what becomes of consumer groups: offset translation, checkpoints, group offset sync.
 *
 * <p>Compiled and run together with GoldenVectors.
 */
public final class CheckpointVectors {
    private static final TopicPartition TP = new TopicPartition("t", 0);
    private static final String GROUP = "g";

    public static void main(String[] args) throws Exception {
        Map<String, List<?>> files = new LinkedHashMap<>();
        files.put("offset-sync-store", offsetSyncStore());
        files.put("checkpoint-names", checkpointNames());
        files.put("checkpoints", checkpoints());
        files.put("groups", groups());
        files.put("group-offsets", groupOffsets());
        GoldenVectors.write(args, files);
    }

    /** A store that is fed by hand. */
    private static final class Store extends OffsetSyncStore {
        Store(boolean mustReadToEnd) {
            initializationMustReadToEnd = mustReadToEnd;
        }

        void apply(long upstream, long downstream) {
            OffsetSync sync = new OffsetSync(TP, upstream, downstream);
            handleRecord(new ConsumerRecord<>("syncs", 0, 0, sync.recordKey(), sync.recordValue()));
        }

        void readToEnd() {
            readToEnd = true;
        }

        /** The different syncs, each as its first slot, upstream and downstream offset. */
        List<long[]> slots() {
            List<long[]> slots = new ArrayList<>();
            for (int slot = 0; slot < SYNCS_PER_PARTITION; slot++) {
                OffsetSync sync = syncFor(TP, slot);
                if (slot == 0 || sync != syncFor(TP, slot - 1)) {
                    slots.add(new long[] {slot, sync.upstreamOffset(), sync.downstreamOffset()});
                }
            }
            return slots;
        }

        Long translate(long upstream) {
            OptionalLong translated = translateDownstream(GROUP, TP, upstream);
            return translated.isPresent() ? translated.getAsLong() : null;
        }
    }

    /** Histories of syncs; a sync of four numbers stands for a row: upstream, downstream, step, count. Of each history,
     * how many were read at the start, and after some syncs the slots and what positions near them translate to. */
    private static List<Object> offsetSyncStore() {
        List<Object> answers = new ArrayList<>();
        for (boolean mustReadToEnd : new boolean[] {true, false}) {
            answers.add(history("every 10, live from 1000", mustReadToEnd, 101, List.of(new long[] {0, 0, 10, 1001}), 250));
            answers.add(history("every 10, repeated at the end of loading", mustReadToEnd, 101,
                List.of(new long[] {0, 0, 10, 101}, new long[] {1000, 1000, 10, 901}), 250));
            answers.add(history("then a rewind", mustReadToEnd, 101, List.of(new long[] {0, 0, 10, 1001},
                new long[] {1500, 11_000}, new long[] {1500, 11_000}, new long[] {1700, 11_100}), 500));
            answers.add(history("every offset", mustReadToEnd, 0, List.of(new long[] {0, 0, 1, 41}), 4));
            answers.add(history("as in Java's simple test", mustReadToEnd, 0, List.of(new long[] {100, 200},
                new long[] {150, 251}, new long[] {200, 10}, new long[] {20, 20}), 1));
            answers.add(history("a restart with fewer syncs", mustReadToEnd, 4, List.of(new long[] {175, 175},
                new long[] {275, 275}, new long[] {375, 375}, new long[] {475, 475}), 1));
            answers.add(history("nothing loaded", mustReadToEnd, 3, List.of(), 1));
            for (int seed = 0; seed < 18; seed++) {
                answers.add(randomHistory(seed, mustReadToEnd));
            }
        }
        return answers;
    }

    private static Map<String, Object> randomHistory(int seed, boolean mustReadToEnd) {
        Random random = new Random(seed);
        String[] kinds = {"random gaps", "gaps of all sizes", "rewinds", "repeats", "huge offsets", "even"};
        String kind = kinds[seed % kinds.length];
        long upstream = kind.equals("huge offsets") ? Long.MAX_VALUE - (1L << random.nextInt(62)) : random.nextInt(1000);
        long downstream = random.nextInt(1000);
        long even = 1L << random.nextInt(20);
        List<long[]> syncs = new ArrayList<>();
        for (int i = 0; i < 60; i++) {
            syncs.add(new long[] {upstream, downstream});
            long step = switch (kind) {
                case "random gaps" -> 1 + random.nextInt(300);
                case "gaps of all sizes" -> 1L << random.nextInt(40);
                case "rewinds" -> random.nextInt(20) == 0 ? -random.nextInt(2000) : random.nextInt(150);
                case "repeats" -> random.nextInt(3) == 0 ? 0 : random.nextInt(4);
                case "huge offsets" -> random.nextInt(10) == 0 ? (Long.MAX_VALUE - upstream) / 2 : random.nextInt(100);
                default -> even;
            };
            upstream = Math.max(0, step > Long.MAX_VALUE - upstream ? Long.MAX_VALUE : upstream + step);
            downstream += kind.equals("rewinds") && random.nextInt(20) == 0 ? -downstream : random.nextInt(200);
        }
        return history(kind, mustReadToEnd, seed % 2 * 30, syncs, 20);
    }

    private static Map<String, Object> history(String kind, boolean mustReadToEnd, int loaded, List<long[]> rows,
                                               int lookEvery) {
        List<long[]> syncs = rows.stream().flatMap(CheckpointVectors::row).toList();
        Store store = new Store(mustReadToEnd);
        Random random = new Random(syncs.size());
        List<Object> looks = new ArrayList<>();
        for (int applied = 0; applied <= syncs.size(); applied++) {
            if (applied > 0) store.apply(syncs.get(applied - 1)[0], syncs.get(applied - 1)[1]);
            boolean look = applied % lookEvery == 0 || applied == loaded || applied == syncs.size();
            if (look && applied > 0) looks.add(look(store, applied, random));
            if (applied == loaded) {
                store.readToEnd();
                if (applied > 0) looks.add(look(store, applied, random));
            }
        }
        return Map.of("kind", kind, "must_read_to_end", mustReadToEnd, "loaded", loaded, "syncs", rows, "looks", looks);
    }

    private static Map<String, Object> look(Store store, int applied, Random random) {
        List<long[]> slots = store.slots();
        TreeMap<Long, Long> translated = new TreeMap<>();
        long newest = slots.get(0)[1];
        LongStream positions = LongStream.concat(LongStream.of(0, newest / 2, newest + (Long.MAX_VALUE - newest) / 2),
            LongStream.range(0, 6).map(i -> slots.get(random.nextInt(slots.size()))[1] + random.nextInt(3) - 1));
        positions.filter(position -> position >= 0).forEach(position -> translated.put(position, store.translate(position)));
        List<Object> pairs = new ArrayList<>();
        translated.forEach((position, offset) -> pairs.add(Arrays.asList(position, offset)));
        return Map.of("applied", applied, "slots", slots, "translated", pairs);
    }

    private static Stream<long[]> row(long[] row) {
        return LongStream.range(0, row.length == 2 ? 1 : row[3]).mapToObj(i -> i == 0 ? row
            : new long[] {row[0] + i * row[2], row[1] + i * row[2]});
    }

    private static MirrorCheckpointTask task(ReplicationPolicy policy, OffsetSyncStore store, CheckpointStore checkpoints,
                                             Map<String, Map<TopicPartition, OffsetAndMetadata>> idle) {
        return new MirrorCheckpointTask("source1", "target2", policy, store, Set.of(), idle, checkpoints);
    }

    /** Where a checkpoint of a source topic points to: topic, its name there. */
    private static List<Object> checkpointNames() {
        List<String> topics = List.of("topic3", "target2.topic3", "source6.topic7", "source1.topic3", "target2.source1.t",
            "source1.target2.t", "target2.a.b.c", "target2.", "a.b", "heartbeats", "target2.heartbeats", "target2_t",
            "target2__t", "target2__source6__t");
        List<Object> answers = new ArrayList<>();
        for (Map<String, String> settings : List.<Map<String, String>>of(Map.of(), Map.of("replication.policy.separator",
                "__"))) {
            for (DefaultReplicationPolicy policy : List.of(new DefaultReplicationPolicy(), new IdentityReplicationPolicy())) {
                policy.configure(policy instanceof IdentityReplicationPolicy
                    ? with(settings, "source.cluster.alias", "source1") : settings);
                MirrorCheckpointTask task = task(policy, new Store(true), new CheckpointStore(Map.of()), Map.of());
                Map<String, String> names = new TreeMap<>();
                for (String topic : topics) {
                    names.put(topic, task.renameTopicPartition(new TopicPartition(topic, 7)).topic());
                }
                answers.add(Map.of("policy", policy.getClass().getName(), "settings", settings, "names", names));
            }
        }
        return answers;
    }

    private static Map<String, String> with(Map<String, String> settings, String key, String value) {
        Map<String, String> more = new HashMap<>(settings);
        more.put(key, value);
        return more;
    }

    /** Histories of a group that commits, reads on, steps back, while syncs come in and some are lost at restarts: the
     * checkpoint of each round, or null. */
    private static List<Object> checkpoints() throws Exception {
        List<Object> answers = new ArrayList<>();
        for (int seed = 0; seed < 20; seed++) {
            Random random = new Random(seed);
            CheckpointStore checkpoints = new CheckpointStore(new HashMap<>());
            Store store = new Store(false);
            store.readToEnd();
            DefaultReplicationPolicy policy = new DefaultReplicationPolicy();
            policy.configure(Map.of());
            List<Object> events = new ArrayList<>();
            long end = 0;
            long target = 0;
            long position = 0;
            for (int i = 0; i < 60; i++) {
                int dice = random.nextInt(10);
                if (dice < 4) {
                    end += random.nextInt(200);
                    target += random.nextInt(200);
                    store.apply(end, target);
                    events.add(Map.of("sync", new long[] {end, target}));
                } else if (dice == 4) {  // a restart that knows only the last sync, but all checkpoints
                    store = new Store(true);
                    store.apply(end, target);
                    store.readToEnd();
                    events.add(Map.of("restart", new long[] {end, target}));
                } else {
                    position = random.nextInt(8) == 0 ? random.nextInt((int) end + 1)
                        : Math.min(position + random.nextInt(150), end + 10);
                    OffsetAndMetadata committed = random.nextInt(12) == 0 ? null
                        : new OffsetAndMetadata(position, random.nextBoolean() ? "" : "m" + i);
                    Map<TopicPartition, Checkpoint> made = task(policy, store, checkpoints, Map.of())
                        .checkpointsForGroup(java.util.Collections.singletonMap(TP, committed), GROUP);
                    checkpoints.update(GROUP, made);
                    Map<String, Object> event = new HashMap<>();
                    event.put("committed", committed == null ? null : List.of(committed.offset(), committed.metadata()));
                    event.put("made", made.values().stream().findFirst().map(CheckpointVectors::fields).orElse(null));
                    events.add(event);
                }
            }
            answers.add(Map.of("seed", seed, "events", events));
        }
        return answers;
    }

    private static List<Object> fields(Checkpoint checkpoint) {
        return List.of(checkpoint.topicPartition().topic(), checkpoint.topicPartition().partition(),
            checkpoint.upstreamOffset(), checkpoint.downstreamOffset(), checkpoint.metadata());
    }

    /** A connector that is told of groups by hand. */
    private static final class Groups extends MirrorCheckpointConnector {
        private final Map<String, Set<String>> topics;

        Groups(Map<String, Set<String>> topics, Map<String, String> settings) throws Exception {
            this.topics = topics;
            DefaultTopicFilter topicFilter = new DefaultTopicFilter();
            topicFilter.configure(settings);
            DefaultGroupFilter groupFilter = new DefaultGroupFilter();
            groupFilter.configure(settings);
            set("topicFilter", topicFilter);
            set("groupFilter", groupFilter);
        }

        private void set(String name, Object value) throws Exception {
            Field field = MirrorCheckpointConnector.class.getDeclaredField(name);
            field.setAccessible(true);
            field.set(this, value);
        }

        @Override
        Collection<GroupListing> listConsumerGroups() {
            return topics.keySet().stream()
                .map(group -> new GroupListing(group, Optional.empty(), "consumer", Optional.empty())).toList();
        }

        @Override
        Map<String, Map<TopicPartition, OffsetAndMetadata>> listConsumerGroupOffsets(List<String> groups) {
            return groups.stream().collect(Collectors.toMap(group -> group, group -> topics.get(group).stream().collect(
                Collectors.toMap(topic -> new TopicPartition(topic, 0), topic -> new OffsetAndMetadata(1)))));
        }
    }

    /** Which groups are checkpointed, by what they have committed offsets for. */
    private static List<Object> groups() throws Exception {
        Map<String, Set<String>> topics = Map.of("g1", Set.of("t1"), "g2", Set.of("t1", "other"), "g3", Set.of("other"),
            "empty", Set.of(), "console-consumer-1", Set.of("t1"), "connect-x", Set.of("t1"), "__g", Set.of("t1"),
            "my-connect-x", Set.of("B.t1"), "gr\u00fc\u00dfe, \u2028", Set.of("t2"), "internals", Set.of("mm2.internal"));
        List<Map<String, String>> settings = List.of(Map.of(), Map.of("groups", "g1"), Map.of("groups", "g.*, my-.*"),
            Map.of("groups", ""), Map.of("groups.exclude", ""), Map.of("groups.exclude", "g1,g3"),
            Map.of("topics", "t1"), Map.of("topics", "t.*", "topics.exclude", "t1"), Map.of("topics.exclude", ""),
            Map.of("topics", "B.t1"), Map.of("topics", ""));
        List<Object> answers = new ArrayList<>();
        for (Map<String, String> setting : settings) {
            Set<String> found = new Groups(topics, setting).findConsumerGroups();
            answers.add(Map.of("settings", setting, "topics", sorted(topics), "found", found.stream().sorted().toList()));
        }
        return answers;
    }

    private static Map<String, List<String>> sorted(Map<String, Set<String>> topics) {
        Map<String, List<String>> sorted = new TreeMap<>();
        topics.forEach((group, names) -> sorted.put(group, names.stream().sorted().toList()));
        return sorted;
    }

    /** What is written for a group on the target that is idle there (with which offsets), or not known there. */
    private static List<Object> groupOffsets() throws Exception {
        List<Object> answers = new ArrayList<>();
        for (int seed = 0; seed < 60; seed++) {
            Random random = new Random(seed);
            Map<TopicPartition, Checkpoint> checkpoints = new HashMap<>();
            Map<TopicPartition, OffsetAndMetadata> committed = new HashMap<>();
            for (int partition = 0; partition < 4; partition++) {
                TopicPartition remote = new TopicPartition("source1.t", partition);
                long offset = random.nextInt(10);
                checkpoints.put(remote, new Checkpoint(GROUP, remote, 100, offset, random.nextBoolean() ? "" : "m"));
                int dice = random.nextInt(4);
                if (dice == 0) committed.put(remote, null);
                if (dice > 1) committed.put(remote, new OffsetAndMetadata(random.nextInt(10)));
            }
            boolean idle = random.nextInt(4) != 0;
            Map<String, Map<TopicPartition, OffsetAndMetadata>> onTarget = new HashMap<>();
            if (idle) onTarget.put(GROUP, committed);
            MirrorCheckpointTask task = task(new DefaultReplicationPolicy(), new Store(true),
                new CheckpointStore(new HashMap<>(Map.of(GROUP, checkpoints))), onTarget);
            Map<TopicPartition, OffsetAndMetadata> written = task.syncGroupOffset().getOrDefault(GROUP, Map.of());
            Map<String, Object> answer = new HashMap<>();
            answer.put("checkpoints", byPartition(checkpoints, c -> List.of(c.downstreamOffset(), c.metadata())));
            answer.put("idle", idle ? byPartition(committed, o -> o == null ? null : o.offset()) : null);
            answer.put("written", byPartition(written, o -> List.of(o.offset(), o.metadata())));
            answers.add(answer);
        }
        return answers;
    }

    private static <T> Map<Integer, Object> byPartition(Map<TopicPartition, T> map,
                                                        java.util.function.Function<T, Object> value) {
        Map<Integer, Object> result = new TreeMap<>();
        map.forEach((partition, it) -> result.put(partition.partition(), value.apply(it)));
        return result;
    }
}
