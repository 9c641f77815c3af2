package steadfast.events;

import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.core.amqp.exception.AmqpException;
import com.azure.core.amqp.models.AmqpAnnotatedMessage;
import com.azure.messaging.eventhubs.EventData;
import com.azure.messaging.eventhubs.EventHubBufferedProducerClient;
import com.azure.messaging.eventhubs.EventHubBufferedProducerClientBuilder;
import com.azure.messaging.eventhubs.EventHubConsumerAsyncClient;
import com.azure.messaging.eventhubs.EventHubProducerAsyncClient;
import com.azure.messaging.eventhubs.EventHubProducerClient;
import com.azure.messaging.eventhubs.EventHubProperties;
import com.azure.messaging.eventhubs.PartitionProperties;
import com.azure.messaging.eventhubs.models.CreateBatchOptions;
import com.azure.messaging.eventhubs.models.EventPosition;
import com.azure.messaging.eventhubs.models.SendOptions;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Date;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.IntStream;
import reactor.core.publisher.Flux;

/** What senders do, and what they ask for. */
final class Senders {
    /** Keys, and their partitions of 16. */
    private static final Map<String, Integer> VECTORS = Map.of(
        "a", 12,
        "alphabet", 6,
        "pk1", 13,
        "house-42", 15,
        "house-99999", 3,
        "123456789012", 5,
        "1234567890123", 10,
        "abcdefghijklmnopqrstuvwx", 4,
        "Straße", 14,
        "partition-key-that-is-longer-than-24-bytes", 5);

    private Senders() {
    }

    static void addTo(Map<String, Run.Scenario> all) {
        all.put("properties", Senders::properties);
        all.put("manyConnections", Senders::manyConnections);
        all.put("batchOf500", Senders::batchOf500);
        all.put("singleAndBatchOfOne", Senders::singleAndBatchOfOne);
        all.put("sendsReturnAtOnce", Senders::sendsReturnAtOnce);
        all.put("keyedSends", Senders::keyedSends);
        all.put("keylessSendsSpreadEvenly", Senders::keylessSendsSpreadEvenly);
        all.put("typedProperties", Senders::typedProperties);
        all.put("annotatedMessages", Senders::annotatedMessages);
        all.put("sendAndRead", Senders::sendAndRead);
        all.put("parallelSendersKeepOrder", Senders::parallelSendersKeepOrder);
        all.put("bufferedSends", Senders::bufferedSends);
        all.put("lostConnections", Senders::lostConnections);
    }

    private static void properties(Server server) {
        try (EventHubProducerClient client = server.hub("HOUSES").buildProducerClient()) {
            EventHubProperties hub = client.getEventHubProperties();
            Check.equal(hub.getName(), "houses", "the name");
            Check.equal(hub.getPartitionIds().stream().toList(), List.of("0", "1", "2", "3"), "partitions");
            Duration age = Duration.between(hub.getCreatedAt(), Instant.now());
            Check.that(!age.isNegative() && age.toHours() < 1, age);
        }
        try (EventHubProducerClient client = server.hub("empty").buildProducerClient()) {
            PartitionProperties empty = client.getPartitionProperties("0");
            Check.that(empty.isEmpty(), "it is empty");
            Check.equal(empty.getLastEnqueuedSequenceNumber(), -1L, "the last number");
            Check.equal(empty.getLastEnqueuedOffset(), "-1", "the last offset");
        }
    }

    /** Each client has a connection of its own. */
    private static void manyConnections(Server server) throws Exception {
        var pool = Executors.newFixedThreadPool(16);
        List<Future<?>> all = new ArrayList<>();
        for (int number = 0; number < 100; number += 1) {
            all.add(pool.submit(() -> {
                try (EventHubProducerClient client = server.impatient("houses").buildProducerClient()) {
                    Check.equal(client.getPartitionIds().stream().count(), 4L, "partitions");
                }
            }));
        }
        for (Future<?> each : all) {
            each.get();
        }
        pool.shutdown();
    }

    private static void batchOf500(Server server) {
        List<String> bodies = IntStream.range(0, 500).mapToObj(String::valueOf).toList();
        long last = Events.last(server.hub("houses"), "0");
        EventPosition start = Events.end(server.hub("houses"), "0");
        Events.send(server.hub("houses"), "0", bodies);
        List<EventData> events = Events.read(server.hub("houses"), "0", start, 500);
        Check.equal(Events.bodies(events), bodies, "the bodies");
        for (EventData event : events) {
            last += 1;
            Check.equal(event.getSequenceNumber(), last, "a number");
            Check.that(event.getOffsetString() != null, "it has an offset");
        }
    }

    private static void singleAndBatchOfOne(Server server) {
        EventPosition start = Events.end(server.hub("houses"), "1");
        try (EventHubProducerClient client = server.hub("houses").buildProducerClient()) {
            SendOptions options = new SendOptions().setPartitionId("1");
            client.send(List.of(new EventData("same")), options);
        }
        Events.send(server.hub("houses"), "1", List.of("same"));
        List<EventData> events = Events.read(server.hub("houses"), "1", start, 2);
        Check.equal(Events.bodies(events), List.of("same", "same"), "the bodies");
        Check.equal(events.get(0).getProperties(), events.get(1).getProperties(), "the properties");
        Check.equal(events.get(0).getPartitionKey(), events.get(1).getPartitionKey(), "the keys");
    }

    private static void sendsReturnAtOnce(Server server) {
        try (EventHubProducerClient client = server.hub("houses").buildProducerClient()) {
            client.send(List.of(new EventData("first")));
            Instant started = Instant.now();
            for (int number = 0; number < 20; number += 1) {
                client.send(List.of(new EventData("x")));
            }
            Duration taken = Duration.between(started, Instant.now());
            Check.that(taken.toSeconds() < 5, taken);
        }
    }

    private static void keyedSends(Server server) {
        EventPosition start = Events.end(server.hub("keys"), "15");
        try (EventHubProducerClient client = server.hub("keys").buildProducerClient()) {
            VECTORS.forEach((key, partition) -> {
                String id = String.valueOf(partition);
                long before = client.getPartitionProperties(id).getLastEnqueuedSequenceNumber();
                client.send(List.of(new EventData(key)), new SendOptions().setPartitionKey(key));
                var batch = client.createBatch(new CreateBatchOptions().setPartitionKey(key));
                batch.tryAdd(new EventData(key));
                client.send(batch);
                long after = client.getPartitionProperties(id).getLastEnqueuedSequenceNumber();
                Check.equal(after, before + 2, key);
            });
        }
        for (EventData event : Events.read(server.hub("keys"), "15", start, 2)) {
            Check.equal(event.getPartitionKey(), "house-42", "the key");
        }
    }

    private static void keylessSendsSpreadEvenly(Server server) {
        try (EventHubProducerClient client = server.hub("even").buildProducerClient()) {
            List<String> partitions = client.getPartitionIds().stream().toList();
            List<Long> before = partitions.stream().map(id -> lastOf(client, id)).toList();
            for (int number = 0; number < 40; number += 1) {
                client.send(List.of(new EventData("x")));
            }
            List<Long> grown = IntStream.range(0, partitions.size())
                .mapToObj(index -> lastOf(client, partitions.get(index)) - before.get(index))
                .toList();
            Check.equal(grown, List.of(10L, 10L, 10L, 10L), "the partitions");
        }
    }

    private static long lastOf(EventHubProducerClient client, String partition) {
        return client.getPartitionProperties(partition).getLastEnqueuedSequenceNumber();
    }

    private static void typedProperties(Server server) {
        Map<String, Object> sent = Map.ofEntries(
            Map.entry("text", "Straße"),
            Map.entry("byte", (byte) -7),
            Map.entry("short", (short) 300),
            Map.entry("int", 1 << 30),
            Map.entry("long", 1L << 40),
            Map.entry("float", 0.5f),
            Map.entry("real", 1.5),
            Map.entry("yes", true),
            Map.entry("letter", 'ß'),
            Map.entry("id", UUID.fromString("c0ffee00-0000-4000-8000-000000000001")),
            Map.entry("time", new Date(1_700_000_000_000L)));
        byte[] body = {0, 1, -2, -1};
        EventData event = new EventData(body);
        event.getProperties().putAll(sent);
        event.setContentType("application/octet-stream").setMessageId("m-1").setCorrelationId("c-1");
        EventPosition start = Events.end(server.hub("typed"), "0");
        try (EventHubProducerClient client = server.hub("typed").buildProducerClient()) {
            client.send(List.of(event));
            client.send(List.of(new EventData(new byte[0])));
        }
        List<EventData> events = Events.read(server.hub("typed"), "0", start, 2);
        EventData got = events.get(0);
        Check.equal(got.getBody(), body, "the body");
        Check.equal(got.getContentType(), "application/octet-stream", "the content type");
        Check.equal(List.of(got.getMessageId(), got.getCorrelationId()), List.of("m-1", "c-1"), "the ids");
        Check.equal(Map.copyOf(got.getProperties()), sent, "the properties");
        Check.equal(events.get(1).getBody().length, 0, "nothing");
    }

    /** Everything that a message may have, but for a footer: the SDK cannot read those that it writes. */
    private static void annotatedMessages(Server server) {
        EventData event = new EventData("full");
        AmqpAnnotatedMessage raw = event.getRawAmqpMessage();
        raw.getHeader().setDurable(true).setPriority((short) 7);
        raw.getDeliveryAnnotations().put("hop", "one");
        raw.getMessageAnnotations().put("mine", "annotation");
        raw.getProperties().setSubject("subject").setGroupId("group").setReplyToGroupId("reply");
        EventPosition start = Events.end(server.hub("typed"), "0");
        try (EventHubProducerClient client = server.hub("typed").buildProducerClient()) {
            client.send(List.of(event));
        }
        EventData got = Events.read(server.hub("typed"), "0", start, 1).get(0);
        AmqpAnnotatedMessage found = got.getRawAmqpMessage();
        Check.equal(got.getBodyAsString(), "full", "the body");
        Check.equal(found.getHeader().isDurable(), true, "durable");
        Check.equal(found.getHeader().getPriority(), (short) 7, "the priority");
        Check.equal(found.getDeliveryAnnotations().get("hop"), "one", "a delivery annotation");
        Check.equal(found.getMessageAnnotations().get("mine"), "annotation", "an annotation");
        Check.equal(found.getProperties().getSubject(), "subject", "the subject");
        Check.equal(found.getProperties().getGroupId(), "group", "the group");
    }

    /** The client without threads that wait. */
    private static void sendAndRead(Server server) {
        EventPosition start = Events.end(server.hub("houses"), "2");
        List<String> bodies = IntStream.range(0, 100).mapToObj(String::valueOf).toList();
        try (EventHubProducerAsyncClient client = server.hub("houses").buildAsyncProducerClient()) {
            SendOptions options = new SendOptions().setPartitionId("2");
            client.createBatch(new CreateBatchOptions().setPartitionId("2"))
                .flatMap(batch -> {
                    bodies.forEach(body -> batch.tryAdd(new EventData(body)));
                    return client.send(batch);
                })
                .then(client.send(List.of(new EventData("last")), options))
                .block(Events.PATIENCE);
        }
        List<String> expected = new ArrayList<>(bodies);
        expected.add("last");
        Check.equal(Events.bodies(Events.read(server.hub("houses"), "2", start, 101)), expected, "the bodies");
    }

    private static void parallelSendersKeepOrder(Server server) throws Exception {
        long last = Events.last(server.hub("houses"), "1");
        EventPosition start = Events.end(server.hub("houses"), "1");
        var pool = Executors.newFixedThreadPool(8);
        List<Future<?>> senders = new ArrayList<>();
        for (int name = 0; name < 8; name += 1) {
            String own = name + " ";
            senders.add(pool.submit(() -> {
                try (EventHubProducerClient client = server.hub("houses").buildProducerClient()) {
                    SendOptions options = new SendOptions().setPartitionId("1");
                    for (int number = 0; number < 20; number += 1) {
                        client.send(List.of(new EventData(own + number)), options);
                    }
                }
            }));
        }
        for (Future<?> each : senders) {
            each.get();
        }
        pool.shutdown();
        List<EventData> events = Events.read(server.hub("houses"), "1", start, 160);
        for (EventData event : events) {
            last += 1;
            Check.equal(event.getSequenceNumber(), last, "a number");
        }
        for (int name = 0; name < 8; name += 1) {
            String own = name + " ";
            List<String> found = Events.bodies(events).stream().filter(body -> body.startsWith(own)).toList();
            List<String> expected = IntStream.range(0, 20).mapToObj(number -> own + number).toList();
            Check.equal(found, expected, "the order");
        }
    }

    private static void bufferedSends(Server server) {
        EventPosition start = Events.end(server.hub("idempotent"), "1");
        var failures = new ConcurrentLinkedQueue<Throwable>();
        EventHubBufferedProducerClient client = new EventHubBufferedProducerClientBuilder()
            .connectionString(server.connectionString(), "idempotent")
            .onSendBatchFailed(failed -> failures.add(failed.getThrowable()))
            .onSendBatchSucceeded(sent -> { })
            .maxWaitTime(Duration.ofMillis(50))
            .buildClient();
        for (int number = 0; number < 100; number += 1) {
            client.enqueueEvent(new EventData(String.valueOf(number)), new SendOptions().setPartitionId("1"));
        }
        client.flush();
        client.close();
        Check.that(failures.isEmpty(), failures);
        List<String> expected = IntStream.range(0, 100).mapToObj(String::valueOf).toList();
        Check.equal(Events.bodies(Events.read(server.hub("idempotent"), "1", start, 100)), expected, "the bodies");
    }

    /**
     * Connections are cut between sends and while a reader waits. A producer comes back by itself; the
     * stream of a reader ends, and the next one begins behind the last event.
     */
    private static void lostConnections(Server server) throws Exception {
        EventPosition start = Events.end(server.hub("houses"), "3");
        List<String> expected = IntStream.range(0, 20).mapToObj(number -> "lost " + number).toList();
        try (Cutter cutter = new Cutter(Integer.parseInt(server.said("amqp")))) {
            String text = server.connectionString(server.said("key"), cutter.port());
            AmqpRetryOptions quick = new AmqpRetryOptions().setDelay(Duration.ofMillis(100));
            var hub = server.hub("houses").connectionString(text, "houses").retryOptions(quick);
            var last = new AtomicReference<>(start);
            var got = new ConcurrentLinkedQueue<String>();
            try (EventHubProducerClient client = hub.buildProducerClient();
                EventHubConsumerAsyncClient reader = hub.buildAsyncConsumerClient()) {
                CompletableFuture<Void> reading = Flux.defer(() -> reader.receiveFromPartition("3", last.get()))
                    .doOnNext(event -> {
                        last.set(EventPosition.fromSequenceNumber(event.getData().getSequenceNumber()));
                        got.add(event.getData().getBodyAsString());
                    })
                    .repeat()
                    .retry()
                    .takeUntil(event -> event.getData().getBodyAsString().equals("lost 19"))
                    .then()
                    .toFuture();
                for (int number = 0; number < 20; number += 1) {
                    if (number % 7 == 5) {
                        cutter.cut();
                    }
                    sendAgain(client, "lost " + number);
                }
                reading.get(60, TimeUnit.SECONDS);
            }
            // A publication whose acknowledgement was lost is sent twice.
            Check.equal(got.stream().distinct().toList(), expected, "the events");
        }
    }

    /** Sends an event, again if the SDK gives up: it does if its connection is cut while it makes a link. */
    private static void sendAgain(EventHubProducerClient client, String body) {
        for (int attempt = 1;; attempt += 1) {
            try {
                client.send(List.of(new EventData(body)), new SendOptions().setPartitionId("3"));
                return;
            } catch (AmqpException cut) {
                if (attempt == 5) {
                    throw cut;
                }
            }
        }
    }
}
