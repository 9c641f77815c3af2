package steadfast.durable;

import static steadfast.durable.Server.ended;
import static steadfast.durable.Server.fresh;
import static steadfast.durable.Server.output;
import static steadfast.durable.Server.until;

import com.microsoft.durabletask.RetryPolicy;
import com.microsoft.durabletask.Task;
import com.microsoft.durabletask.TaskFailedException;
import com.microsoft.durabletask.TaskOptions;
import com.microsoft.durabletask.TaskOrchestration;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** What orchestrations do with others that they begin. */
final class Families {
    private static final Map<String, Integer> ATTEMPTS = new ConcurrentHashMap<>();

    private static final TaskOrchestration CHILD = context -> {
        int number = context.getInput(Integer.class);
        if (number < 0) {
            throw new IllegalArgumentException("negative");
        }
        if (number == 0) {
            context.waitForExternalEvent("never").await();
        }
        context.complete(number);
    };

    private Families() {
    }

    static void addTo(Map<String, Run.Scenario> all) {
        all.put("childrenReportToTheirParent", Families::childrenReportToTheirParent);
        all.put("childrenFanOut", Families::childrenFanOut);
        all.put("defaultIdsOfChildrenDoNotCollide", Families::defaultIdsOfChildrenDoNotCollide);
        all.put("aRetriedChildStartsAfresh", Families::aRetriedChildStartsAfresh);
        all.put("hubsDoNotSeeOneAnother", Families::hubsDoNotSeeOneAnother);
    }

    private static void childrenReportToTheirParent(Server server) throws Exception {
        Code code = new Code().orchestration("child", CHILD).orchestration("parent", context -> {
            String id = context.getInstanceId() + "-child";
            try {
                int number = context.getInput(Integer.class);
                context.complete(List.of("ok", context.callSubOrchestrator("child", number, id, Integer.class).await()));
            } catch (TaskFailedException failed) {
                var details = failed.getErrorDetails();
                context.complete(List.of(details.getErrorType(), details.getErrorMessage()));
            }
        });
        server.running(code, client -> {
            String good = client.scheduleNewOrchestrationInstance("parent", 7);
            Check.equal(List.of(output(client, good, Object[].class)), List.of("ok", 7), "a good child");
            Check.that(client.getInstanceMetadata(good + "-child", false).isInstanceFound(), "its id is its own");
            String bad = client.scheduleNewOrchestrationInstance("parent", -1);
            Object[] told = output(client, bad, Object[].class);
            Check.equal(List.of(told), List.of("java.lang.IllegalArgumentException", "negative"), "a bad child");
            String cut = client.scheduleNewOrchestrationInstance("parent", 0);
            until("the child", () -> client.getInstanceMetadata(cut + "-child", false).isInstanceFound());
            client.terminate(cut + "-child", "enough");
            Check.equal(output(client, cut, Object[].class)[0], "OrchestrationTerminated", "a child that was ended");
        });
    }

    private static void childrenFanOut(Server server) throws Exception {
        Code code = new Code().orchestration("child", CHILD).orchestration("parent", context -> {
            List<Task<Integer>> children = new ArrayList<>();
            for (int number = 1; number <= 20; number += 1) {
                children.add(context.callSubOrchestrator("child", number, Integer.class));
            }
            context.complete(context.allOf(children).await().stream().mapToInt(Integer::intValue).sum());
        });
        server.running(code, client -> {
            String instance = client.scheduleNewOrchestrationInstance("parent");
            Check.equal(output(client, instance, Integer.class), 210, "the sum");
        });
    }

    private static void defaultIdsOfChildrenDoNotCollide(Server server) throws Exception {
        Code code = new Code().orchestration("child", CHILD).orchestration("generations", context -> {
            int rounds = context.getInput(Integer.class);
            Check.equal(context.callSubOrchestrator("child", rounds, Integer.class).await(), rounds, "a child");
            if (rounds > 1) {
                context.continueAsNew(rounds - 1);
            } else {
                context.complete("done");
            }
        });
        server.running(code, client -> {
            String instance = client.scheduleNewOrchestrationInstance("generations", 5);
            Check.equal(output(client, instance, String.class), "done", "the output");
        });
    }

    private static void aRetriedChildStartsAfresh(Server server) throws Exception {
        TaskOptions options = new TaskOptions(new RetryPolicy(4, Duration.ofMillis(50)));
        Code code = new Code()
            .orchestration("flaky", context -> {
                String key = context.getInput(String.class);
                int attempt = ATTEMPTS.merge(key, 1, Integer::sum);
                if (attempt < 3) {
                    throw new IllegalStateException("attempt " + attempt);
                }
                context.complete(attempt);
            })
            .orchestration("persistent", context -> {
                String key = context.getInput(String.class);
                String id = context.getInstanceId() + "-again";
                context.complete(context.callSubOrchestrator("flaky", key, id, options, Integer.class).await());
            });
        server.running(code, client -> {
            String instance = client.scheduleNewOrchestrationInstance("persistent", fresh("child"));
            Check.equal(output(client, instance, Integer.class), 3, "the attempt");
        });
    }

    private static void hubsDoNotSeeOneAnother(Server server) throws Exception {
        String shared = fresh("shared");
        Code code = new Code().orchestration("echo", context -> context.complete(context.getInput(String.class)));
        server.runningAt("blue", code, blue -> server.runningAt("green", code, green -> {
            blue.scheduleNewOrchestrationInstance("echo", "blue", shared);
            Check.equal(output(blue, shared, String.class), "blue", "blue");
            Check.that(!green.getInstanceMetadata(shared, true).isInstanceFound(), "green has none");
            green.scheduleNewOrchestrationInstance("echo", "green", shared);
            Check.equal(output(green, shared, String.class), "green", "green");
            Check.equal(ended(blue, shared).getSerializedOutput(), "\"blue\"", "blue");
        }));
        try (var client = server.client()) {
            Check.that(!client.getInstanceMetadata(shared, true).isInstanceFound(), "the default hub has none");
        }
    }
}
