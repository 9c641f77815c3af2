package steadfast.events;

import com.azure.core.amqp.exception.AmqpErrorCondition;
import com.azure.core.amqp.exception.AmqpException;
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

    /** A call that fails with this condition and these words. */
    static AmqpException refused(AmqpErrorCondition condition, String words, Callable<?> call) {
        AmqpException found = refused(AmqpException.class, call);
        if (found.getErrorCondition() != condition || !found.getMessage().contains(words)) {
            throw new AssertionError(condition + " with '" + words + "' was expected", found);
        }
        return found;
    }

    /** A call that fails like this; the SDK may wrap what it throws. */
    static <T extends Throwable> T refused(Class<T> kind, Callable<?> call) {
        try {
            call.call();
        } catch (Throwable thrown) {
            for (Throwable each = thrown; each != null; each = each.getCause()) {
                if (kind.isInstance(each)) {
                    return kind.cast(each);
                }
            }
            throw new AssertionError(kind.getSimpleName() + " was expected", thrown);
        }
        throw new AssertionError(kind.getSimpleName() + " was expected");
    }
}
