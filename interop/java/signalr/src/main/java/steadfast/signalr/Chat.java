package steadfast.signalr;

import com.microsoft.signalr.HubConnection;
import com.microsoft.signalr.TransportEnum;
import java.io.BufferedReader;
import java.io.InputStreamReader;

/**
 * A client that talks to all others: Chat {what the server said}.
 *
 * <p>It says when it is connected, sends each line of its input to all clients of the hub, and
 * prints what it receives, until its input ends.
 */
public final class Chat {
    private Chat() {
    }

    public static void main(String[] arguments) throws Exception {
        HubConnection connection = new Server(arguments[0]).room(TransportEnum.WEBSOCKETS).build();
        connection.on("told", text -> System.out.println("told " + text), String.class);
        connection.start().blockingAwait();
        System.out.println("connected");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        String line;
        while ((line = input.readLine()) != null) {
            connection.invoke("tell_all", line).blockingAwait();
        }
        connection.stop().blockingAwait();
        System.exit(0);
    }
}
