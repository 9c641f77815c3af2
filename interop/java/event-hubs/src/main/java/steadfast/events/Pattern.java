package steadfast.events;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;

/** A body whose pages of 4 KiB have their own numbers in every 8 bytes. */
final class Pattern extends InputStream {
    private static final int PAGE = 4096;

    private final long size;
    private long at;
    private long mark;

    Pattern(long size) {
        this.size = size;
    }

    static byte[] part(long start, long end) {
        ByteBuffer pages = ByteBuffer.allocate((int) (end / PAGE - start / PAGE + 1) * PAGE);
        while (pages.hasRemaining()) {
            pages.putLong(start / PAGE + pages.position() / PAGE);
        }
        byte[] part = new byte[(int) (end - start)];
        pages.get((int) (start % PAGE), part);
        return part;
    }

    /** The next bytes of a body are those of the pattern. */
    static void check(InputStream body, long start, long count) throws IOException {
        for (long at = start; at < start + count; ) {
            int length = (int) Math.min(1 << 20, start + count - at);
            Check.equal(body.readNBytes(length), part(at, at + length), "the bytes from " + at + " on");
            at += length;
        }
    }

    @Override
    public int read() {
        byte[] one = new byte[1];
        return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
    }

    @Override
    public int read(byte[] buffer, int offset, int length) {
        int count = (int) Math.min(length, size - at);
        if (count == 0 && length > 0) {
            return -1;
        }
        System.arraycopy(part(at, at + count), 0, buffer, offset, count);
        at += count;
        return count;
    }

    @Override
    public boolean markSupported() {
        return true;
    }

    @Override
    public synchronized void mark(int limit) {
        mark = at;
    }

    @Override
    public synchronized void reset() {
        at = mark;
    }
}
