package steadfast.signalr;

import io.reactivex.rxjava3.core.Completable;
import java.util.Objects;

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

    /** A call that fails with these words. */
    static Throwable refused(String words, Completable call) {
        try {
            call.blockingAwait();
        } catch (Throwable refused) {
            if (String.valueOf(refused.getMessage()).contains(words)) {
                return refused;
            }
            throw new AssertionError("it does not say '" + words + "'", refused);
        }
        throw new AssertionError("nothing was refused with '" + words + "'");
    }
}
