package steadfast.events;

import com.azure.messaging.eventhubs.EventData;
import com.azure.messaging.eventhubs.EventDataBatch;
import com.azure.messaging.eventhubs.EventHubClientBuilder;
import com.azure.messaging.eventhubs.EventHubConsumerAsyncClient;
import com.azure.messaging.eventhubs.EventHubProducerClient;
import com.azure.messaging.eventhubs.models.CreateBatchOptions;
import com.azure.messaging.eventhubs.models.EventPosition;
import com.azure.messaging.eventhubs.models.PartitionEvent;
import com.azure.messaging.eventhubs.models.ReceiveOptions;
import java.time.Duration;
import java.util.List;

/** What most scenarios do: send some events, find the end, read some. */
final class Events {
    static final Duration PATIENCE = Duration.ofSeconds(30);

    private Events() {
    }

    /** One batch to a partition. */
    static void send(EventHubClientBuilder hub, String partition, List<String> bodies) {
        try (EventHubProducerClient client = hub.buildProducerClient()) {
            EventDataBatch batch = client.createBatch(new CreateBatchOptions().setPartitionId(partition));
            for (String body : bodies) {
                Check.that(batch.tryAdd(new EventData(body)), "the batch is full");
            }
            client.send(batch);
        }
    }

    /** Behind the last event of a partition. */
    static EventPosition end(EventHubClientBuilder hub, String partition) {
        long last = last(hub, partition);
        return last < 0 ? EventPosition.earliest() : EventPosition.fromSequenceNumber(last);
    }

    static long last(EventHubClientBuilder hub, String partition) {
        try (EventHubProducerClient client = hub.buildProducerClient()) {
            return client.getPartitionProperties(partition).getLastEnqueuedSequenceNumber();
        }
    }

    /** So many events of a partition, from a position on. */
    static List<EventData> read(EventHubClientBuilder hub, String partition, EventPosition start, int count) {
        return partitionEvents(hub, partition, start, count, new ReceiveOptions()).stream()
            .map(PartitionEvent::getData)
            .toList();
    }

    static List<PartitionEvent> partitionEvents(
        EventHubClientBuilder hub, String partition, EventPosition start, int count, ReceiveOptions options) {
        try (EventHubConsumerAsyncClient client = hub.buildAsyncConsumerClient()) {
            return client.receiveFromPartition(partition, start, options)
                .take(count)
                .timeout(PATIENCE)
                .collectList()
                .block();
        }
    }

    static List<String> bodies(List<EventData> events) {
        return events.stream().map(EventData::getBodyAsString).toList();
    }
}
