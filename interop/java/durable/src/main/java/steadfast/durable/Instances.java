package steadfast.durable;

import static steadfast.durable.Server.ended;
import static steadfast.durable.Server.fresh;
import static steadfast.durable.Server.output;

import com.microsoft.durabletask.DurableTaskClient;
import com.microsoft.durabletask.NewOrchestrationInstanceOptions;
import com.microsoft.durabletask.OrchestrationMetadata;
import com.microsoft.durabletask.OrchestrationRuntimeStatus;
import com.microsoft.durabletask.OrchestrationStatusQuery;
import com.microsoft.durabletask.OrchestrationStatusQueryResult;
import com.microsoft.durabletask.PurgeInstanceCriteria;
import com.microsoft.durabletask.TaskOrchestration;
import io.grpc.Status;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeoutException;

/** What clients do with instances. */
final class Instances {
    private static final TaskOrchestration SIMPLE = context -> context.complete(context.getInput(Object.class));

    private Instances() {
    }

    static void addTo(Map<String, Run.Scenario> all) {
        all.put("idsAreTakenOnce", Instances::idsAreTakenOnce);
        all.put("badIdsAreRefused", Instances::badIdsAreRefused);
        all.put("unknownInstancesAreNamedAsSuch", Instances::unknownInstancesAreNamedAsSuch);
        all.put("aStartIsWaitedFor", Instances::aStartIsWaitedFor);
        all.put("delayedStartIsNotEarly", Instances::delayedStartIsNotEarly);
        all.put("terminateNeedsNoWorker", Instances::terminateNeedsNoWorker);
        all.put("suspendAndResume", Instances::suspendAndResume);
        all.put("restartKeepsTheInput", Instances::restartKeepsTheInput);
        all.put("restartsOfEveryEnd", Instances::restartsOfEveryEnd);
        all.put("queriesGiveEachInstanceOnce", Instances::queriesGiveEachInstanceOnce);
        all.put("purgeTakesWhatHasEnded", Instances::purgeTakesWhatHasEnded);
        all.put("instancesAreListed", Instances::instancesAreListed);
    }

    private static Code code() {
        return new Code().orchestration("simple", SIMPLE).orchestration("listener", Orchestrations.LISTENER);
    }

    private static OrchestrationRuntimeStatus status(DurableTaskClient client, String instance) {
        return client.getInstanceMetadata(instance, false).getRuntimeStatus();
    }

    private static void idsAreTakenOnce(Server server) throws Exception {
        server.running(code(), client -> {
            String instance = fresh("once");
            client.scheduleNewOrchestrationInstance("simple", 1, instance);
            Check.refused(Status.Code.ALREADY_EXISTS,
                () -> client.scheduleNewOrchestrationInstance("simple", 2, instance));
            Check.equal(output(client, instance, Integer.class), 1, "the output");
        });
    }

    private static void badIdsAreRefused(Server server) throws Exception {
        try (DurableTaskClient client = server.client()) {
            for (String bad : List.of("@counter@key", "x".repeat(2000))) {
                Check.refused(Status.Code.INVALID_ARGUMENT,
                    () -> client.scheduleNewOrchestrationInstance("simple", 1, bad));
            }
        }
    }

    private static void unknownInstancesAreNamedAsSuch(Server server) throws Exception {
        try (DurableTaskClient client = server.client()) {
            String nobody = fresh("nobody");
            Check.that(!client.getInstanceMetadata(nobody, true).isInstanceFound(), "it is not there");
            Check.equal(client.purgeInstance(nobody).getDeletedInstanceCount(), 0, "purged instances");
        }
    }

    private static void aStartIsWaitedFor(Server server) throws Exception {
        try (DurableTaskClient client = server.client()) {
            String instance = client.scheduleNewOrchestrationInstance("simple", 5);
            try {
                client.waitForInstanceStart(instance, Duration.ofMillis(500));
                throw new AssertionError("it began without a worker");
            } catch (TimeoutException expected) {
                Check.equal(status(client, instance), OrchestrationRuntimeStatus.PENDING, "the state");
            }
            var waiting = CompletableFuture.supplyAsync(() -> {
                try {
                    return client.waitForInstanceStart(instance, Server.PATIENCE, true);
                } catch (TimeoutException late) {
                    throw new IllegalStateException(late);
                }
            });
            server.running(code(), own -> {
                Check.that(waiting.get().getRuntimeStatus() != OrchestrationRuntimeStatus.PENDING, "it began");
                Check.equal(output(client, instance, Integer.class), 5, "the output");
            });
        }
    }

    private static void delayedStartIsNotEarly(Server server) throws Exception {
        server.running(code(), client -> {
            Instant start = Instant.now().plusSeconds(3);
            String instance = client.scheduleNewOrchestrationInstance("simple",
                new NewOrchestrationInstanceOptions().setStartTime(start).setInput(1).setInstanceId(fresh("later")));
            Check.equal(status(client, instance), OrchestrationRuntimeStatus.PENDING, "the state");
            output(client, instance, Integer.class);
            Check.that(!Instant.now().isBefore(start), "it is not early");
        });
    }

    private static void terminateNeedsNoWorker(Server server) throws Exception {
        try (DurableTaskClient client = server.client()) {
            String instance = client.scheduleNewOrchestrationInstance("nobody has it", 1, fresh("end"));
            client.terminate(instance, Map.of("why", "enough"));
            OrchestrationMetadata state = ended(client, instance);
            Check.equal(state.getRuntimeStatus(), OrchestrationRuntimeStatus.TERMINATED, "the end");
            Check.equal(state.readOutputAs(Map.class), Map.of("why", "enough"), "the output");
        }
    }

    private static void suspendAndResume(Server server) throws Exception {
        server.running(code(), client -> {
            String instance = client.scheduleNewOrchestrationInstance("listener", 3);
            client.waitForInstanceStart(instance, Server.PATIENCE);
            client.suspendInstance(instance, "a rest");
            for (int number = 0; number < 3; number += 1) {
                client.raiseEvent(instance, "note", number);
            }
            try {
                client.waitForInstanceCompletion(instance, Duration.ofSeconds(1), false);
                throw new AssertionError("it ended while it was suspended");
            } catch (TimeoutException expected) {
                Check.equal(status(client, instance), OrchestrationRuntimeStatus.SUSPENDED, "the state");
            }
            client.resumeInstance(instance);
            Check.equal(output(client, instance, Integer[].class), new Integer[] {0, 1, 2}, "the events");
        });
    }

    private static void restartKeepsTheInput(Server server) throws Exception {
        server.running(code(), client -> {
            String instance = client.scheduleNewOrchestrationInstance("simple", Map.of("a", 1));
            output(client, instance, Map.class);
            String other = client.restartInstance(instance, true);
            Check.that(!other.equals(instance), "a new id");
            Check.equal(output(client, other, Map.class), Map.of("a", 1), "the output");
            // The SDK schedules a new instance under the id, which is taken.
            Check.refused(Status.Code.ALREADY_EXISTS, () -> client.restartInstance(instance, false));
        });
    }

    /** Whatever an instance came to, a new one begins with its input. */
    private static void restartsOfEveryEnd(Server server) throws Exception {
        Code code = new Code().orchestration("fickle", context -> {
            String how = context.getInput(String.class);
            if (how.equals("fail")) {
                throw new IllegalStateException("as planned");
            }
            if (how.equals("wait")) {
                context.waitForExternalEvent("never").await();
            }
            context.complete(how);
        });
        Map<String, OrchestrationRuntimeStatus> ends = Map.of("fail", OrchestrationRuntimeStatus.FAILED, "wait",
            OrchestrationRuntimeStatus.TERMINATED, "end", OrchestrationRuntimeStatus.COMPLETED);
        server.running(code, client -> {
            for (String how : ends.keySet()) {
                String first = client.scheduleNewOrchestrationInstance("fickle", how);
                Check.equal(comeTo(client, first, how), ends.get(how), how);
                String again = client.restartInstance(first, true);
                Check.that(!again.equals(first), "a new id");
                Check.equal(comeTo(client, again, how), ends.get(how), how);
                Check.equal(ended(client, again).readInputAs(String.class), how, "the input");
            }
            try {
                client.restartInstance(fresh("unknown"), true);
                throw new AssertionError("an unknown instance was restarted");
            } catch (IllegalArgumentException expected) {
                Check.that(expected.getMessage().contains("was not found"), expected);
            }
        });
    }

    /** How an instance ends, which is terminated if it waits. */
    private static OrchestrationRuntimeStatus comeTo(DurableTaskClient client, String instance, String how)
        throws TimeoutException {
        client.waitForInstanceStart(instance, Server.PATIENCE);
        if (how.equals("wait")) {
            client.terminate(instance, "enough");
        }
        return ended(client, instance).getRuntimeStatus();
    }

    /** While others start, pages over many instances give each of them once. */
    private static void queriesGiveEachInstanceOnce(Server server) throws Exception {
        server.running(code(), client -> {
            String prefix = fresh("query");
            List<String> wanted = new ArrayList<>();
            for (int number = 0; number < 100; number += 1) {
                String id = String.format("%s-%04d", prefix, number);
                wanted.add(client.scheduleNewOrchestrationInstance("simple", number, id));
            }
            OrchestrationStatusQuery query =
                new OrchestrationStatusQuery().setInstanceIdPrefix(prefix).setMaxInstanceCount(7);
            List<String> found = new ArrayList<>();
            String token = null;
            do {
                OrchestrationStatusQueryResult page = client.queryInstances(query.setContinuationToken(token));
                page.getOrchestrationState().forEach(state -> found.add(state.getInstanceId()));
                client.scheduleNewOrchestrationInstance("simple", 1, prefix + "-later-" + found.size());
                token = page.getContinuationToken();
            } while (token != null && !token.isEmpty());
            Check.equal(new HashSet<>(found).size(), found.size(), "each of them once");
            Check.that(found.containsAll(wanted), found);
        });
    }

    private static void purgeTakesWhatHasEnded(Server server) throws Exception {
        server.running(code(), client -> {
            String done = client.scheduleNewOrchestrationInstance("simple", 1);
            output(client, done, Integer.class);
            String live = client.scheduleNewOrchestrationInstance("listener", 1);
            client.waitForInstanceStart(live, Server.PATIENCE);
            Check.equal(client.purgeInstance(live).getDeletedInstanceCount(), 0, "a live one");
            Check.equal(client.purgeInstance(done).getDeletedInstanceCount(), 1, "one that has ended");
            Check.that(!client.getInstanceMetadata(done, true).isInstanceFound(), "it is gone");
            Instant from = Instant.now();
            for (int number = 0; number < 3; number += 1) {
                output(client, client.scheduleNewOrchestrationInstance("simple", number), Integer.class);
            }
            PurgeInstanceCriteria criteria = new PurgeInstanceCriteria()
                .setCreatedTimeFrom(from)
                .setRuntimeStatusList(List.of(OrchestrationRuntimeStatus.COMPLETED));
            Check.equal(client.purgeInstances(criteria).getDeletedInstanceCount(), 3, "those since then");
            client.terminate(live, "done");
        });
    }

    private static void instancesAreListed(Server server) throws Exception {
        server.running(code(), client -> {
            String prefix = fresh("list");
            Instant from = Instant.now().minusSeconds(1);
            List<String> wanted = new ArrayList<>();
            for (int number = 0; number < 25; number += 1) {
                String id = String.format("%s-%02d", prefix, number);
                wanted.add(client.scheduleNewOrchestrationInstance("simple", number, id));
            }
            for (String each : wanted) {
                output(client, each, Integer.class);
            }
            String live = client.scheduleNewOrchestrationInstance("listener", 1, prefix + "-live");
            client.waitForInstanceStart(live, Server.PATIENCE);
            OrchestrationStatusQuery query = new OrchestrationStatusQuery()
                .setInstanceIdPrefix(prefix)
                .setCreatedTimeFrom(from)
                .setRuntimeStatusList(List.of(OrchestrationRuntimeStatus.COMPLETED))
                .setFetchInputsAndOutputs(true)
                .setMaxInstanceCount(7);
            List<String> found = new ArrayList<>();
            String token = null;
            do {
                OrchestrationStatusQueryResult page = client.queryInstances(query.setContinuationToken(token));
                Check.that(page.getOrchestrationState().size() <= 7, page.getOrchestrationState().size());
                page.getOrchestrationState().forEach(state -> {
                    found.add(state.getInstanceId());
                    Check.equal(state.getSerializedOutput(), state.getSerializedInput(), "the output");
                });
                token = page.getContinuationToken();
            } while (token != null && !token.isEmpty());
            Check.equal(found.stream().sorted().toList(), wanted, "the instances");
            query.setContinuationToken(null).setRuntimeStatusList(List.of(OrchestrationRuntimeStatus.RUNNING));
            List<String> running = client.queryInstances(query).getOrchestrationState().stream()
                .map(OrchestrationMetadata::getInstanceId)
                .toList();
            Check.equal(running, List.of(live), "the running one");
            // A query without any condition, as the SDK makes it by default.
            Check.that(!client.queryInstances(new OrchestrationStatusQuery()).getOrchestrationState().isEmpty(), "some");
            client.terminate(live, "done");
        });
    }
}
