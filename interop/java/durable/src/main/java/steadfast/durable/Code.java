package steadfast.durable;

import com.microsoft.durabletask.DurableTaskGrpcWorkerBuilder;
import com.microsoft.durabletask.TaskActivity;
import com.microsoft.durabletask.TaskActivityFactory;
import com.microsoft.durabletask.TaskOrchestration;
import com.microsoft.durabletask.TaskOrchestrationFactory;
import java.util.LinkedHashMap;
import java.util.Map;

/** What a worker can do, by name. */
final class Code {
    private final Map<String, TaskOrchestration> orchestrations = new LinkedHashMap<>();
    private final Map<String, TaskActivity> activities = new LinkedHashMap<>();

    Code orchestration(String name, TaskOrchestration code) {
        orchestrations.put(name, code);
        return this;
    }

    Code activity(String name, TaskActivity code) {
        activities.put(name, code);
        return this;
    }

    DurableTaskGrpcWorkerBuilder addTo(DurableTaskGrpcWorkerBuilder worker) {
        orchestrations.forEach((name, code) -> worker.addOrchestration(new TaskOrchestrationFactory() {
            @Override
            public String getName() {
                return name;
            }

            @Override
            public TaskOrchestration create() {
                return code;
            }
        }));
        activities.forEach((name, code) -> worker.addActivity(new TaskActivityFactory() {
            @Override
            public String getName() {
                return name;
            }

            @Override
            public TaskActivity create() {
                return code;
            }
        }));
        return worker;
    }
}
