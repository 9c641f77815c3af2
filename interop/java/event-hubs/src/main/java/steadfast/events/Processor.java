package steadfast.events;

import com.azure.messaging.eventhubs.EventData;
import com.azure.messaging.eventhubs.EventProcessorClient;
import com.azure.messaging.eventhubs.EventProcessorClientBuilder;
import com.azure.messaging.eventhubs.LoadBalancingStrategy;
import com.azure.messaging.eventhubs.checkpointstore.blob.BlobCheckpointStore;
import com.azure.messaging.eventhubs.models.EventPosition;
import com.azure.messaging.eventhubs.models.PartitionContext;
import com.azure.storage.blob.BlobContainerClientBuilder;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.Map;

/**
 * A processor that runs until its input ends: Processor {what the server said} {options}.
 *
 * <p>Options are JSON: hub, group, container, interval and expiry in seconds, and whether it is
 * alone, without processors of other SDKs. Every line that it prints is JSON: what it owns, what it got, what it
 * gave up.
 */
public final class Processor {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Processor() {
    }

    public static void main(String[] arguments) throws Exception {
        Server server = new Server(arguments[0]);
        JsonNode options = JSON.readTree(arguments[1]);
        var container = new BlobContainerClientBuilder()
            .connectionString(server.blobs())
            .containerName(options.get("container").asText())
            .buildAsyncClient();
        long interval = options.get("interval").asLong();
        EventProcessorClientBuilder builder = new EventProcessorClientBuilder()
            .connectionString(server.connectionString(), options.get("hub").asText())
            .consumerGroup(options.get("group").asText())
            .checkpointStore(new BlobCheckpointStore(container))
            .loadBalancingStrategy(LoadBalancingStrategy.GREEDY)
            .loadBalancingUpdateInterval(Duration.ofSeconds(interval))
            .partitionOwnershipExpirationInterval(Duration.ofSeconds(options.get("expiry").asLong()))
            .initialPartitionEventPosition(partition -> EventPosition.earliest())
            .processPartitionInitialization(context ->
                say(Map.of("began", context.getPartitionContext().getPartitionId())))
            .processPartitionClose(context -> say(Map.of(
                "ended", context.getPartitionContext().getPartitionId(),
                "reason", context.getCloseReason().toString())))
            .processError(context -> say(Map.of("error", context.getThrowable().toString())));
        if (options.get("alone").asBoolean()) {
            byEvent(builder);
        } else {
            byBatch(builder);
        }
        EventProcessorClient processor = builder.buildEventProcessorClient();
        processor.start();
        System.in.transferTo(java.io.OutputStream.nullOutputStream());
        processor.stop();
        say(Map.of("left", true));
        System.exit(0);
    }

    /** This release writes no offset into such checkpoints, without which other SDKs cannot read them. */
    private static void byEvent(EventProcessorClientBuilder builder) {
        builder.processEvent(context -> {
            got(context.getEventData(), context.getPartitionContext());
            context.updateCheckpoint();
            say(Map.of("kept", context.getEventData().getBodyAsString()));
        });
    }

    private static void byBatch(EventProcessorClientBuilder builder) {
        builder.processEventBatch(context -> {
            context.getEvents().forEach(event -> got(event, context.getPartitionContext()));
            context.updateCheckpoint();
            context.getEvents().forEach(event -> say(Map.of("kept", event.getBodyAsString())));
        }, 10, Duration.ofMillis(100));
    }

    private static void got(EventData event, PartitionContext partition) {
        say(Map.of(
            "got", event.getBodyAsString(),
            "partition", partition.getPartitionId(),
            "sequence", event.getSequenceNumber()));
    }

    private static synchronized void say(Map<String, Object> facts) {
        try {
            System.out.println(JSON.writeValueAsString(facts));
        } catch (JsonProcessingException error) {
            throw new IllegalStateException(error);
        }
    }
}
