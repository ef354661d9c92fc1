package org.apache.kafka.connect.mirror;

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigsResult;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateAclsResult;
import org.apache.kafka.clients.admin.DescribeAclsResult;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/**
 * Asks the real Java MirrorMaker 2 what becomes of topics: ACL sync, config sync, partitions of tasks.
 *
 * <p>Compiled and run together with GoldenVectors.
 */
public final class TopicVectors {
    public static void main(String[] args) throws Exception {
        Map<String, List<?>> files = new LinkedHashMap<>();
        files.put("acls", acls());
        files.put("config-sync", configSync());
        files.put("assignments", assignments());
        GoldenVectors.write(args, files);
    }

    /** An admin client that answers one kind of request. */
    private static Admin admin(String request, Function<Object, Object> answer) {
        return (Admin) Proxy.newProxyInstance(Admin.class.getClassLoader(), new Class<?>[] {Admin.class}, (it, method, args) -> {
            if (method.getName().equals(request)) return answer.apply(args[0]);
            throw new IllegalStateException("nobody expected " + method);
        });
    }

    private static Object result(Class<?> type, Object content) {
        try {
            Constructor<?> constructor = type.getDeclaredConstructors()[0];
            constructor.setAccessible(true);
            return constructor.newInstance(content);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    /** A connector A->B between two admin clients. */
    private static MirrorSourceConnector connector(DefaultReplicationPolicy policy, ConfigPropertyFilter configs, Admin source,
                                                   Admin target) throws Exception {
        DefaultTopicFilter topics = new DefaultTopicFilter();
        topics.configure(Map.of());
        policy.configure(policy instanceof IdentityReplicationPolicy ? Map.of("source.cluster.alias", "A") : Map.of());
        MirrorSourceConnector connector = new MirrorSourceConnector(new SourceAndTarget("A", "B"), policy, topics, configs);
        for (Map.Entry<String, Admin> client : Map.of("sourceAdminClient", source, "targetAdminClient", target).entrySet()) {
            Field field = MirrorSourceConnector.class.getDeclaredField(client.getKey());
            field.setAccessible(true);
            field.set(connector, client.getValue());
        }
        return connector;
    }

    /** Each ACL that a source can have, and what is created on the target for it, or null. */
    private static List<Object> acls() throws Exception {
        List<Object> answers = new ArrayList<>();
        for (DefaultReplicationPolicy policy : List.of(new DefaultReplicationPolicy(), new IdentityReplicationPolicy())) {
            for (AclBinding acl : everyAcl()) {
                List<AclBinding> created = new ArrayList<>();
                Admin source = admin("describeAcls", filter -> result(DescribeAclsResult.class,
                    KafkaFuture.completedFuture((Collection<AclBinding>) List.of(acl))));
                Admin target = admin("createAcls", acls -> {
                    ((Collection<?>) acls).forEach(one -> created.add((AclBinding) one));
                    return result(CreateAclsResult.class, Map.of());
                });
                connector(policy, new DefaultConfigPropertyFilter(), source, target).syncTopicAcls();
                Map<String, Object> answer = new HashMap<>();
                answer.put("policy", policy.getClass().getSimpleName());
                answer.put("acl", fields(acl));
                answer.put("created", created.isEmpty() ? null : fields(created.get(0)));
                answers.add(answer);
            }
        }
        return answers;
    }

    private static List<AclBinding> everyAcl() {
        List<AclBinding> acls = new ArrayList<>();
        for (AclOperation operation : AclOperation.values()) {
            for (AclPermissionType permission : List.of(AclPermissionType.ALLOW, AclPermissionType.DENY)) {
                if (operation != AclOperation.ANY) {
                    acls.add(acl(ResourceType.TOPIC, "t", PatternType.LITERAL, operation, permission));
                }
            }
        }
        AclPermissionType allow = AclPermissionType.ALLOW;
        for (String name : List.of("A.t", "B.t", "B.heartbeats", "heartbeats", "__consumer_offsets", "mm2-offsets.A.internal",
                "orders.internal", "A.t.replica", "*")) {
            acls.add(acl(ResourceType.TOPIC, name, PatternType.LITERAL, AclOperation.READ, allow));
        }
        acls.add(acl(ResourceType.TOPIC, "t", PatternType.PREFIXED, AclOperation.READ, allow));
        acls.add(acl(ResourceType.GROUP, "t", PatternType.LITERAL, AclOperation.READ, allow));
        acls.add(acl(ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL, AclOperation.ALL, allow));
        return acls;
    }

    private static AclBinding acl(ResourceType type, String name, PatternType pattern, AclOperation operation,
                                  AclPermissionType permission) {
        return new AclBinding(new ResourcePattern(type, name, pattern),
            new AccessControlEntry("User:kafka", "10.0.0.1", operation, permission));
    }

    private static List<Object> fields(AclBinding acl) {
        return List.of(acl.pattern().resourceType().name(), acl.pattern().patternType().name(), acl.pattern().name(),
            acl.entry().principal(), acl.entry().host(), acl.entry().operation().name(),
            acl.entry().permissionType().name());
    }

    /** What a round of config sync does on the target for one entry of a source topic: SET, DELETE, or null. */
    private static List<Object> configSync() throws Exception {
        List<Object> answers = new ArrayList<>();
        for (String defaults : List.of("target", "source")) {
            DefaultConfigPropertyFilter filter = new DefaultConfigPropertyFilter();
            filter.configure(Map.of("use.defaults.from", defaults));
            for (ConfigEntry.ConfigSource source : ConfigEntry.ConfigSource.values()) {
                for (int kind = 0; kind < 4; kind++) {
                    String name = kind == 3 ? "min.insync.replicas" : "retention.ms";
                    ConfigEntry entry = new ConfigEntry(name, "5", source, kind == 1, kind == 2, List.of(),
                        ConfigEntry.ConfigType.STRING, "");
                    Map<String, Object> answer = new HashMap<>();
                    answer.put("use_defaults_from", defaults);
                    answer.put("entry", List.of(name, "5", source.name(), kind == 1, kind == 2));
                    answer.put("done", alteration(filter, entry));
                    answers.add(answer);
                }
            }
        }
        return answers;
    }

    private static String alteration(ConfigPropertyFilter filter, ConfigEntry entry) throws Exception {
        List<AlterConfigOp> operations = new ArrayList<>();
        Admin target = admin("incrementalAlterConfigs", topics -> {
            ((Map<?, ?>) topics).values().forEach(ops -> ((Collection<?>) ops).forEach(op -> operations.add((AlterConfigOp) op)));
            return result(AlterConfigsResult.class, Map.<ConfigResource, KafkaFuture<Void>>of());
        });
        MirrorSourceConnector connector = connector(new DefaultReplicationPolicy(), filter, target, target);
        connector.incrementalAlterConfigs(Map.of("A.t", connector.targetConfig(new Config(List.of(entry)), true)));
        return operations.isEmpty() ? null : operations.get(0).opType().name();
    }

    /** Partitions of each task, from sorted topics of several sizes. */
    private static List<Object> assignments() {
        List<Object> answers = new ArrayList<>();
        List<Map<String, Integer>> topics = List.of(Map.of("t0", 8, "t1", 2, "t2", 2), Map.of("t", 1), Map.of("t", 12),
            Map.of("a", 1, "b", 1, "c", 1, "d", 1, "e", 3), Map.of());
        for (Map<String, Integer> sizes : topics) {
            List<TopicPartition> partitions = new ArrayList<>();
            sizes.keySet().stream().sorted().forEach(topic -> {
                for (int i = 0; i < sizes.get(topic); i++) partitions.add(new TopicPartition(topic, i));
            });
            for (int tasksMax : new int[] {1, 2, 3, 5, 100}) {
                Map<String, String> properties = Map.of("name", "source", "source.cluster.alias", "A", "target.cluster.alias",
                    "B", "connector.class", MirrorSourceConnector.class.getName());
                List<Map<String, String>> tasks =
                    new MirrorSourceConnector(partitions, new MirrorSourceConfig(properties)).taskConfigs(tasksMax);
                answers.add(Map.of("topics", sizes, "tasks_max", tasksMax, "tasks",
                    tasks.stream().map(task -> task.get("task.assigned.partitions")).collect(Collectors.toList())));
            }
        }
        return answers;
    }
}
