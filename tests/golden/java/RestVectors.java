package org.apache.kafka.connect.mirror;

import jakarta.servlet.FilterChain;
import jakarta.servlet.FilterConfig;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import jakarta.ws.rs.core.HttpHeaders;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.crypto.KeyGenerator;
import javax.crypto.SecretKey;
import javax.crypto.spec.SecretKeySpec;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.runtime.distributed.Crypto;
import org.apache.kafka.connect.runtime.rest.InternalRequestSignature;
import org.apache.kafka.connect.runtime.rest.RestServerConfig;
import org.apache.kafka.connect.runtime.rest.errors.BadRequestException;
import org.apache.kafka.connect.storage.KafkaConfigBackingStore;
import org.eclipse.jetty.client.HttpClient;
import org.eclipse.jetty.client.Request;
import org.eclipse.jetty.ee10.servlets.HeaderFilter;

/**
 * Lets Kafka Connect's own classes sign requests between workers, make and store session keys, and read the rules for
 * headers of answers.
 *
 * <p>Compiled and run together with GoldenVectors.
 */
public final class RestVectors {
    private static final List<String> ALGORITHMS = List.of("HmacSHA256", "HmacMD5", "HmacSHA1", "HmacSHA224", "HmacSHA384",
        "HmacSHA512", "HmacSHA512/224", "HmacSHA512/256", "HmacSHA3-224", "HmacSHA3-256", "HmacSHA3-384", "HmacSHA3-512",
        "hmacsha256", "HMACSHA512", "HmacSHA-256", "SHA256", "HmacBlake2b", "", "AES");
    private static final String SIGNED = "X-Connect-Authorization";
    private static final String ALGORITHM = "X-Connect-Request-Signature-Algorithm";

    private RestVectors() { }

    public static void main(String[] args) throws Exception {
        Map<String, List<?>> files = new LinkedHashMap<>();
        files.put("request-signatures", signatures());
        files.put("request-headers", readHeaders());
        files.put("session-keys", generated());
        files.put("session-key-records", stored());
        files.put("answer-headers", answerHeaders());
        GoldenVectors.write(args, files);
    }

    private static List<Object> signatures() throws Exception {
        List<Object> all = new ArrayList<>();
        byte[] every = new byte[256];
        for (int i = 0; i < every.length; i++)
            every[i] = (byte) i;
        List<byte[]> bodies = Arrays.asList(null, new byte[0], every);
        for (String algorithm : ALGORITHMS) {
            for (int length : new int[] {1, 200}) {
                byte[] secret = Arrays.copyOf(every, length);
                secret[0] = 7;
                for (byte[] body : bodies) {
                    SecretKey key = new SecretKeySpec(secret, "HmacSHA256");
                    Map<String, Object> answer = new HashMap<>(Map.of("algorithm", algorithm, "secret", hex(secret)));
                    answer.put("body", body == null ? null : hex(body));
                    answer.put("headers", sign(key, body, algorithm));
                    all.add(answer);
                }
            }
        }
        return all;
    }

    /** The two headers that go out; null where Java does not know the algorithm. */
    private static Map<String, String> sign(SecretKey key, byte[] body, String algorithm) throws Exception {
        Request request = new HttpClient().newRequest("http://127.0.0.1:8083");
        try {
            InternalRequestSignature.addToRequest(Crypto.SYSTEM, key, body, algorithm, request);
        } catch (Exception e) {
            return null;
        }
        return Map.of(SIGNED, request.getHeaders().get(SIGNED), ALGORITHM, request.getHeaders().get(ALGORITHM));
    }

    /** What comes in: is it a signature, and is it the right one? */
    private static List<Object> readHeaders() throws Exception {
        SecretKey key = new SecretKeySpec(new byte[] {1, 2, 3}, "HmacSHA256");
        byte[] body = "[]".getBytes(StandardCharsets.UTF_8);
        String right = sign(key, body, "HmacSHA256").get(SIGNED);
        String bare = right.substring(0, right.length() - 1);
        List<String> texts = Arrays.asList(null, "", right, bare, bare + "==", right + "=", right + " ", " " + right,
            right.substring(0, 10) + "\n" + right.substring(10), right.replace('+', '-').replace('/', '_'), "A", "AA", "AA=",
            "AA==", "AAA", "AAA=", "AAAA", "AAAA=", "AAAAA", "AB==", "AAB=", "=", "====", "A===", "AA==AA==", "gr\u00f6\u00dfe",
            "!", right.substring(4), Base64.getEncoder().encodeToString(new byte[32]), "AAAA" + right);
        List<Object> all = new ArrayList<>();
        for (String algorithm : Arrays.asList("HmacSHA256", "hmacsha256", "HmacSHA512", "nothing", null))
            for (String text : texts) {
                Map<String, Object> answer = new HashMap<>();
                answer.put("algorithm", algorithm);
                answer.put("signature", text);
                answer.put("verdict", verdict(key, body, algorithm, text));
                all.add(answer);
            }
        return all;
    }

    private static String verdict(SecretKey key, byte[] body, String algorithm, String text) {
        Map<String, String> given = new HashMap<>();
        given.put(ALGORITHM, algorithm);
        given.put(SIGNED, text);
        HttpHeaders headers = (HttpHeaders) Proxy.newProxyInstance(RestVectors.class.getClassLoader(),
            new Class<?>[] {HttpHeaders.class}, (proxy, method, arguments) -> given.get((String) arguments[0]));
        try {
            InternalRequestSignature signature = InternalRequestSignature.fromHeaders(Crypto.SYSTEM, body, headers);
            return signature == null ? "missing" : signature.keyAlgorithm() + (signature.isValid(key) ? " right" : " wrong");
        } catch (BadRequestException e) {
            return "bad";
        }
    }

    /** How long a generated key is, in bytes; null where the size in bits, or the algorithm, is refused. */
    private static List<Object> generated() {
        List<Object> all = new ArrayList<>();
        for (String algorithm : ALGORITHMS)
            for (Integer bits : Arrays.asList(null, 0, -1, 39, 40, 41, 100, 128, 256, 512, 4096)) {
                Map<String, Object> answer = new HashMap<>(Map.of("algorithm", algorithm));
                answer.put("bits", bits);
                answer.put("bytes", lengthOf(algorithm, bits));
                all.add(answer);
            }
        return all;
    }

    private static Integer lengthOf(String algorithm, Integer bits) {
        try {
            KeyGenerator generator = Crypto.SYSTEM.keyGenerator(algorithm);
            if (bits != null)
                generator.init(bits);
            return generator.generateKey().getEncoded().length;
        } catch (Exception e) {
            return null;
        }
    }

    private static List<Object> stored() {
        List<Object> all = new ArrayList<>();
        JsonConverter converter = new JsonConverter();
        converter.configure(Map.of("schemas.enable", "false"), false);
        for (String algorithm : List.of("HmacSHA256", "HmacSHA512/256"))
            for (int length : new int[] {1, 5, 32, 64})
                for (long created : new long[] {0, 1763740800000L, Long.MAX_VALUE}) {
                    byte[] secret = new byte[length];
                    Arrays.fill(secret, (byte) (250 + length));
                    Struct struct = new Struct(KafkaConfigBackingStore.SESSION_KEY_V0)
                        .put("key", Base64.getEncoder().encodeToString(secret)).put("algorithm", algorithm)
                        .put("creation-timestamp", created);
                    byte[] record = converter.fromConnectData("mm2-configs.A.internal",
                        KafkaConfigBackingStore.SESSION_KEY_V0, struct);
                    all.add(Map.of("secret", hex(secret), "algorithm", algorithm, "created", created,
                        "record", new String(record, StandardCharsets.UTF_8)));
                }
        return all;
    }

    /** Which calls on an answer follow from response.http.headers.config; null where Java refuses it. */
    private static List<Object> answerHeaders() throws Exception {
        List<Object> all = new ArrayList<>();
        for (String rules : List.of("", " ", "set X-A: b", "add X-A:b", "SET X-A: b", "setdate Expires: 3600000",
            "setDate Expires: 3600000", "addDate Expires: 0", "setDate Expires: -1", "set X-A: b, set X-B: c",
            "set X-A: b,add X-A: c", "\"add Cache-Control: no-cache, no-store, must-revalidate\", set X-B: c",
            "'set X-A: b, c'", "set X-A: \"b, c\"", "set X-A: \\\"b\\\"", "set X-A:", "set X-A", "set :b", "set X A: b",
            "put X-A: b", "set", "set  X-A :  b  ", "\tset\tX-A: b", "set X-A: b:c", "set X-A: http://x", "set X-A: b,", ",set X-A: b",
            "set X-A: b,,set X-B: c", "set X-A: gr\u00f6\u00dfe", "set X-A: b;c=d", "set X-A:b ,set X-B:c", "set \"X-A: b\"",
            "\"set X-A: b", "\"set X-A: b\"c", "set X-A: 'self'", "set Content-Security-Policy: default-src 'self'; x 'none'",
            "set X-A: b\\,c", "setDate Expires: soon", "setDate Expires: ", "set X-A::")) {
            Map<String, Object> answer = new HashMap<>(Map.of("rules", rules));
            answer.put("calls", calls(rules));
            all.add(answer);
        }
        return all;
    }

    private static List<List<String>> calls(String rules) throws Exception {
        try {
            RestServerConfig.forInternal(Map.of("response.http.headers.config", rules));
        } catch (ConfigException e) {
            return null;
        }
        List<List<String>> calls = new ArrayList<>();
        if (rules.isBlank())
            return calls;
        ClassLoader loader = RestVectors.class.getClassLoader();
        HttpServletRequest request = (HttpServletRequest) Proxy.newProxyInstance(loader,
            new Class<?>[] {HttpServletRequest.class}, (p, method, a) -> method.getReturnType() == String.class ? "/" : null);
        HttpServletResponse response = (HttpServletResponse) Proxy.newProxyInstance(loader,
            new Class<?>[] {HttpServletResponse.class}, (p, method, a) -> {
                if (a == null)
                    return method.getReturnType() == String.class ? "text/plain" : null;
                String value = method.getName().endsWith("DateHeader")
                    ? String.valueOf(Math.round(((Long) a[1] - System.currentTimeMillis()) / 1000.0)) : (String) a[1];
                calls.add(List.of(method.getName(), (String) a[0], value));
                return null;
            });
        FilterConfig config = (FilterConfig) Proxy.newProxyInstance(loader, new Class<?>[] {FilterConfig.class},
            (p, method, a) -> method.getName().equals("getInitParameter") && a[0].equals("headerConfig") ? rules : null);
        FilterChain chain = (one, other) -> { };
        HeaderFilter filter = new HeaderFilter();
        try {
            filter.init(config);
            filter.doFilter(request, response, chain);
        } catch (RuntimeException e) {
            return List.of(List.of("fails", e.getClass().getSimpleName(), ""));
        }
        return calls;
    }

    private static String hex(byte[] bytes) {
        return HexFormat.of().formatHex(bytes);
    }
}
