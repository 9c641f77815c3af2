package steadfast.events;

import com.azure.core.amqp.exception.AmqpErrorCondition;
import com.azure.core.amqp.exception.AmqpException;
import com.azure.messaging.eventhubs.EventData;
import com.azure.messaging.eventhubs.EventHubProducerAsyncClient;
import com.azure.messaging.eventhubs.EventHubProducerClient;
import com.azure.messaging.eventhubs.models.CreateBatchOptions;
import com.azure.messaging.eventhubs.models.EventPosition;
import com.azure.messaging.eventhubs.models.SendOptions;
import java.util.List;
import java.util.Map;

/** What clients are told when they may not. */
final class Refusals {
    private Refusals() {
    }

    static void addTo(Map<String, Run.Scenario> all) {
        all.put("beyondTheEnd", Refusals::beyondTheEnd);
        all.put("unknownEventHub", Refusals::unknownEventHub);
        all.put("unknownGroup", Refusals::unknownGroup);
        all.put("unknownPartition", Refusals::unknownPartition);
        all.put("badKey", Refusals::badKey);
        all.put("tooLarge", Refusals::tooLarge);
        all.put("errors", Refusals::errors);
    }

    private static void beyondTheEnd(Server server) {
        EventPosition start = EventPosition.fromOffsetString("99999999");
        Check.refused(AmqpErrorCondition.ARGUMENT_ERROR, "The supplied offset '99999999' is invalid",
            () -> Events.read(server.impatient("positions"), "0", start, 1));
    }

    private static void unknownEventHub(Server server) {
        String words = "The messaging entity 'nowhere' could not be found";
        AmqpErrorCondition condition = AmqpErrorCondition.NOT_FOUND;
        try (EventHubProducerClient client = server.impatient("nowhere").buildProducerClient()) {
            Check.refused(condition, words, client::getEventHubProperties);
            Check.refused(condition, words, client::createBatch);
            Check.refused(condition, words, () -> send(client, new EventData("x"), new SendOptions()));
        }
    }

    private static void unknownGroup(Server server) {
        Check.refused(AmqpErrorCondition.NOT_FOUND, "could not be found",
            () -> Events.read(server.impatient("houses").consumerGroup("nobody"), "0", EventPosition.earliest(), 1));
    }

    private static void unknownPartition(Server server) {
        String words = "The specified partition is invalid";
        AmqpErrorCondition condition = AmqpErrorCondition.ARGUMENT_OUT_OF_RANGE_ERROR;
        try (EventHubProducerClient client = server.impatient("houses").buildProducerClient()) {
            for (String partition : List.of("4", "XYZ", "-1")) {
                var refused = Check.refused(
                    IllegalArgumentException.class, () -> client.getPartitionProperties(partition));
                Check.that(refused.getMessage().contains(words), refused);
                CreateBatchOptions options = new CreateBatchOptions().setPartitionId(partition);
                Check.refused(condition, words, () -> client.createBatch(options));
                SendOptions there = new SendOptions().setPartitionId(partition);
                Check.refused(condition, words, () -> send(client, new EventData("x"), there));
            }
        }
        Check.refused(condition, words,
            () -> Events.read(server.impatient("houses"), "4", EventPosition.earliest(), 1));
    }

    private static void badKey(Server server) {
        int port = Integer.parseInt(server.said("amqp"));
        String text = server.connectionString("wrong", port);
        var hub = server.impatient("houses").connectionString(text, "houses");
        try (EventHubProducerClient client = hub.buildProducerClient()) {
            Check.refused(AmqpErrorCondition.UNAUTHORIZED_ACCESS, "STF-6003",
                () -> send(client, new EventData("x"), new SendOptions()));
            Check.refused(AmqpErrorCondition.UNAUTHORIZED_ACCESS, "STF-6003", client::getEventHubProperties);
        }
    }

    private static void tooLarge(Server server) {
        EventPosition start = Events.end(server.hub("large"), "0");
        try (EventHubProducerClient client = server.impatient("large").buildProducerClient()) {
            Check.equal(client.createBatch().getMaxSizeInBytes(), 1_048_576, "the largest batch");
            // The client keeps 16 KiB of a message for itself, and sends nothing of what lies in between.
            client.send(List.of(new EventData(new byte[1_032_000])));
            // The client knows the bound of the link, and refuses by itself.
            Check.refused(AmqpErrorCondition.LINK_PAYLOAD_SIZE_EXCEEDED, "",
                () -> send(client, new EventData(new byte[1_100_000]), new SendOptions()));
            client.send(List.of(new EventData("again")));
        }
        List<EventData> events = Events.read(server.hub("large"), "0", start, 2);
        Check.equal(events.get(0).getBody().length, 1_032_000, "the large one");
        Check.equal(events.get(1).getBodyAsString(), "again", "the next");
    }

    /** The same from the client without threads that wait. */
    private static void errors(Server server) {
        try (EventHubProducerAsyncClient client = server.impatient("nowhere").buildAsyncProducerClient()) {
            AmqpException error = Check.refused(AmqpErrorCondition.NOT_FOUND, "could not be found",
                () -> client.send(List.of(new EventData("x"))).block());
            Check.that(!error.isTransient(), "an unknown event hub is not tried again");
        }
    }

    private static Object send(EventHubProducerClient client, EventData event, SendOptions options) {
        client.send(List.of(event), options);
        return null;
    }
}
