import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.security.Key;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.X509Certificate;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.TreeSet;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.TrustManagerFactory;
import javax.net.ssl.X509KeyManager;
import javax.net.ssl.X509TrustManager;

/**
 * Run by make.sh after keytool: a PKCS12 store that keytool cannot write, the choices of Java's key manager, and the
 * subjects of the certificates that Java's trust manager accepts with each PKCS12 store, null if it cannot read one.
 */
public final class KeyStores {
    private static final char[] STORE = "sesame".toCharArray();
    private static final char[] KEY = "open sesame".toCharArray();

    public static void main(String[] args) throws Exception {
        KeyStore identity = load("identity.jks", "JKS");
        Key key = identity.getKey("client", KEY);
        Certificate[] chain = identity.getCertificateChain("client");
        KeyStore other = KeyStore.getInstance("PKCS12");
        other.load(null, null);
        other.setKeyEntry("client", key, KEY, chain);
        try (FileOutputStream out = new FileOutputStream("key-password.p12")) {
            other.store(out, STORE);
        }
        List<String> lines = new ArrayList<>();
        for (String aliases : List.of("a,b", "b,a", "client", "mm2,broker-1,broker-2,\u00e4\u00f6,x",
                "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p", "kafka-client,kafka-server", "2,1,10", "Aa,BB")) {
            KeyStore several = KeyStore.getInstance("PKCS12");
            several.load(null, null);
            for (String alias : aliases.split(",")) {
                several.setKeyEntry(alias, key, KEY, chain);
            }
            KeyManagerFactory factory = KeyManagerFactory.getInstance("SunX509");
            factory.init(several, KEY);
            X509KeyManager manager = (X509KeyManager) factory.getKeyManagers()[0];
            lines.add("  \"" + aliases + "\": \"" + manager.chooseClientAlias(new String[] {"EC"}, null, null) + "\"");
        }
        try (FileOutputStream out = new FileOutputStream("chosen-aliases.json")) {
            out.write(("{\n" + String.join(",\n", lines) + "\n}\n").getBytes("UTF-8"));
        }
        lines.clear();
        String[] files = new File(".").list((directory, name) -> name.endsWith(".p12"));
        Arrays.sort(files);
        for (String file : files) {
            lines.add("  \"" + file + "\": " + acceptedIssuers(file));
        }
        try (FileOutputStream out = new FileOutputStream("accepted-issuers.json")) {
            out.write(("{\n" + String.join(",\n", lines) + "\n}\n").getBytes("UTF-8"));
        }
    }

    private static String acceptedIssuers(String file) throws Exception {
        TrustManagerFactory factory = TrustManagerFactory.getInstance("PKIX");
        try {
            factory.init(load(file, "PKCS12"));
        } catch (IOException error) {
            return "null";
        }
        TreeSet<String> names = new TreeSet<>();
        for (X509Certificate one : ((X509TrustManager) factory.getTrustManagers()[0]).getAcceptedIssuers()) {
            names.add("\"" + one.getSubjectX500Principal() + "\"");
        }
        return "[" + String.join(", ", names) + "]";
    }

    private static KeyStore load(String file, String type) throws Exception {
        KeyStore store = KeyStore.getInstance(type);
        try (FileInputStream in = new FileInputStream(file)) {
            store.load(in, STORE);
        }
        return store;
    }
}
