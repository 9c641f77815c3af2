package steadfast.durable;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.logging.Level;
import java.util.logging.Logger;

/**
 * Runs scenarios: Run {what the server said} [names].
 *
 * <p>Without names all of them run, one after another.
 */
public final class Run {
    /** What a client does, and what it must see. */
    interface Scenario {
        void run(Server server) throws Exception;
    }

    private Run() {
    }

    public static void main(String[] arguments) throws Exception {
        // A scenario that fails says what went wrong.
        Logger.getLogger("").setLevel(Level.OFF);
        Server server = new Server(arguments[0]);
        Map<String, Scenario> all = new LinkedHashMap<>();
        Orchestrations.addTo(all);
        Families.addTo(all);
        Instances.addTo(all);
        UpstreamOrchestrations.addTo(all);
        List<String> named = Arrays.asList(arguments).subList(1, arguments.length);
        int failed = 0;
        for (String name : named.isEmpty() ? all.keySet() : named) {
            long started = System.nanoTime();
            String said = "ok";
            try {
                Scenario scenario = all.get(name);
                Check.that(scenario != null, "there is no such scenario");
                scenario.run(server);
            } catch (Throwable error) {
                error.printStackTrace();
                failed += 1;
                said = "FAILED";
            }
            System.out.printf("%s %s %.1f s%n", said, name, (System.nanoTime() - started) / 1e9);
        }
        System.exit(failed == 0 ? 0 : 1);
    }
}
