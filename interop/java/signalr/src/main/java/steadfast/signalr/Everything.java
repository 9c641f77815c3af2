package steadfast.signalr;

import com.microsoft.signalr.HubConnection;
import com.microsoft.signalr.TransportEnum;
import io.reactivex.rxjava3.core.Single;
import io.reactivex.rxjava3.subjects.PublishSubject;
import io.reactivex.rxjava3.subjects.ReplaySubject;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** What every client must be able to do, by each transport. */
final class Everything {
    private Everything() {
    }

    static void addTo(Map<String, Run.Scenario> all) {
        all.put("webSocketsJson", server -> everything(server, TransportEnum.WEBSOCKETS));
        all.put("pollingJson", server -> everything(server, TransportEnum.LONG_POLLING));
        all.put("defaultTransport", server -> everything(server, TransportEnum.ALL));
    }

    private static void everything(Server server, TransportEnum transport) throws Exception {
        HubConnection connection = server.room(transport).build();
        HubConnection other = server.elsewhere(transport).build();
        CompletableFuture<String> closed = new CompletableFuture<>();
        connection.onClosed(error -> closed.complete(String.valueOf(error)));
        connection.start().blockingAwait();
        other.start().blockingAwait();
        // By long polling the SDK posts messages side by side, so that they may come in any order.
        boolean keepsOrder = transport != TransportEnum.LONG_POLLING;
        simple(connection, keepsOrder);
        streams(connection);
        if (keepsOrder) {
            uploads(connection);
        }
        asks(connection);
        groups(connection, other);
        other.stop().blockingAwait();
        connection.stop().blockingAwait();
        Check.equal(closed.get(10, TimeUnit.SECONDS), "null", "a clean end");
    }

    private static void simple(HubConnection connection, boolean keepsOrder) throws Exception {
        Check.equal(connection.invoke(Integer.class, "Add", 40, 2).blockingGet(), 42, "a result");
        connection.invoke("nothing").blockingAwait();
        String[] who = connection.invoke(String[].class, "who").blockingGet();
        Check.equal(who, new String[] {"alice", "?hub=room&colour=blue"}, "the caller");
        Check.refused("HubException: as you wish", connection.invoke("fail", true));
        Check.refused("invoking 'fail' on the server.", connection.invoke("fail", false));
        Check.refused("Method does not exist", connection.invoke("missing"));
        String text = "x".repeat(20_000) + "äöü\n€";
        Check.equal(connection.invoke(String.class, "echo_text", text).blockingGet(), text, "a long text");
        try (Calls<Integer> told = new Calls<>(connection, "told", Integer.class)) {
            for (int number : new int[] {1, 2, 3}) {
                connection.send("tell_me", number);
            }
            List<Integer> seen = told.next(3);
            Check.equal(keepsOrder ? seen : seen.stream().sorted().toList(), List.of(1, 2, 3), "sends");
        }
    }

    private static void streams(HubConnection connection) {
        List<Integer> items = connection.stream(Integer.class, "count", 5, false).toList().blockingGet();
        Check.equal(items, List.of(0, 1, 2, 3, 4), "a stream");
        Check.refused("HubException: enough", connection.stream(Integer.class, "count", 2, true).ignoreElements());
        Check.refused("is not a stream", connection.stream(Integer.class, "Add", 1, 2).ignoreElements());
        List<Integer> some = connection.stream(Integer.class, "forever").take(10).toList().blockingGet();
        Check.equal(some.size(), 10, "a stream that is left");
    }

    private static void uploads(HubConnection connection) {
        ReplaySubject<Integer> numbers = ReplaySubject.create();
        for (int number = 1; number <= 50; number += 1) {
            numbers.onNext(number);
        }
        numbers.onComplete();
        Check.equal(connection.invoke(Integer.class, "total", 10, numbers).blockingGet(), 12_750, "an upload");
        PublishSubject<Integer> failing = PublishSubject.create();
        Single<Integer> total = connection.invoke(Integer.class, "total", 10, failing);
        failing.onNext(1);
        failing.onError(new IllegalStateException("no more"));
        Check.refused("invoking 'total' on the server", total.ignoreElement());
    }

    private static void asks(HubConnection connection) {
        connection.onWithResult("name", () -> Single.just("Bob"));
        Check.equal(connection.invoke(String.class, "ask").blockingGet(), "it is Bob", "a client's result");
        connection.remove("name");
        connection.onWithResult("name", () -> Single.error(new IllegalStateException("I will not say")));
        Check.refused("invoking 'ask' on the server.", connection.invoke(String.class, "ask").ignoreElement());
        connection.remove("name");
        Check.refused("invoking 'ask' on the server.", connection.invoke(String.class, "ask").ignoreElement());
    }

    private static void groups(HubConnection connection, HubConnection other) throws Exception {
        connection.invoke("enter", "g").blockingAwait();
        other.invoke("enter", "g").blockingAwait();
        try (Calls<String> own = new Calls<>(connection, "told", String.class);
            Calls<String> told = new Calls<>(other, "told", String.class)) {
            connection.invoke("tell_others", "g", "first").blockingAwait();
            connection.invoke("tell_others", "g", "second").blockingAwait();
            Check.equal(told.next(2), List.of("first", "second"), "a group");
            connection.invoke("tell_all", "everybody").blockingAwait();
            Check.equal(own.next(1), List.of("everybody"), "all");
            Check.equal(told.next(1), List.of("everybody"), "all");
        }
    }
}
