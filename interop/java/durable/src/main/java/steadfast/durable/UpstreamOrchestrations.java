package steadfast.durable;

import static steadfast.durable.Server.ended;
import static steadfast.durable.Server.fresh;
import static steadfast.durable.Server.output;

import com.microsoft.durabletask.CompositeTaskFailedException;
import com.microsoft.durabletask.DurableTaskClient;
import com.microsoft.durabletask.FailureDetails;
import com.microsoft.durabletask.OrchestrationMetadata;
import com.microsoft.durabletask.OrchestrationRuntimeStatus;
import com.microsoft.durabletask.RetryPolicy;
import com.microsoft.durabletask.Task;
import com.microsoft.durabletask.TaskActivity;
import com.microsoft.durabletask.TaskFailedException;
import com.microsoft.durabletask.TaskOptions;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;

/** Scenarios of the vendor's end-to-end tests of Python and JavaScript that this SDK can run. */
final class UpstreamOrchestrations {
    private static final TaskActivity ECHO = context -> context.getInput(Object.class);

    private static final TaskActivity EXPLODE = context -> {
        throw new IllegalStateException(context.getInput(String.class));
    };

    private UpstreamOrchestrations() {
    }

    static void addTo(Map<String, Run.Scenario> all) {
        all.put("nothingToDo", UpstreamOrchestrations::nothingToDo);
        all.put("failuresAreMadeGood", UpstreamOrchestrations::failuresAreMadeGood);
        all.put("joinsThatFail", UpstreamOrchestrations::joinsThatFail);
        all.put("joinsOfJoins", UpstreamOrchestrations::joinsOfJoins);
        all.put("eventsOfThreeNames", UpstreamOrchestrations::eventsOfThreeNames);
        all.put("theFirstOfThreeWins", UpstreamOrchestrations::theFirstOfThreeWins);
        all.put("eventsBetweenOrchestrations", UpstreamOrchestrations::eventsBetweenOrchestrations);
        all.put("undeliverableEventsAreDropped", UpstreamOrchestrations::undeliverableEventsAreDropped);
        all.put("timersAreReplayed", UpstreamOrchestrations::timersAreReplayed);
        all.put("roundsAndGenerations", UpstreamOrchestrations::roundsAndGenerations);
        all.put("retriesMultiply", UpstreamOrchestrations::retriesMultiply);
        all.put("retriesEndInTime", UpstreamOrchestrations::retriesEndInTime);
        all.put("retriesByPolicy", UpstreamOrchestrations::retriesByPolicy);
        all.put("guidsAreTheSameInReplays", UpstreamOrchestrations::guidsAreTheSameInReplays);
        all.put("onlyNewTurnsAreNoted", UpstreamOrchestrations::onlyNewTurnsAreNoted);
        all.put("falsyValuesOfChildren", UpstreamOrchestrations::falsyValuesOfChildren);
    }

    /** What an orchestration that must fail has failed with. */
    private static FailureDetails failure(DurableTaskClient client, String name, Object input)
        throws TimeoutException {
        OrchestrationMetadata state = ended(client, client.scheduleNewOrchestrationInstance(name, input));
        Check.equal(state.getRuntimeStatus(), OrchestrationRuntimeStatus.FAILED, state.toString());
        return state.getFailureDetails();
    }

    private static <T> T result(DurableTaskClient client, String name, Object input, Class<T> kind)
        throws TimeoutException {
        return output(client, client.scheduleNewOrchestrationInstance(name, input), kind);
    }

    private static void nothingToDo(Server server) throws Exception {
        List<String> seen = new CopyOnWriteArrayList<>();
        Code code = new Code().orchestration("idle",
            context -> seen.add(context.getIsReplaying() + " " + context.getInput(String.class)));
        server.running(code, client -> {
            String instance = client.scheduleNewOrchestrationInstance("idle");
            OrchestrationMetadata state = ended(client, instance);
            Check.equal(state.getRuntimeStatus(), OrchestrationRuntimeStatus.COMPLETED, "the end");
            Check.equal(seen, List.of("false null"), "the turns");
            Check.equal(List.of(state.getName(), state.getInstanceId()), List.of("idle", instance), "the names");
            Check.equal(state.readInputAs(String.class), null, "the input");
            Check.equal(state.readOutputAs(String.class), null, "the output");
            Check.equal(state.readCustomStatusAs(String.class), null, "the custom status");
        });
    }

    /** An activity fails; the orchestration catches it and undoes what was done before. */
    private static void failuresAreMadeGood(Server server) throws Exception {
        Set<String> undone = ConcurrentHashMap.newKeySet();
        Code code = new Code()
            .activity("give", context -> {
                String what = context.getInput(String.class);
                if (what.equals("last")) {
                    throw new IllegalArgumentException("nothing left");
                }
                return what;
            })
            .activity("undo", context -> undone.add(context.getInput(String.class)))
            .orchestration("careful", context -> {
                List<String> done = new ArrayList<>();
                try {
                    for (String what : context.getInput(String[].class)) {
                        done.add(context.callActivity("give", what, String.class).await());
                    }
                } catch (TaskFailedException failed) {
                    for (String what : done) {
                        context.callActivity("undo", what).await();
                    }
                    Check.that(failed.getErrorDetails().isCausedBy(IllegalArgumentException.class), failed);
                    context.complete(failed.getErrorDetails().getErrorMessage());
                }
            });
        server.running(code, client -> {
            String[] wanted = {"a", "b", "last", "c"};
            Check.equal(result(client, "careful", wanted, String.class), "nothing left", "the reason");
            Check.equal(undone, Set.of("a", "b"), "what was undone");
        });
    }

    /** This SDK waits for all parts of a join, and names each that failed. */
    private static void joinsThatFail(Server server) throws Exception {
        Code code = new Code()
            .activity("echo", ECHO)
            .activity("explode", EXPLODE)
            .orchestration("joined", context -> {
                List<Task<Object>> parts = new ArrayList<>();
                for (String text : context.getInput(String[].class)) {
                    parts.add(context.callActivity(text.equals("good") ? "echo" : "explode", text, Object.class));
                }
                try {
                    context.complete(context.allOf(parts).await());
                } catch (CompositeTaskFailedException failed) {
                    context.complete(failed.getExceptions().stream()
                        .map(each -> ((TaskFailedException) each).getErrorDetails().getErrorMessage())
                        .toList());
                }
            })
            .orchestration("uncaught", context ->
                context.allOf(List.of(context.callActivity("echo", "good", Object.class),
                    context.callActivity("explode", "bad", Object.class))).await());
        server.running(code, client -> {
            String[] one = {"first", "good"};
            Check.equal(result(client, "joined", one, String[].class), new String[] {"first"}, "one failure");
            String[] three = {"one", "two", "three"};
            Check.equal(result(client, "joined", three, String[].class), three, "three failures");
            FailureDetails details = failure(client, "uncaught", null);
            Check.that(details.isCausedBy(CompositeTaskFailedException.class), details.getErrorType());
            Check.that(details.getErrorMessage().startsWith("1 out of 2 tasks failed"), details.getErrorMessage());
        });
    }

    private static void joinsOfJoins(Server server) throws Exception {
        Code code = new Code()
            .activity("echo", ECHO)
            .activity("explode", EXPLODE)
            .activity("slow", context -> {
                int delay = context.getInput(Integer.class);
                Server.pause(delay);
                return delay;
            })
            .orchestration("nested", context -> {
                List<Task<List<Integer>>> parts = new ArrayList<>();
                for (int number = 1; number < 5; number += 2) {
                    parts.add(context.allOf(List.of(context.callActivity("echo", number, Integer.class),
                        context.callActivity("echo", number + 1, Integer.class))));
                }
                List<List<Integer>> all = context.allOf(parts).await();
                Task<List<Integer>> quick = context.allOf(List.of(context.callActivity("echo", 5, Integer.class)));
                Task<List<Integer>> late = context.allOf(List.of(context.callActivity("slow", 500, Integer.class)));
                context.complete(List.of(all, context.anyOf(quick, late).await() == quick));
            })
            .orchestration("broken", context -> {
                Task<List<Object>> inside =
                    context.allOf(List.of(context.callActivity("explode", "inside", Object.class)));
                try {
                    context.allOf(List.of(inside)).await();
                } catch (CompositeTaskFailedException failed) {
                    context.complete(failed.getExceptions().size());
                }
            })
            .orchestration("speeds", context -> {
                List<Task<Integer>> parts = new ArrayList<>();
                for (int delay : new int[] {150, 10, 80}) {
                    parts.add(context.callActivity("slow", delay, Integer.class));
                }
                context.complete(context.allOf(parts).await());
            });
        server.running(code, client -> {
            Object[] found = result(client, "nested", null, Object[].class);
            Check.equal(List.of(found), List.of(List.of(List.of(1, 2), List.of(3, 4)), true), "the joins");
            Check.equal(result(client, "broken", null, Integer.class), 1, "the failed joins");
            Check.equal(result(client, "speeds", null, Integer[].class), new Integer[] {150, 10, 80}, "the order");
        });
    }

    private static void eventsOfThreeNames(Server server) throws Exception {
        List<String> names = List.of("A", "B", "C");
        Code code = new Code().orchestration("patient", context -> {
            List<String> found = new ArrayList<>();
            for (String name : names) {
                found.add(context.waitForExternalEvent(name, String.class).await());
            }
            context.complete(found);
        });
        server.running(code, client -> {
            String instance = client.scheduleNewOrchestrationInstance("patient");
            names.forEach(name -> client.raiseEvent(instance, name, name.toLowerCase()));
            Check.equal(output(client, instance, String[].class), new String[] {"a", "b", "c"}, "the events");
        });
    }

    /** The SDK cannot cancel the others; an instance that has ended has no use for them. */
    private static void theFirstOfThreeWins(Server server) throws Exception {
        Code code = new Code().orchestration("decide", context -> {
            Task<Void> yes = context.waitForExternalEvent("yes");
            Task<Void> no = context.waitForExternalEvent("no");
            Task<Void> late = context.createTimer(Duration.ofMillis(context.getInput(Long.class)));
            Task<?> first = context.anyOf(yes, no, late).await();
            context.complete(first == yes ? "yes" : first == no ? "no" : "late");
        });
        server.running(code, client -> {
            for (String said : List.of("yes", "no")) {
                String instance = client.scheduleNewOrchestrationInstance("decide", 60_000);
                client.raiseEvent(instance, said);
                Check.equal(output(client, instance, String.class), said, "the winner");
            }
            Check.equal(result(client, "decide", 200, String.class), "late", "the winner");
        });
    }

    private static void eventsBetweenOrchestrations(Server server) throws Exception {
        Code code = new Code()
            .orchestration("receiver", context -> {
                Object first = context.waitForExternalEvent("first", Object.class).await();
                context.complete(Arrays.asList(first, context.waitForExternalEvent("second", Object.class).await()));
            })
            .orchestration("sender", context -> {
                String target = context.getInput(String.class);
                context.sendEvent(target, "first", Map.of("from", context.getInstanceId()));
                context.createTimer(Duration.ofMillis(50)).await();
                context.sendEvent(target, "second");
                context.complete("sent");
            });
        server.running(code, client -> {
            String target = client.scheduleNewOrchestrationInstance("receiver");
            String sender = client.scheduleNewOrchestrationInstance("sender", target);
            Check.equal(output(client, sender, String.class), "sent", "the sender");
            Object[] found = output(client, target, Object[].class);
            Check.equal(Arrays.asList(found), Arrays.asList(Map.of("from", sender), null), "the events");
        });
    }

    private static void undeliverableEventsAreDropped(Server server) throws Exception {
        List<String> turns = new CopyOnWriteArrayList<>();
        Code code = new Code()
            .orchestration("gone", context -> {
                turns.add("gone");
                context.complete(null);
            })
            .orchestration("shouting", context -> {
                turns.add("shouting");
                String ended = context.getInput(String.class);
                for (String target : List.of(ended, "there-is-none", context.getInstanceId())) {
                    context.sendEvent(target, "ignored");
                }
                context.complete(null);
            });
        server.running(code, client -> {
            String gone = client.scheduleNewOrchestrationInstance("gone");
            ended(client, gone);
            result(client, "shouting", gone, String.class);
            // One more turn of the ended one would come before this.
            result(client, "gone", null, String.class);
            Check.equal(turns, List.of("gone", "shouting", "gone"), "the turns");
        });
    }

    private static void timersAreReplayed(Server server) throws Exception {
        Set<Instant> times = ConcurrentHashMap.newKeySet();
        AtomicInteger turns = new AtomicInteger();
        Code code = new Code().activity("echo", ECHO).orchestration("napping", context -> {
            turns.incrementAndGet();
            times.add(context.getCurrentInstant());
            context.createTimer(Duration.ofMillis(300)).await();
            context.callActivity("echo", 1).await();
            context.complete("awake");
        });
        server.running(code, client -> {
            String instance = client.scheduleNewOrchestrationInstance("napping");
            Check.equal(output(client, instance, String.class), "awake", "the output");
            OrchestrationMetadata state = client.getInstanceMetadata(instance, false);
            Duration taken = Duration.between(state.getCreatedAt(), state.getLastUpdatedAt());
            Check.that(taken.toMillis() >= 290, taken);
            Check.that(turns.get() >= 3, turns);
            Check.equal(times.size(), 1, "the times at which replays begin");
        });
    }

    /** Rounds with timers, children of every round, and children of children. */
    private static void roundsAndGenerations(Server server) throws Exception {
        Code code = new Code()
            .orchestration("counting", context -> {
                context.createTimer(Duration.ofMillis(10)).await();
                int number = context.getInput(Integer.class);
                if (number < 5) {
                    context.continueAsNew(number + 1);
                }
                context.complete(number);
            })
            .orchestration("child", context -> context.complete(context.getInstanceId()))
            .orchestration("families", context -> {
                List<String> ids = new ArrayList<>(Arrays.asList(context.getInput(String[].class)));
                ids.add(context.callSubOrchestrator("child", null, String.class).await());
                if (ids.size() < 4) {
                    context.continueAsNew(ids);
                }
                context.complete(ids);
            })
            .orchestration("nesting", context -> {
                int depth = context.getInput(Integer.class);
                context.complete(depth == 0
                    ? context.getInstanceId()
                    : context.callSubOrchestrator("nesting", depth - 1, String.class).await());
            });
        server.running(code, client -> {
            Check.equal(result(client, "counting", 0, Integer.class), 5, "the rounds");
            String[] ids = result(client, "families", List.of(), String[].class);
            Check.equal(new HashSet<>(List.of(ids)).size(), 4, "the ids of children");
            String deepest = result(client, "nesting", 5, String.class);
            Check.that(client.getInstanceMetadata(deepest, false).isInstanceFound(), deepest);
        });
    }

    private static void retriesMultiply(Server server) throws Exception {
        AtomicInteger children = new AtomicInteger();
        AtomicInteger attempts = new AtomicInteger();
        TaskOptions thrice = new TaskOptions(new RetryPolicy(3, Duration.ofMillis(100)));
        Code code = new Code()
            .activity("explode", context -> {
                attempts.incrementAndGet();
                throw new IllegalStateException("it is broken");
            })
            .orchestration("unlucky", context -> {
                if (!context.getIsReplaying()) {
                    children.incrementAndGet();
                }
                context.callActivity("explode", null, thrice).await();
            })
            .orchestration("stubborn", context ->
                context.callSubOrchestrator("unlucky", null, null, thrice, Void.class).await());
        server.running(code, client -> {
            FailureDetails details = failure(client, "stubborn", null);
            Check.that(details.isCausedBy(TaskFailedException.class), details.getErrorType());
            Check.that(details.getErrorMessage().contains("'unlucky'"), details.getErrorMessage());
            Check.that(details.getErrorMessage().endsWith("it is broken"), details.getErrorMessage());
            Check.that(details.getStackTrace() != null, "a stack trace");
            Check.equal(List.of(children.get(), attempts.get()), List.of(3, 9), "the attempts");
        });
    }

    private static void retriesEndInTime(Server server) throws Exception {
        AtomicInteger attempts = new AtomicInteger();
        RetryPolicy policy = new RetryPolicy(9, Duration.ofMillis(500))
            .setBackoffCoefficient(2)
            .setRetryTimeout(Duration.ofSeconds(3));
        Code code = new Code()
            .activity("explode", context -> {
                attempts.incrementAndGet();
                throw new IllegalStateException("it is broken");
            })
            .orchestration("hurried",
                context -> context.callActivity("explode", null, new TaskOptions(policy)).await());
        server.running(code, client -> {
            FailureDetails details = failure(client, "hurried", null);
            Check.that(details.getErrorMessage().endsWith("it is broken"), details.getErrorMessage());
            // This SDK waits 1 and 2 s, and then the 3 s are over.
            Check.equal(attempts.get(), 3, "the attempts");
        });
    }

    /** Activities and children that fail some times, by policies that wait longer and longer. */
    private static void retriesByPolicy(Server server) throws Exception {
        Map<String, Integer> attempts = new ConcurrentHashMap<>();
        ConcurrentLinkedQueue<Long> times = new ConcurrentLinkedQueue<>();
        Map<String, TaskOptions> policies = Map.of(
            "plain", new TaskOptions(new RetryPolicy(3, Duration.ofMillis(100))),
            "doubling", new TaskOptions(new RetryPolicy(4, Duration.ofMillis(100)).setBackoffCoefficient(2)),
            "capped", new TaskOptions(new RetryPolicy(4, Duration.ofMillis(100))
                .setBackoffCoefficient(10)
                .setMaxRetryInterval(Duration.ofMillis(150))));
        Code code = new Code()
            .activity("flaky", context -> {
                times.add(System.nanoTime() / 1_000_000);
                return attempt(attempts, context.getInput(String[].class));
            })
            .orchestration("flakyChild",
                context -> context.complete(attempt(attempts, context.getInput(String[].class))))
            .orchestration("retrying", context -> {
                String[] wanted = context.getInput(String[].class);
                String[] input = {wanted[2], wanted[3]};
                TaskOptions options = policies.get(wanted[1]);
                Task<Integer> task = wanted[0].equals("activity")
                    ? context.callActivity("flaky", input, options, Integer.class)
                    : context.callSubOrchestrator("flakyChild", input, null, options, Integer.class);
                context.complete(task.await());
            });
        server.running(code, client -> {
            for (String kind : List.of("activity", "child")) {
                String[] good = {kind, "plain", fresh("key"), "3"};
                Check.equal(result(client, "retrying", good, Integer.class), 3, "the attempt");
                String[] bad = {kind, "plain", fresh("key"), "9"};
                FailureDetails details = failure(client, "retrying", bad);
                Check.that(details.getErrorMessage().endsWith("attempt 3"), details.getErrorMessage());
                Check.equal(attempts.get(bad[2]), 3, "the attempts");
                String[] once = {kind, "none", fresh("key"), "9"};
                failure(client, "retrying", once);
                Check.equal(attempts.get(once[2]), 1, "the attempts without a policy");
            }
            // The SDK doubles from the first delay on.
            Map<String, long[]> least = Map.of("doubling", new long[] {195, 390, 780}, "capped",
                new long[] {145, 145, 145});
            for (var each : least.entrySet()) {
                times.clear();
                String[] wanted = {"activity", each.getKey(), fresh("key"), "4"};
                Check.equal(result(client, "retrying", wanted, Integer.class), 4, "the attempt");
                List<Long> seen = List.copyOf(times);
                for (int number = 0; number < 3; number += 1) {
                    long gap = seen.get(number + 1) - seen.get(number);
                    Check.that(gap >= each.getValue()[number], each.getKey() + ": " + seen);
                    // Ten times 100 ms would be a second.
                    Check.that(!each.getKey().equals("capped") || gap < 1000, seen);
                }
            }
        });
    }

    /** Counts an attempt of a key, and fails before the given one. */
    private static int attempt(Map<String, Integer> attempts, String[] wanted) {
        int attempt = attempts.merge(wanted[0], 1, Integer::sum);
        if (attempt < Integer.parseInt(wanted[1])) {
            throw new IllegalStateException("attempt " + attempt);
        }
        return attempt;
    }

    private static void guidsAreTheSameInReplays(Server server) throws Exception {
        List<String> seen = new CopyOnWriteArrayList<>();
        Code code = new Code().activity("echo", ECHO).orchestration("naming", context -> {
            List<String> names = new ArrayList<>(List.of(context.newUUID().toString(), context.newUUID().toString()));
            seen.add(names.toString());
            context.callActivity("echo", 1).await();
            names.add(context.newUUID().toString());
            context.complete(names);
        });
        server.running(code, client -> {
            String[] names = result(client, "naming", null, String[].class);
            Check.equal(new HashSet<>(List.of(names)).size(), 3, "the ids");
            Check.equal(List.of(seen.size(), new HashSet<>(seen).size()), List.of(2, 1), "the turns, and their ids");
        });
    }

    private static void onlyNewTurnsAreNoted(Server server) throws Exception {
        List<String> notes = new CopyOnWriteArrayList<>();
        Code code = new Code().activity("echo", ECHO).orchestration("talking", context -> {
            if (!context.getIsReplaying()) {
                notes.add("before");
            }
            context.callActivity("echo", 1).await();
            if (!context.getIsReplaying()) {
                notes.add("after");
            }
            context.complete(null);
        });
        server.running(code, client -> {
            result(client, "talking", null, String.class);
            Check.equal(notes, List.of("before", "after"), "the notes");
        });
    }

    private static void falsyValuesOfChildren(Server server) throws Exception {
        Code code = new Code()
            .activity("echo", ECHO)
            .orchestration("same", context -> context.complete(context.getInput(Object.class)))
            .orchestration("through", context -> {
                Object value = context.getInput(Object.class);
                Object first = context.callActivity("echo", value, Object.class).await();
                Object second = context.callSubOrchestrator("same", value, Object.class).await();
                context.complete(Arrays.asList(first, second));
            });
        server.running(code, client -> {
            for (Object value : Arrays.asList(0, "", false, null)) {
                Object[] found = result(client, "through", value, Object[].class);
                Check.equal(Arrays.asList(found), Arrays.asList(value, value), "the values");
                Check.equal(result(client, "same", value, Object.class), value, "the value");
            }
        });
    }
}
