package steadfast.durable;

import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.util.Objects;
import java.util.concurrent.Callable;

/** What a scenario expects. */
final class Check {
    private Check() {
    }

    static void equal(Object actual, Object expected, String what) {
        if (!Objects.deepEquals(actual, expected)) {
            throw new AssertionError(what + ": " + actual + " instead of " + expected);
        }
    }

    static void that(boolean isSo, Object what) {
        if (!isSo) {
            throw new AssertionError(String.valueOf(what));
        }
    }

    /** A call that is refused with this status. */
    static void refused(Status.Code code, Callable<?> call) {
        try {
            call.call();
        } catch (StatusRuntimeException refused) {
            equal(refused.getStatus().getCode(), code, refused.getMessage());
            return;
        } catch (Exception other) {
            throw new AssertionError(code + " was expected", other);
        }
        throw new AssertionError(code + " was expected");
    }
}
