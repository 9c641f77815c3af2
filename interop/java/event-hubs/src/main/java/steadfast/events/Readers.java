package steadfast.events;

import com.azure.core.amqp.exception.AmqpErrorCondition;
import com.azure.messaging.eventhubs.EventData;
import com.azure.messaging.eventhubs.EventHubConsumerAsyncClient;
import com.azure.messaging.eventhubs.EventHubConsumerClient;
import com.azure.messaging.eventhubs.EventHubProducerClient;
import com.azure.messaging.eventhubs.PartitionProperties;
import com.azure.messaging.eventhubs.models.EventPosition;
import com.azure.messaging.eventhubs.models.LastEnqueuedEventProperties;
import com.azure.messaging.eventhubs.models.PartitionEvent;
import com.azure.messaging.eventhubs.models.ReceiveOptions;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** What readers see. */
final class Readers {
    private Readers() {
    }

    static void addTo(Map<String, Run.Scenario> all) {
        all.put("everyKindOfPosition", Readers::everyKindOfPosition);
        all.put("latestSeesWhatComes", Readers::latestSeesWhatComes);
        all.put("waitingReads", Readers::waitingReads);
        all.put("allPartitions", Readers::allPartitions);
        all.put("stolenByOwnerLevel", Readers::stolenByOwnerLevel);
        all.put("lastEnqueuedProperties", Readers::lastEnqueuedProperties);
    }

    private static void everyKindOfPosition(Server server) throws InterruptedException {
        EventPosition start = Events.end(server.hub("positions"), "0");
        for (int number = 0; number < 3; number += 1) {
            Events.send(server.hub("positions"), "0", List.of(number + "-a", number + "-b"));
            // The times of batches differ.
            Thread.sleep(20);
        }
        List<EventData> all = Events.read(server.hub("positions"), "0", start, 6);
        List<String> names = Events.bodies(all);
        EventData third = all.get(2);
        String offset = third.getOffsetString();
        Map<EventPosition, Integer> cases = new LinkedHashMap<>();
        cases.put(start, 0);
        cases.put(EventPosition.fromOffsetString(offset), 3);
        cases.put(EventPosition.fromSequenceNumber(third.getSequenceNumber()), 3);
        cases.put(EventPosition.fromSequenceNumber(third.getSequenceNumber(), true), 2);
        cases.put(EventPosition.fromEnqueuedTime(third.getEnqueuedTime().minusMillis(1)), 2);
        cases.forEach((position, first) -> {
            List<EventData> events = Events.read(server.hub("positions"), "0", position, 6 - first);
            Check.equal(Events.bodies(events), names.subList(first, 6), position.toString());
        });
    }

    private static void latestSeesWhatComes(Server server) throws Exception {
        try (EventHubConsumerAsyncClient client = server.hub("positions").buildAsyncConsumerClient()) {
            CompletableFuture<String> first = client.receiveFromPartition("0", EventPosition.latest())
                .map(event -> event.getData().getBodyAsString())
                .next()
                .toFuture();
            for (int number = 0; !first.isDone() && number < 100; number += 1) {
                Events.send(server.hub("positions"), "0", List.of("late " + number));
                try {
                    first.get(200, TimeUnit.MILLISECONDS);
                } catch (java.util.concurrent.TimeoutException again) {
                    // The reader was not there yet.
                }
            }
            Check.that(first.get(1, TimeUnit.SECONDS).startsWith("late"), first);
        }
    }

    /** Calls that wait for events, and go on where the one before ended. */
    private static void waitingReads(Server server) {
        EventPosition start = Events.end(server.hub("positions"), "0");
        Events.send(server.hub("positions"), "0", List.of("a", "b", "c", "d", "e"));
        try (EventHubConsumerClient client = server.hub("positions").buildConsumerClient()) {
            List<PartitionEvent> some =
                client.receiveFromPartition("0", 3, start, Duration.ofSeconds(20)).stream().toList();
            List<EventData> events = some.stream().map(PartitionEvent::getData).toList();
            Check.equal(Events.bodies(events), List.of("a", "b", "c"), "the first");
            EventPosition next = EventPosition.fromOffsetString(events.get(2).getOffsetString());
            some = client.receiveFromPartition("0", 2, next, Duration.ofSeconds(20)).stream().toList();
            events = some.stream().map(PartitionEvent::getData).toList();
            Check.equal(Events.bodies(events), List.of("d", "e"), "the rest");
        }
    }

    /** One reader of all partitions. */
    private static void allPartitions(Server server) {
        try (EventHubProducerClient producer = server.hub("even").buildProducerClient();
            EventHubConsumerAsyncClient client = server.hub("even").buildAsyncConsumerClient()) {
            producer.getPartitionIds().forEach(id -> Events.send(server.hub("even"), id, List.of("every " + id)));
            List<String> found = client.receive(true)
                .map(event -> event.getData().getBodyAsString())
                .filter(body -> body.startsWith("every"))
                .distinct()
                .take(4)
                .timeout(Events.PATIENCE)
                .sort()
                .collectList()
                .block();
            Check.equal(found, List.of("every 0", "every 1", "every 2", "every 3"), "the events");
        }
    }

    private static void stolenByOwnerLevel(Server server) throws Exception {
        Events.send(server.hub("epochs"), "0", List.of("x"));
        try (EventHubConsumerAsyncClient older = server.impatient("epochs").buildAsyncConsumerClient();
            EventHubConsumerAsyncClient newer = server.impatient("epochs").buildAsyncConsumerClient()) {
            CompletableFuture<Void> came = new CompletableFuture<>();
            CompletableFuture<Void> stolen = older
                .receiveFromPartition("0", EventPosition.earliest(), new ReceiveOptions().setOwnerLevel(1L))
                .doOnNext(event -> came.complete(null))
                .then()
                .toFuture();
            came.get(20, TimeUnit.SECONDS);
            CompletableFuture<Void> again = new CompletableFuture<>();
            CompletableFuture<Void> owner = newer
                .receiveFromPartition("0", EventPosition.earliest(), new ReceiveOptions().setOwnerLevel(2L))
                .doOnNext(event -> again.complete(null))
                .then()
                .toFuture();
            again.get(20, TimeUnit.SECONDS);
            Check.refused(AmqpErrorCondition.LINK_STOLEN, "with higher epoch of '2'",
                () -> stolen.get(20, TimeUnit.SECONDS));
            // A lower level is refused, and the owner goes on.
            ReceiveOptions low = new ReceiveOptions().setOwnerLevel(1L);
            Check.refused(AmqpErrorCondition.LINK_STOLEN, "with a higher epoch '2' already exists",
                () -> Events.partitionEvents(server.impatient("epochs"), "0", EventPosition.earliest(), 1, low));
            Check.that(!owner.isDone(), owner);
        }
    }

    private static void lastEnqueuedProperties(Server server) {
        EventPosition start = Events.end(server.hub("positions"), "0");
        Events.send(server.hub("positions"), "0", List.of("one", "two"));
        ReceiveOptions options = new ReceiveOptions().setTrackLastEnqueuedEventProperties(true);
        PartitionEvent event = Events.partitionEvents(server.hub("positions"), "0", start, 1, options).get(0);
        LastEnqueuedEventProperties told = event.getLastEnqueuedEventProperties();
        try (EventHubProducerClient client = server.hub("positions").buildProducerClient()) {
            PartitionProperties end = client.getPartitionProperties("0");
            Check.equal(told.getSequenceNumber(), end.getLastEnqueuedSequenceNumber(), "the number");
            Check.equal(told.getOffsetString(), end.getLastEnqueuedOffset(), "the offset");
            Check.equal(told.getEnqueuedTime(), end.getLastEnqueuedTime(), "the time");
        }
    }
}
