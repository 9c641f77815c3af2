package steadfast.durable;

import com.microsoft.durabletask.DurableTaskClient;
import com.microsoft.durabletask.Task;
import java.util.ArrayList;
import java.util.List;
import java.util.logging.Level;
import java.util.logging.Logger;

/**
 * An orchestration whose activities are in four languages.
 *
 * <p>`Languages work {server}` is a worker with the orchestration and the activity in Java, until
 * its input ends. `Languages run {server} {rounds}` runs the orchestration and prints what each
 * activity has answered, one per line.
 */
public final class Languages {
    private static final List<String> ALL = List.of("python", "javascript", "java", "go");

    private Languages() {
    }

    public static void main(String[] arguments) throws Exception {
        Logger.getLogger("").setLevel(Level.OFF);
        Server server = new Server(arguments[1]);
        if (arguments[0].equals("work")) {
            work(server);
        } else {
            run(server, Integer.parseInt(arguments[2]));
        }
        System.exit(0);
    }

    private static void work(Server server) throws Exception {
        Code code = new Code()
            .activity("say_java", context -> "java " + context.getInput(Integer.class))
            .orchestration("languages", context -> {
                List<String> answers = new ArrayList<>();
                for (int round = 0; round < context.getInput(Integer.class); round += 1) {
                    List<Task<String>> tasks = new ArrayList<>();
                    for (String language : ALL) {
                        tasks.add(context.callActivity("say_" + language, round, String.class));
                    }
                    answers.addAll(context.allOf(tasks).await());
                }
                context.complete(answers);
            });
        code.addTo(server.worker()).build().start();
        System.in.transferTo(java.io.OutputStream.nullOutputStream());
    }

    private static void run(Server server, int rounds) throws Exception {
        try (DurableTaskClient client = server.client()) {
            String instance = client.scheduleNewOrchestrationInstance("languages", rounds, Server.fresh("languages"));
            for (String answer : Server.output(client, instance, String[].class)) {
                System.out.println(answer);
            }
        }
    }
}
