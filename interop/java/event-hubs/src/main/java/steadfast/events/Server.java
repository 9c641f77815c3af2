package steadfast.events;

import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.core.amqp.AmqpTransportType;
import com.azure.messaging.eventhubs.EventHubClientBuilder;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.time.Duration;

/** The server that the scenarios talk to. */
final class Server {
    private final JsonNode said;

    Server(String said) throws IOException {
        this.said = new ObjectMapper().readTree(said);
    }

    /** A value that the server said about itself. */
    String said(String name) {
        return said.get(name).asText();
    }

    boolean isEncrypted() {
        return said.has("certificate");
    }

    /** For a connection that is not encrypted. */
    String connectionString() {
        return connectionString(said("key"), said.get("amqp").asInt());
    }

    String connectionString(String key, int port) {
        return text("localhost:" + port, key) + ";UseDevelopmentEmulator=true";
    }

    /** For the Blob service. */
    String blobs() {
        return blobs(said("account_key"));
    }

    String blobs(String key) {
        return "DefaultEndpointsProtocol=http;AccountName=" + said("account") + ";AccountKey=" + key
            + ";BlobEndpoint=" + blobUrl() + ";";
    }

    String blobUrl() {
        return "http://127.0.0.1:" + said("blob") + "/" + said("account");
    }

    /** Clients with the defaults of the SDK. */
    EventHubClientBuilder hub(String name) {
        return new EventHubClientBuilder().connectionString(connectionString(), name).consumerGroup("$Default");
    }

    /** Clients that show an error at once. */
    EventHubClientBuilder impatient(String name) {
        return hub(name).retryOptions(noRetry());
    }

    static AmqpRetryOptions noRetry() {
        return new AmqpRetryOptions().setMaxRetries(0).setTryTimeout(Duration.ofSeconds(10));
    }

    /** Clients of an encrypted port. */
    EventHubClientBuilder encrypted(String name, String port, AmqpTransportType transport) {
        return new EventHubClientBuilder()
            .connectionString(text("localhost", said("key")), name)
            .consumerGroup("$Default")
            .customEndpointAddress("sb://localhost:" + said(port))
            .transportType(transport);
    }

    private String text(String host, String key) {
        return "Endpoint=sb://" + host + ";SharedAccessKeyName=" + said("key_name") + ";SharedAccessKey=" + key;
    }
}
