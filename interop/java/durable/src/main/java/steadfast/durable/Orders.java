package steadfast.durable;

import com.microsoft.durabletask.DurableTaskClient;
import com.microsoft.durabletask.OrchestrationMetadata;
import com.microsoft.durabletask.OrchestrationRuntimeStatus;
import com.microsoft.durabletask.Task;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeoutException;
import java.util.logging.Level;
import java.util.logging.Logger;

/**
 * Orders that are worked on by two programs.
 *
 * <p>`Orders work {server}` is a worker until it is killed. `Orders place {server} {name} {count}`
 * places orders, waits for all of them through whatever happens to server and worker, and checks
 * what each came to.
 */
public final class Orders {
    private Orders() {
    }

    public static void main(String[] arguments) throws Exception {
        Logger.getLogger("").setLevel(Level.OFF);
        Server server = new Server(arguments[1]);
        if (arguments[0].equals("work")) {
            work(server);
        } else {
            place(server, arguments[2], Integer.parseInt(arguments[3]));
        }
        System.exit(0);
    }

    private static void work(Server server) throws Exception {
        Code code = new Code()
            .activity("price", context -> context.getInput(Integer.class) * 10)
            .orchestration("pack", context -> {
                context.createTimer(Duration.ofMillis(50)).await();
                context.complete(context.callActivity("price", context.getInput(Integer.class), Integer.class).await());
            })
            .orchestration("order", context -> {
                int number = context.getInput(Integer.class);
                List<Task<Integer>> parts = new ArrayList<>();
                for (int part = 0; part < 3; part += 1) {
                    parts.add(context.callSubOrchestrator("pack", number + part, Integer.class));
                }
                int sum = context.allOf(parts).await().stream().mapToInt(Integer::intValue).sum();
                context.complete(sum + context.callActivity("price", number, Integer.class).await());
            });
        code.addTo(server.worker()).build().start();
        System.out.println("at work");
        System.in.transferTo(java.io.OutputStream.nullOutputStream());
    }

    private static void place(Server server, String name, int count) throws Exception {
        try (DurableTaskClient client = server.client()) {
            for (int number = 0; number < count; number += 1) {
                int own = number;
                stubborn(() -> client.scheduleNewOrchestrationInstance("order", own, name + "-" + own));
                System.out.println("begun");
            }
            for (int number = 0; number < count; number += 1) {
                String instance = name + "-" + number;
                OrchestrationMetadata state =
                    stubborn(() -> client.waitForInstanceCompletion(instance, Duration.ofSeconds(5), true));
                Check.equal(state.getRuntimeStatus(), OrchestrationRuntimeStatus.COMPLETED, state.toString());
                Check.equal(state.readOutputAs(Integer.class), number * 40 + 30, instance);
            }
            System.out.println("no order was lost");
        }
    }

    /** Calls until the server answers. What it has done already is done. */
    private static <T> T stubborn(Callable<T> call) throws Exception {
        long end = System.nanoTime() + Duration.ofMinutes(2).toNanos();
        while (true) {
            try {
                return call.call();
            } catch (StatusRuntimeException error) {
                if (error.getStatus().getCode() == Status.Code.ALREADY_EXISTS) {
                    return null;
                }
                Check.that(System.nanoTime() < end, error);
            } catch (TimeoutException error) {
                Check.that(System.nanoTime() < end, error);
            }
            Thread.sleep(100);
        }
    }
}
