import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.security.Key;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.util.ArrayList;
import java.util.List;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.X509KeyManager;

/** Run by make.sh after keytool: a PKCS12 store that keytool cannot write, and the choices of Java's key manager. */
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
    }

    private static KeyStore load(String file, String type) throws Exception {
        KeyStore store = KeyStore.getInstance(type);
        try (FileInputStream in = new FileInputStream(file)) {
            store.load(in, STORE);
        }
        return store;
    }
}
