package steadfast.events;

import com.azure.core.amqp.AmqpTransportType;
import com.azure.messaging.eventhubs.models.EventPosition;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.List;
import java.util.Map;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** Connections by TLS, which the SDK takes from the JVM's default context. */
final class Encrypted {
    private Encrypted() {
    }

    static void addTo(Map<String, Run.Scenario> all) {
        all.put("overTls", server -> talk(server, "amqps", AmqpTransportType.AMQP));
        all.put("overWebSocket", server -> talk(server, "https", AmqpTransportType.AMQP_WEB_SOCKETS));
    }

    private static void talk(Server server, String port, AmqpTransportType transport) throws Exception {
        trust(Path.of(server.said("certificate")));
        EventPosition start = Events.end(server.encrypted("houses", port, transport), "3");
        Events.send(server.encrypted("houses", port, transport), "3", List.of(port, "encrypted"));
        var events = Events.read(server.encrypted("houses", port, transport), "3", start, 2);
        Check.equal(Events.bodies(events), List.of(port, "encrypted"), "the bodies");
    }

    /** Like -Djavax.net.ssl.trustStore, with a certificate instead of a store. */
    private static void trust(Path certificate) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        try (InputStream input = Files.newInputStream(certificate)) {
            store.setCertificateEntry("server", CertificateFactory.getInstance("X.509").generateCertificate(input));
        }
        TrustManagerFactory factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        factory.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, factory.getTrustManagers(), null);
        SSLContext.setDefault(context);
    }
}
