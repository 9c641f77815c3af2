package steadfast.durable;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.microsoft.durabletask.DurableTaskClient;
import com.microsoft.durabletask.DurableTaskGrpcClientBuilder;
import com.microsoft.durabletask.DurableTaskGrpcWorkerBuilder;
import com.microsoft.durabletask.OrchestrationMetadata;
import com.microsoft.durabletask.OrchestrationRuntimeStatus;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ClientInterceptors;
import io.grpc.ForwardingClientCall.SimpleForwardingClientCall;
import io.grpc.Grpc;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.TlsChannelCredentials;
import java.io.File;
import java.io.IOException;
import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.TimeoutException;
import java.util.function.BooleanSupplier;

/** The server that the scenarios talk to, and workers on it. */
final class Server {
    /** How long anything may take before a scenario fails. */
    static final Duration PATIENCE = Duration.ofSeconds(60);

    private final int port;
    /** Encrypted, if there is a certificate; the SDK's own channel never is. */
    private final ManagedChannel encrypted;

    Server(String said) throws IOException {
        JsonNode json = new ObjectMapper().readTree(said);
        port = json.get("port").asInt();
        if (json.has("certificate")) {
            var trusted = TlsChannelCredentials.newBuilder().trustManager(new File(json.get("certificate").asText()));
            encrypted = Grpc.newChannelBuilder("localhost:" + port, trusted.build()).build();
        } else {
            encrypted = null;
        }
    }

    /** With the defaults of the SDK, but for the port. */
    DurableTaskClient client() {
        DurableTaskGrpcClientBuilder builder = new DurableTaskGrpcClientBuilder().port(port);
        return (encrypted == null ? builder : builder.grpcChannel(encrypted)).build();
    }

    DurableTaskGrpcWorkerBuilder worker() {
        DurableTaskGrpcWorkerBuilder builder = new DurableTaskGrpcWorkerBuilder().port(port);
        return encrypted == null ? builder : builder.grpcChannel(encrypted);
    }

    /** What a scenario does with a client. */
    interface Use {
        void with(DurableTaskClient client) throws Exception;
    }

    /** Has a client at hand while a worker with this code runs. */
    void running(Code code, Use use) throws Exception {
        try (var worker = code.addTo(worker()).build(); DurableTaskClient client = client()) {
            worker.start();
            use.with(client);
        }
    }

    /** The same at a task hub of that name, which is named as durabletask-azuremanaged names it. */
    void runningAt(String hub, Code code, Use use) throws Exception {
        ManagedChannel channel = ManagedChannelBuilder.forAddress("localhost", port).usePlaintext().build();
        Channel named = ClientInterceptors.intercept(channel, new TaskHub(hub));
        try (var worker = code.addTo(new DurableTaskGrpcWorkerBuilder().grpcChannel(named)).build();
            DurableTaskClient client = new DurableTaskGrpcClientBuilder().grpcChannel(named).build()) {
            worker.start();
            use.with(client);
        } finally {
            channel.shutdownNow();
        }
    }

    /** An id that is not used yet. */
    static String fresh(String name) {
        return name + "-" + UUID.randomUUID();
    }

    static OrchestrationMetadata ended(DurableTaskClient client, String instance) throws TimeoutException {
        return client.waitForInstanceCompletion(instance, PATIENCE, true);
    }

    /** What an instance that has ended well came to. */
    static <T> T output(DurableTaskClient client, String instance, Class<T> kind) throws TimeoutException {
        OrchestrationMetadata state = ended(client, instance);
        Check.equal(state.getRuntimeStatus(), OrchestrationRuntimeStatus.COMPLETED, state.toString());
        return state.readOutputAs(kind);
    }

    /** What an activity does that takes so long. */
    static void pause(int milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException stopped) {
            throw new IllegalStateException(stopped);
        }
    }

    static void until(String what, BooleanSupplier isSo) throws InterruptedException {
        long end = System.nanoTime() + PATIENCE.toNanos();
        while (!isSo.getAsBoolean()) {
            Check.that(System.nanoTime() < end, "not in time: " + what);
            Thread.sleep(20);
        }
    }

    /** Names a task hub in every call. */
    private record TaskHub(String name) implements ClientInterceptor {
        private static final Metadata.Key<String> KEY = Metadata.Key.of("taskhub", Metadata.ASCII_STRING_MARSHALLER);

        @Override
        public <Q, A> ClientCall<Q, A> interceptCall(MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
            return new SimpleForwardingClientCall<>(next.newCall(method, options)) {
                @Override
                public void start(Listener<A> listener, Metadata headers) {
                    headers.put(KEY, name);
                    super.start(listener, headers);
                }
            };
        }
    }
}
