package steadfast.durable;

import static steadfast.durable.Server.ended;
import static steadfast.durable.Server.fresh;
import static steadfast.durable.Server.output;
import static steadfast.durable.Server.until;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.microsoft.durabletask.OrchestrationMetadata;
import com.microsoft.durabletask.OrchestrationRuntimeStatus;
import com.microsoft.durabletask.RetryPolicy;
import com.microsoft.durabletask.Task;
import com.microsoft.durabletask.TaskActivity;
import com.microsoft.durabletask.TaskCanceledException;
import com.microsoft.durabletask.TaskFailedException;
import com.microsoft.durabletask.TaskOptions;
import com.microsoft.durabletask.TaskOrchestration;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;

/** What orchestrations do: activities, timers, events, retries. */
final class Orchestrations {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, Integer> ATTEMPTS = new ConcurrentHashMap<>();

    static final TaskActivity DOUBLE = context -> context.getInput(Integer.class) * 2;

    static final TaskOrchestration SEQUENCE = context -> {
        int number = context.getInput(Integer.class);
        for (int round = 0; round < 5; round += 1) {
            number = context.callActivity("double", number, Integer.class).await();
        }
        context.complete(number);
    };

    /** Takes so many events of the name `note`. */
    static final TaskOrchestration LISTENER = context -> {
        int count = context.getInput(Integer.class);
        List<Integer> found = new ArrayList<>();
        for (int number = 0; number < count; number += 1) {
            found.add(context.waitForExternalEvent("note", Integer.class).await());
        }
        context.complete(found);
    };

    private static final TaskActivity FLAKY = context -> {
        int attempt = ATTEMPTS.merge(context.getInput(String.class), 1, Integer::sum);
        if (attempt % 3 != 0) {
            throw new IllegalStateException("attempt " + attempt);
        }
        return attempt;
    };

    private Orchestrations() {
    }

    static void addTo(Map<String, Run.Scenario> all) {
        all.put("activitiesInSequence", Orchestrations::activitiesInSequence);
        all.put("manyAtOnce", Orchestrations::manyAtOnce);
        all.put("fanOutOfAThousand", Orchestrations::fanOutOfAThousand);
        all.put("falsyValuesSurvive", Orchestrations::falsyValuesSurvive);
        all.put("timersFireInTime", Orchestrations::timersFireInTime);
        all.put("eventsArriveInOrder", Orchestrations::eventsArriveInOrder);
        all.put("eventsBeforeTheWaitAreKept", Orchestrations::eventsBeforeTheWaitAreKept);
        all.put("continuedAsNew", Orchestrations::continuedAsNew);
        all.put("orchestrationsSendEvents", Orchestrations::orchestrationsSendEvents);
        all.put("aRaceOfTimerAndEvent", Orchestrations::aRaceOfTimerAndEvent);
        all.put("eventsThatDoNotCome", Orchestrations::eventsThatDoNotCome);
        all.put("lateResultsStayWithTheirExecution", Orchestrations::lateResultsStayWithTheirExecution);
        all.put("activitiesAreRetried", Orchestrations::activitiesAreRetried);
        all.put("retriesByHandler", Orchestrations::retriesByHandler);
        all.put("failuresAreTold", Orchestrations::failuresAreTold);
        all.put("customStatusFollows", Orchestrations::customStatusFollows);
        all.put("guidsDoNotRepeat", Orchestrations::guidsDoNotRepeat);
    }

    private static void activitiesInSequence(Server server) throws Exception {
        Code code = new Code().orchestration("sequence", SEQUENCE).activity("double", DOUBLE);
        server.running(code, client -> {
            String instance = client.scheduleNewOrchestrationInstance("sequence", 1);
            Check.equal(output(client, instance, Integer.class), 32, "the output");
            OrchestrationMetadata state = client.getInstanceMetadata(instance, true);
            Check.equal(state.getSerializedInput(), "1", "the input");
            Check.equal(state.getName(), "sequence", "the name");
        });
    }

    private static void manyAtOnce(Server server) throws Exception {
        Code code = new Code().orchestration("sequence", SEQUENCE).activity("double", DOUBLE);
        server.running(code, client -> {
            var pool = Executors.newFixedThreadPool(8);
            List<Future<String>> begun = IntStream.range(0, 50)
                .mapToObj(number -> pool.submit(() -> client.scheduleNewOrchestrationInstance("sequence", number)))
                .toList();
            for (int number = 0; number < 50; number += 1) {
                Check.equal(output(client, begun.get(number).get(), Integer.class), number * 32, "an output");
            }
            pool.shutdown();
        });
    }

    private static void fanOutOfAThousand(Server server) throws Exception {
        Code code = new Code().activity("double", DOUBLE).orchestration("fanOut", context -> {
            List<Task<Integer>> all = new ArrayList<>();
            for (int number = 0; number < context.getInput(Integer.class); number += 1) {
                all.add(context.callActivity("double", number, Integer.class));
            }
            context.complete(context.allOf(all).await().stream().mapToInt(Integer::intValue).sum());
        });
        server.running(code, client -> {
            String instance = client.scheduleNewOrchestrationInstance("fanOut", 1000);
            Check.equal(output(client, instance, Integer.class), 999 * 1000, "the sum");
        });
    }

    private static void falsyValuesSurvive(Server server) throws Exception {
        Code code = new Code()
            .activity("echo", context -> context.getInput(JsonNode.class))
            .orchestration("echoes", context -> {
                List<JsonNode> found = new ArrayList<>();
                for (JsonNode value : context.getInput(JsonNode.class)) {
                    found.add(context.callActivity("echo", value, JsonNode.class).await());
                }
                context.complete(found);
            });
        String values = "[0,false,\"\",[],{},0.0,\" \",\"ä€😀\"]";
        server.running(code, client -> {
            String instance = client.scheduleNewOrchestrationInstance("echoes", JSON.readTree(values));
            Check.equal(output(client, instance, JsonNode.class), JSON.readTree(values), "the values");
        });
    }

    private static void timersFireInTime(Server server) throws Exception {
        Code code = new Code().orchestration("sleepy", context -> {
            Instant due = context.getCurrentInstant().plusMillis(700);
            context.createTimer(Duration.ofMillis(700)).await();
            context.complete(context.getCurrentInstant().toEpochMilli() - due.toEpochMilli());
        });
        server.running(code, client -> {
            // The machine may be busy with other tests: the best of some counts.
            long late = Long.MAX_VALUE;
            for (int round = 0; late >= 250 && round < 10; round += 1) {
                late = output(client, client.scheduleNewOrchestrationInstance("sleepy"), Long.class);
                Check.that(late >= 0, -late + " ms early");
            }
            Check.that(late < 250, late + " ms late");
        });
    }

    private static void eventsArriveInOrder(Server server) throws Exception {
        server.running(new Code().orchestration("listener", LISTENER), client -> {
            String instance = client.scheduleNewOrchestrationInstance("listener", 20);
            List<Integer> all = IntStream.range(0, 20).boxed().toList();
            all.forEach(number -> client.raiseEvent(instance, "note", number));
            Check.equal(Arrays.asList(output(client, instance, Integer[].class)), all, "the events");
        });
    }

    private static void eventsBeforeTheWaitAreKept(Server server) throws Exception {
        Code code = new Code().orchestration("delayed", context -> {
            context.createTimer(Duration.ofMillis(500)).await();
            LISTENER.run(context);
        });
        server.running(code, client -> {
            String instance = client.scheduleNewOrchestrationInstance("delayed", 20);
            List<Integer> all = IntStream.range(0, 20).boxed().toList();
            all.forEach(number -> client.raiseEvent(instance, "note", number));
            Check.equal(Arrays.asList(output(client, instance, Integer[].class)), all, "the events");
        });
    }

    /** Each execution tells that it waits, takes one event, and begins again with what it has. */
    private static void continuedAsNew(Server server) throws Exception {
        Code code = new Code().orchestration("counting", context -> {
            List<Integer> found = new ArrayList<>(Arrays.asList(context.getInput(Integer[].class)));
            context.setCustomStatus(found.size());
            found.add(context.waitForExternalEvent("note", Integer.class).await());
            if (found.size() < 30) {
                // What was not taken yet could be kept, but this release keeps what was taken, too.
                context.continueAsNew(found, false);
            } else {
                context.complete(found);
            }
        });
        server.running(code, client -> {
            String instance = client.scheduleNewOrchestrationInstance("counting", new int[0]);
            client.waitForInstanceStart(instance, Server.PATIENCE);
            List<Integer> all = IntStream.range(0, 30).boxed().toList();
            for (Integer number : all) {
                until("execution " + number, () -> {
                    OrchestrationMetadata state = client.getInstanceMetadata(instance, true);
                    return state.isCustomStatusFetched() && number.equals(state.readCustomStatusAs(Integer.class));
                });
                client.raiseEvent(instance, "note", number);
            }
            Check.equal(Arrays.asList(output(client, instance, Integer[].class)), all, "the events");
            Integer[] last = client.getInstanceMetadata(instance, true).readInputAs(Integer[].class);
            Check.equal(Arrays.asList(last), all.subList(0, 29), "the input of the last execution");
        });
    }

    private static void orchestrationsSendEvents(Server server) throws Exception {
        Code code = new Code().orchestration("listener", LISTENER).orchestration("sender", context -> {
            context.sendEvent(context.getInput(String.class), "note", 7);
            context.createTimer(Duration.ofMillis(1)).await();
            context.complete("sent");
        });
        server.running(code, client -> {
            String target = client.scheduleNewOrchestrationInstance("listener", 1);
            client.waitForInstanceStart(target, Server.PATIENCE);
            String sender = client.scheduleNewOrchestrationInstance("sender", target);
            Check.equal(output(client, sender, String.class), "sent", "the sender");
            Check.equal(output(client, target, Integer[].class), new Integer[] {7}, "the event");
            // The target does not exist: the event is dropped.
            String lost = client.scheduleNewOrchestrationInstance("sender", fresh("nobody"));
            Check.equal(output(client, lost, String.class), "sent", "the sender");
        });
    }

    private static void aRaceOfTimerAndEvent(Server server) throws Exception {
        Code code = new Code().orchestration("racing", context -> {
            Task<Void> timer = context.createTimer(Duration.ofSeconds(30));
            Task<Integer> event = context.waitForExternalEvent("go", Integer.class);
            context.complete(context.anyOf(timer, event).await() == event ? "event" : "timer");
        });
        server.running(code, client -> {
            String instance = client.scheduleNewOrchestrationInstance("racing");
            client.raiseEvent(instance, "go", 1);
            Check.equal(output(client, instance, String.class), "event", "the winner");
        });
    }

    /** A wait with a limit: the SDK sets a timer beside it. */
    private static void eventsThatDoNotCome(Server server) throws Exception {
        Code code = new Code().orchestration("waiting", context -> {
            try {
                context.complete(context.waitForExternalEvent("note", Duration.ofMillis(300), String.class).await());
            } catch (TaskCanceledException late) {
                context.complete("too late");
            }
        });
        server.running(code, client -> {
            String none = client.scheduleNewOrchestrationInstance("waiting");
            Check.equal(output(client, none, String.class), "too late", "no event");
        });
    }

    private static void lateResultsStayWithTheirExecution(Server server) throws Exception {
        Code code = new Code()
            .activity("slow", context -> {
                Server.pause(1000);
                return "late";
            })
            .orchestration("forgetful", context -> {
                if (context.getInput(Integer.class) == 0) {
                    context.callActivity("slow", 1, String.class);
                    context.createTimer(Duration.ofMillis(100)).await();
                    context.continueAsNew(1);
                } else {
                    context.createTimer(Duration.ofSeconds(2)).await();
                    context.complete("on time");
                }
            });
        server.running(code, client -> {
            String instance = client.scheduleNewOrchestrationInstance("forgetful", 0);
            Check.equal(output(client, instance, String.class), "on time", "the output");
        });
    }

    private static void activitiesAreRetried(Server server) throws Exception {
        TaskOptions options = new TaskOptions(new RetryPolicy(4, Duration.ofMillis(50)));
        Code code = new Code().activity("flaky", FLAKY).orchestration("persistent", context -> {
            List<Integer> found = new ArrayList<>();
            for (int round = 0; round < 3; round += 1) {
                String key = context.getInput(String.class);
                found.add(context.callActivity("flaky", key, options, Integer.class).await());
            }
            context.complete(found);
        });
        server.running(code, client -> {
            String instance = client.scheduleNewOrchestrationInstance("persistent", fresh("flaky"));
            Check.equal(output(client, instance, Integer[].class), new Integer[] {3, 6, 9}, "the attempts");
        });
    }

    /** Handlers of activities and children that see the failure and the number of the attempt. */
    private static void retriesByHandler(Server server) throws Exception {
        Map<String, TaskOptions> handlers = Map.of(
            "byType", new TaskOptions(retry -> retry.getLastAttemptNumber() < 5
                && retry.getLastFailure().isCausedBy(IllegalStateException.class)),
            "counted", new TaskOptions(retry -> retry.getLastAttemptNumber() < 2),
            "never", new TaskOptions(retry -> false));
        Code code = new Code()
            .activity("flaky", FLAKY)
            .orchestration("flakyChild", context -> {
                int attempt = ATTEMPTS.merge(context.getInput(String.class), 1, Integer::sum);
                if (attempt % 3 != 0) {
                    throw new IllegalStateException("attempt " + attempt);
                }
                context.complete(attempt);
            })
            .orchestration("persistent", context -> {
                String[] wanted = context.getInput(String[].class);
                TaskOptions options = handlers.get(wanted[1]);
                Task<Integer> task = wanted[0].equals("flaky")
                    ? context.callActivity("flaky", wanted[2], options, Integer.class)
                    : context.callSubOrchestrator(wanted[0], wanted[2], null, options, Integer.class);
                context.complete(task.await());
            });
        server.running(code, client -> {
            for (String kind : List.of("flaky", "flakyChild")) {
                String[] good = {kind, "byType", fresh("flaky")};
                String instance = client.scheduleNewOrchestrationInstance("persistent", good);
                Check.equal(output(client, instance, Integer.class), 3, "the attempt");
                for (String name : List.of("never", "counted")) {
                    String[] wanted = {kind, name, fresh("flaky")};
                    OrchestrationMetadata state =
                        ended(client, client.scheduleNewOrchestrationInstance("persistent", wanted));
                    Check.equal(state.getRuntimeStatus(), OrchestrationRuntimeStatus.FAILED, name);
                    Check.equal(ATTEMPTS.get(wanted[2]), name.equals("never") ? 1 : 2, name);
                }
            }
        });
    }

    private static void failuresAreTold(Server server) throws Exception {
        Code code = new Code()
            .activity("bad", context -> {
                throw new IllegalArgumentException("no \"good\"");
            })
            .orchestration("caught", context -> {
                try {
                    context.callActivity("bad").await();
                    context.complete("nothing");
                } catch (TaskFailedException failed) {
                    var details = failed.getErrorDetails();
                    context.complete(List.of(details.getErrorType(), details.getErrorMessage()));
                }
            })
            .orchestration("uncaught", context -> context.callActivity("bad").await())
            .orchestration("unknown", context -> context.callActivity("nobody has it").await());
        server.running(code, client -> {
            String[] told = output(client, client.scheduleNewOrchestrationInstance("caught"), String[].class);
            Check.equal(told, new String[] {"java.lang.IllegalArgumentException", "no \"good\""}, "the failure");
            for (String name : List.of("uncaught", "unknown")) {
                OrchestrationMetadata state = ended(client, client.scheduleNewOrchestrationInstance(name));
                Check.equal(state.getRuntimeStatus(), OrchestrationRuntimeStatus.FAILED, "the end");
                Check.that(state.getFailureDetails().getErrorMessage() != null, state);
            }
        });
    }

    private static void customStatusFollows(Server server) throws Exception {
        List<String> texts = List.of("one", "two", "");
        Code code = new Code().orchestration("narrator", context -> {
            for (String text : texts) {
                context.setCustomStatus(text);
                context.waitForExternalEvent("next").await();
            }
            context.clearCustomStatus();
            context.complete("end");
        });
        server.running(code, client -> {
            String instance = client.scheduleNewOrchestrationInstance("narrator");
            client.waitForInstanceStart(instance, Server.PATIENCE);
            for (String text : texts) {
                until("custom status " + text, () -> {
                    OrchestrationMetadata state = client.getInstanceMetadata(instance, true);
                    return state.isCustomStatusFetched() && text.equals(state.readCustomStatusAs(String.class));
                });
                client.raiseEvent(instance, "next");
            }
            Check.equal(output(client, instance, String.class), "end", "the output");
        });
    }

    private static void guidsDoNotRepeat(Server server) throws Exception {
        Code code = new Code().orchestration("naming", context -> {
            List<String> made = new ArrayList<>();
            for (int round = 0; round < 2; round += 1) {
                for (int number = 0; number < 3; number += 1) {
                    made.add(context.newUUID().toString());
                }
                context.createTimer(Duration.ofMillis(10)).await();
            }
            context.complete(made);
        });
        server.running(code, client -> {
            String[] made = output(client, client.scheduleNewOrchestrationInstance("naming"), String[].class);
            Check.equal(new HashSet<>(Arrays.asList(made)).size(), 6, "the ids");
        });
    }
}
