package org.apache.kafka.connect.mirror;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import java.io.ByteArrayInputStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;
import java.util.stream.Stream;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.JaasContext;
import org.apache.kafka.connect.runtime.distributed.Crypto;
import org.apache.kafka.connect.runtime.distributed.DistributedConfig;

/**
 * Asks the real Java MirrorMaker 2 what our mm2.config must answer, and writes the answers down. No broker is needed.
 *
 * <p>tests/parity/test_golden_vectors.py compiles and runs it, in tests/golden/config.
 */
public final class ConfigVectors {
    public static void main(String[] args) throws Exception {
        Map<String, List<?>> files = new LinkedHashMap<>();
        files.put("config-keys", keys());
        files.put("config-derived", derived());
        files.put("properties", properties());
        files.put("regex", regex());
        files.put("jaas", jaas());
        ObjectMapper mapper = new ObjectMapper().configure(JsonGenerator.Feature.ESCAPE_NON_ASCII, true)
            .enable(SerializationFeature.ORDER_MAP_ENTRIES_BY_KEYS);
        for (Map.Entry<String, List<?>> file : files.entrySet()) {
            List<String> lines = new ArrayList<>();
            for (Object answer : file.getValue()) {
                lines.add(mapper.writeValueAsString(answer));
            }
            Path path = Path.of(args[0], args[1] + "-" + file.getKey() + ".json");
            Files.writeString(path, "[\n" + String.join(",\n", lines) + "\n]\n");
        }
    }

    /** Definition, name, type and default of every key, the default as one would write it in the file. */
    private static List<Object> keys() throws Exception {
        Map<String, ConfigDef> definitions = new LinkedHashMap<>();
        definitions.put("top", (ConfigDef) hidden(MirrorMakerConfig.class, "config"));
        definitions.put("source", MirrorSourceConfig.CONNECTOR_CONFIG_DEF);
        definitions.put("checkpoint", MirrorCheckpointConfig.CONNECTOR_CONFIG_DEF);
        definitions.put("heartbeat", MirrorHeartbeatConfig.CONNECTOR_CONFIG_DEF);
        definitions.put("worker", (ConfigDef) hidden(DistributedConfig.class, "config", Crypto.SYSTEM));
        definitions.put("consumer", ConsumerConfig.configDef());
        definitions.put("producer", ProducerConfig.configDef());
        definitions.put("admin", AdminClientConfig.configDef());
        definitions.put("client", MirrorClientConfig.CLIENT_CONFIG_DEF);
        List<Object> answers = new ArrayList<>();
        definitions.forEach((definition, keys) -> new TreeMap<>(keys.configKeys()).forEach((name, key) -> {
            String value = key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null;
            answers.add(Arrays.asList(definition, name, key.type.name(), value));
        }));
        return answers;
    }

    private static Object hidden(Class<?> owner, String name, Object... arguments) throws Exception {
        Class<?>[] types = Stream.of(arguments).map(argument -> Crypto.class).toArray(Class<?>[]::new);
        Method method = owner.getDeclaredMethod(name, types);
        method.setAccessible(true);
        return method.invoke(null, arguments);
    }

    /** For each example file and flow: what the worker, the connectors and every client are told. */
    private static List<Object> derived() throws Exception {
        List<Object> answers = new ArrayList<>();
        try (Stream<Path> files = Files.list(Path.of("."))) {
            for (Path file : files.filter(path -> path.toString().endsWith(".properties")).sorted().toList()) {
                MirrorMakerConfig config = new MirrorMakerConfig(read(Files.readAllBytes(file)));
                for (SourceAndTarget flow : config.clusterPairs()) {
                    answers.add(flowAnswers(file, config, flow));
                }
            }
        }
        return answers;
    }

    private static Map<String, Object> flowAnswers(Path file, MirrorMakerConfig config, SourceAndTarget flow) {
        Map<String, String> worker = config.workerConfig(flow);
        Map<String, String> base = config.connectorBaseConfig(flow, MirrorSourceConnector.class);
        MirrorSourceConfig source = new MirrorSourceConfig(config.transform(base));
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("file", file.getFileName().toString());
        answer.put("flow", flow.toString());
        answer.put("enabled", source.enabled());
        answer.put("worker", worker);
        answer.put("connector", base);
        answer.put("source_consumer", source.sourceConsumerConfig("replication-consumer"));
        answer.put("source_producer", source.sourceProducerConfig("offset-syncs-source-producer"));
        answer.put("source_admin", source.sourceAdminConfig("replication-source-admin"));
        answer.put("target_consumer", source.targetConsumerConfig("offset-syncs-target-consumer"));
        answer.put("target_producer", source.targetProducerConfig("offset-syncs-target-producer"));
        answer.put("target_admin", source.targetAdminConfig("replication-target-admin"));
        return answer;
    }

    private static Map<String, String> read(byte[] content) throws Exception {
        Properties properties = new Properties();
        properties.load(new ByteArrayInputStream(content));
        Map<String, String> map = new TreeMap<>();
        properties.forEach((key, value) -> map.put((String) key, (String) value));
        return map;
    }

    /** Texts of java.util.Properties and what is read from them; null where Java refuses. */
    private static List<Object> properties() throws Exception {
        List<String> texts = List.of("a=1", "a = 1 ", "a:1", "a 1", "a", "a=", "=1", " \t a\t=\t1", "a==1", "a = = 1",
            "a\\=b=c\\:d", "a\\ b = c", "# a=1\n! b=2\nc=3", "a=1\\\n   2\\\n\t3\nb=4", "a=1\\\n", "a=1\\", "a=1\\\\\nb=2",
            "a=1\\\n\nb=2", "a=1\\\n# b=2\nc=3", "a=\\t\\n\\r\\f\\z\\\\", "a=\\u0041\\u00e9\\u20ac", "a=\\ud83d\\ude00",
            "a=\\u00", "a=\\uxyzw", "\\u0061=1", "a=1\rb=2\r\nc=3\n", "a=\u00e9\u00df", "   \n\f\n  # x\n a=1", "a=1\na=2\na=3",
            "a->b.c=1", "A -> B.enabled = true", "a=x\\", "\\\na=1", "a\\\n=1", "a=1 # no comment", "a\f=\f1", "a=\\\\.b");
        List<Object> answers = new ArrayList<>();
        for (String text : texts) {
            Map<String, String> map;
            try {
                map = read(text.getBytes(StandardCharsets.ISO_8859_1));
            } catch (IllegalArgumentException e) {
                map = null;
            }
            answers.add(Arrays.asList(text, map));
        }
        return answers;
    }

    /** Patterns, and which names they match as a whole; null where Java refuses the pattern. */
    private static List<Object> regex() throws Exception {
        List<String> names = Files.readAllLines(Path.of("regex-names.txt")).stream().map(ConfigVectors::unescape).toList();
        List<Object> answers = new ArrayList<>();
        for (String pattern : Files.readAllLines(Path.of("regex-patterns.txt"))) {
            List<String> matched;
            try {
                Pattern compiled = Pattern.compile(pattern);
                matched = names.stream().filter(name -> compiled.matcher(name).matches()).toList();
            } catch (PatternSyntaxException e) {
                matched = null;
            }
            answers.add(Arrays.asList(pattern, matched));
        }
        return answers;
    }

    private static String unescape(String name) {
        return name.translateEscapes();
    }

    /** Texts of sasl.jaas.config, with the login module and its options; null where Java refuses. */
    private static List<Object> jaas() throws Exception {
        List<Object> answers = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of("jaas.txt"))) {
            String text = line.translateEscapes();
            Object answer;
            try {
                AppConfigurationEntry module = JaasContext.loadClientContext(Map.of("sasl.jaas.config", new Password(text)))
                    .configurationEntries().get(0);
                answer = Arrays.asList(module.getLoginModuleName(), new TreeMap<>(module.getOptions()));
            } catch (IllegalArgumentException e) {
                answer = null;
            }
            answers.add(Arrays.asList(text, answer));
        }
        return answers;
    }
}
