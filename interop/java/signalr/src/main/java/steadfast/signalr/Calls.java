package steadfast.signalr;

import com.microsoft.signalr.HubConnection;
import com.microsoft.signalr.Subscription;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** The calls of a method of a client. */
final class Calls<T> implements AutoCloseable {
    private final BlockingQueue<T> seen = new LinkedBlockingQueue<>();
    private final Subscription subscription;

    Calls(HubConnection connection, String method, Class<T> kind) {
        subscription = connection.on(method, seen::add, kind);
    }

    /** Waits for the next calls. */
    List<T> next(int count) throws InterruptedException {
        List<T> found = new ArrayList<>();
        while (found.size() < count) {
            T one = seen.poll(30, TimeUnit.SECONDS);
            Check.that(one != null, found.size() + " of " + count + " calls");
            found.add(one);
        }
        return found;
    }

    @Override
    public void close() {
        subscription.unsubscribe();
    }
}
