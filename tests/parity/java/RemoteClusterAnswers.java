import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.mirror.MirrorClient;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/**
 * Asks Kafka's own MirrorClient and RemoteClusterUtils about one cluster. ../remote_cluster_utils.py compiles and runs it.
 *
 * <p>Each line of standard input is a question: {@code {"properties": {…}, "aliases": […], "remote": "A" or null, "groups": […],
 * "pattern": "…" or null, "timeoutMs": 30000}}. Standard output has a line for each of them: the answers by the names of the methods.
 */
public final class RemoteClusterAnswers {
    public static void main(String[] args) throws Exception {
        ObjectMapper json = new ObjectMapper().enable(SerializationFeature.ORDER_MAP_ENTRIES_BY_KEYS);
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            answers.println(json.writeValueAsString(answer(json.readTree(line))));
        }
    }

    private static Map<String, Object> answer(JsonNode question) throws Exception {
        Map<String, Object> properties = new LinkedHashMap<>();
        question.get("properties").properties().forEach(one -> properties.put(one.getKey(), one.getValue().asText()));
        Map<String, Object> answer = new TreeMap<>();
        answer.put("heartbeatTopics", new TreeSet<>(RemoteClusterUtils.heartbeatTopics(properties)));
        answer.put("checkpointTopics", new TreeSet<>(RemoteClusterUtils.checkpointTopics(properties)));
        answer.put("upstreamClusters", new TreeSet<>(RemoteClusterUtils.upstreamClusters(properties)));
        Map<String, Object> hops = new TreeMap<>();
        Map<String, Object> remoteTopicsOf = new TreeMap<>();
        try (MirrorClient client = new MirrorClient(properties)) {
            answer.put("remoteTopics", new TreeSet<>(client.remoteTopics()));
            for (JsonNode alias : question.get("aliases")) {
                hops.put(alias.asText(), RemoteClusterUtils.replicationHops(properties, alias.asText()));
                remoteTopicsOf.put(alias.asText(), new TreeSet<>(client.remoteTopics(alias.asText())));
            }
        }
        answer.put("replicationHops", hops);
        answer.put("remoteTopicsOf", remoteTopicsOf);
        String remote = question.get("remote").isNull() ? null : question.get("remote").asText();
        Duration timeout = Duration.ofMillis(question.get("timeoutMs").asLong());
        Map<String, Object> translated = new TreeMap<>();
        for (JsonNode group : question.get("groups")) {
            translated.put(group.asText(),
                rows(RemoteClusterUtils.translateOffsets(properties, remote, group.asText(), timeout)));
        }
        answer.put("translated", translated);
        Map<String, Object> matching = new TreeMap<>();
        if (!question.get("pattern").isNull()) {
            Pattern pattern = Pattern.compile(question.get("pattern").asText());
            RemoteClusterUtils.translateOffsets(properties, remote, pattern, timeout)
                .forEach((group, offsets) -> matching.put(group, rows(offsets)));
        }
        answer.put("matching", matching);
        return answer;
    }

    /** One row of topic, partition, offset and metadata for each partition. */
    private static List<List<Object>> rows(Map<TopicPartition, OffsetAndMetadata> offsets) {
        List<List<Object>> rows = new ArrayList<>();
        offsets.forEach((partition, position) -> rows.add(
            List.of(partition.topic(), partition.partition(), position.offset(), position.metadata())));
        return rows;
    }
}
