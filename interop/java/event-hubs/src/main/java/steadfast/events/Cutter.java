package steadfast.events;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;

/** A proxy that cuts its connections on demand. */
final class Cutter implements AutoCloseable {
    private final ServerSocket listener;
    private final int target;
    private final Queue<Socket> sockets = new ConcurrentLinkedQueue<>();

    Cutter(int target) throws IOException {
        this.target = target;
        listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        start(this::accept);
    }

    int port() {
        return listener.getLocalPort();
    }

    void cut() throws IOException {
        for (Socket socket = sockets.poll(); socket != null; socket = sockets.poll()) {
            socket.close();
        }
    }

    @Override
    public void close() throws IOException {
        listener.close();
        cut();
    }

    private void accept() throws IOException {
        while (true) {
            Socket near = listener.accept();
            Socket far = new Socket(InetAddress.getLoopbackAddress(), target);
            sockets.add(near);
            sockets.add(far);
            start(() -> copy(near, far));
            start(() -> copy(far, near));
        }
    }

    private static void copy(Socket from, Socket to) throws IOException {
        try (from; to; InputStream input = from.getInputStream(); OutputStream output = to.getOutputStream()) {
            input.transferTo(output);
        }
    }

    private interface Work {
        void run() throws IOException;
    }

    private static void start(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (IOException ended) {
                // The end of a connection, or of the proxy.
            }
        });
        thread.setDaemon(true);
        thread.start();
    }
}
