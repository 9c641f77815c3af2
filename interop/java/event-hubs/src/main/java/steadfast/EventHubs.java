package steadfast;

import com.azure.messaging.eventhubs.EventData;
import com.azure.messaging.eventhubs.EventHubClientBuilder;
import com.azure.messaging.eventhubs.EventProcessorClient;
import com.azure.messaging.eventhubs.EventProcessorClientBuilder;
import com.azure.messaging.eventhubs.checkpointstore.blob.BlobCheckpointStore;
import com.azure.messaging.eventhubs.models.EventPosition;
import com.azure.messaging.eventhubs.models.SendOptions;
import com.azure.storage.blob.BlobContainerAsyncClient;
import com.azure.storage.blob.BlobContainerClientBuilder;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.IntStream;

/** Sends events, and lets two processors share them by blobs. */
public final class EventHubs {
    private static final String HUB = "houses";
    private static final String GROUP = "$Default";
    private static final int COUNT = 100;

    private final Map<String, Integer> seen = new ConcurrentHashMap<>();
    private final Queue<String> troubles = new ConcurrentLinkedQueue<>();
    private final String run = UUID.randomUUID().toString();

    public static void main(String[] arguments) throws InterruptedException {
        System.exit(new EventHubs().run());
    }

    private static String setting(String name) {
        String value = System.getenv(name);
        if (value == null) {
            throw new IllegalStateException(name + " is not set");
        }
        return value;
    }

    private int run() throws InterruptedException {
        BlobContainerAsyncClient container = new BlobContainerClientBuilder()
            .connectionString(setting("BLOBS"))
            .containerName("java-checkpoints")
            .buildAsyncClient();
        container.createIfNotExists().block();
        send();
        List<EventProcessorClient> processors =
            IntStream.range(0, 2).mapToObj(number -> processor(container, number)).toList();
        processors.forEach(EventProcessorClient::start);
        Instant limit = Instant.now().plus(Duration.ofMinutes(2));
        while (seen.size() < COUNT && Instant.now().isBefore(limit)) {
            Thread.sleep(100);
        }
        processors.forEach(EventProcessorClient::stop);
        if (seen.size() < COUNT) {
            System.err.println(seen.size() + " of " + COUNT + " events came; " + troubles);
            return 1;
        }
        long owners = seen.values().stream().distinct().count();
        System.out.println("ok: " + COUNT + " events by " + owners + " processors");
        return 0;
    }

    private void send() {
        try (var producer = new EventHubClientBuilder()
            .connectionString(setting("EVENTS"), HUB)
            .buildProducerClient()) {
            for (int number = 0; number < COUNT; number += 1) {
                var options = new SendOptions().setPartitionKey("house-" + number);
                producer.send(List.of(new EventData(run + " " + number)), options);
            }
        }
    }

    private EventProcessorClient processor(BlobContainerAsyncClient container, int number) {
        return new EventProcessorClientBuilder()
            .connectionString(setting("EVENTS"), HUB)
            .consumerGroup(GROUP)
            .checkpointStore(new BlobCheckpointStore(container))
            .loadBalancingUpdateInterval(Duration.ofSeconds(2))
            .partitionOwnershipExpirationInterval(Duration.ofSeconds(12))
            .initialPartitionEventPosition(partition -> EventPosition.earliest())
            .processEvent(context -> {
                String text = context.getEventData().getBodyAsString();
                if (text.startsWith(run)) {
                    seen.putIfAbsent(text, number);
                }
                context.updateCheckpoint();
            })
            .processError(context -> troubles.add(context.getThrowable().toString()))
            .buildEventProcessorClient();
    }
}
