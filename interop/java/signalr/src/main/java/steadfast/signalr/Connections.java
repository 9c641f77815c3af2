package steadfast.signalr;

import com.microsoft.signalr.HttpRequestException;
import com.microsoft.signalr.HubConnection;
import com.microsoft.signalr.HubConnectionBuilder;
import com.microsoft.signalr.HubConnectionState;
import com.microsoft.signalr.TransportEnum;
import io.reactivex.rxjava3.core.Single;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** How connections begin and end. */
final class Connections {
    private Connections() {
    }

    static void addTo(Map<String, Run.Scenario> all) {
        all.put("wrongToken", Connections::wrongToken);
        all.put("otherHub", Connections::otherHub);
        all.put("closes", Connections::closes);
        all.put("withoutNegotiation", Connections::withoutNegotiation);
        all.put("openHub", Connections::openHub);
        all.put("appServer", Connections::appServer);
    }

    /** A wrong token is refused with its status, by all transports. */
    private static void wrongToken(Server server) {
        for (TransportEnum transport : List.of(TransportEnum.WEBSOCKETS, TransportEnum.LONG_POLLING)) {
            HubConnection connection =
                server.hub(server.said("url"), "room", server.said("token") + "x").withTransport(transport).build();
            Throwable refused = Check.refused("401", connection.start());
            Check.equal(((HttpRequestException) refused).getStatusCode(), 401, "the status");
        }
    }

    /** Another hub's token is refused. */
    private static void otherHub(Server server) {
        HubConnection connection = server.hub(server.said("url"), "room", server.said("other_token")).build();
        Check.refused("403", connection.start());
    }

    /** The SDK does not come back by itself; the application may begin again, and has a new id then. */
    private static void closes(Server server) throws Exception {
        for (boolean mayReturn : new boolean[] {true, false}) {
            HubConnection connection = server.room(TransportEnum.WEBSOCKETS).build();
            CompletableFuture<String> closed = new CompletableFuture<>();
            connection.onClosed(error -> closed.complete(String.valueOf(error)));
            connection.start().blockingAwait();
            String before = connection.getConnectionId();
            connection.send("end_me", mayReturn);
            String error = closed.get(20, TimeUnit.SECONDS);
            Check.that(error.contains("ended"), error);
            Check.equal(connection.getConnectionState(), HubConnectionState.DISCONNECTED, "the end");
            // Not with the same object: it still hears of the end of its former socket.
            HubConnection next = server.room(TransportEnum.WEBSOCKETS).build();
            next.start().blockingAwait();
            Check.that(!next.getConnectionId().equals(before), "a new id");
            Check.equal(next.invoke(Integer.class, "Add", 1, 2).blockingGet(), 3, "a result");
            next.stop().blockingAwait();
        }
    }

    /** Only a socket, with the token. */
    private static void withoutNegotiation(Server server) {
        HubConnection connection = server.room(TransportEnum.WEBSOCKETS).shouldSkipNegotiate(true).build();
        connection.start().blockingAwait();
        Check.equal(connection.invoke(Integer.class, "Add", 1, 2).blockingGet(), 3, "a result");
        connection.stop().blockingAwait();
    }

    /** An open hub by its own path, without a token, with the defaults of the SDK. */
    private static void openHub(Server server) {
        HubConnection connection = HubConnectionBuilder.create(server.said("url") + "/open").build();
        connection.start().blockingAwait();
        Check.equal(connection.invoke(Integer.class, "Add", 1, 2).blockingGet(), 3, "a result");
        connection.stop().blockingAwait();
    }

    /** An app server's hub at two nodes: calls, sends in order, and a client's result. */
    private static void appServer(Server server) throws Exception {
        for (TransportEnum transport : List.of(TransportEnum.WEBSOCKETS, TransportEnum.LONG_POLLING)) {
            String token = server.said("token");
            HubConnection one = server.hub(server.said("url"), "far", token).withTransport(transport).build();
            HubConnection other = server.hub(server.said("other"), "far", token).withTransport(transport).build();
            one.start().blockingAwait();
            other.start().blockingAwait();
            Check.equal(one.invoke(String.class, "echo", "hi").blockingGet(), "hi", "a result");
            try (Calls<Integer> told = new Calls<>(other, "tick", Integer.class)) {
                for (int number = 1; number <= 3; number += 1) {
                    one.invoke("shout", number).blockingAwait();
                    Check.equal(told.next(1), List.of(number), "what all are told");
                }
            }
            other.onWithResult("name", () -> Single.just("Bob"));
            String answer = one.invoke(String.class, "ask", other.getConnectionId()).blockingGet();
            Check.equal(answer, "Bob", "a client's result");
            one.stop().blockingAwait();
            other.stop().blockingAwait();
        }
    }
}
