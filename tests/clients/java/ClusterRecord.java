import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** What clients of clusters remember of each key, and how they write and read back. */
final class ClusterRecord {
    static final int KEYS = 2000;

    /** A library's calls; errors are thrown. */
    interface Client {
        void set(String key, String value);

        String get(String key);
    }

    private final long[] acknowledged = new long[KEYS];
    private final long[] tried = new long[KEYS];
    private final double[] at = new double[KEYS];
    private final Map<String, Integer> errors = new TreeMap<>();
    private final List<String> lost = new ArrayList<>();
    private final List<String> wrong = new ArrayList<>();
    private final Client client;
    // Every second key is of one of the slots that move, which these words are of.
    private final String[] tags;
    private long writes;
    private long reads;

    ClusterRecord(Client client, String tags) {
        this.client = client;
        this.tags = tags.split(",");
    }

    private String key(int number) {
        String tag = number % 2 == 1 ? tags[number / 2 % tags.length] : Integer.toString(number);
        return "{" + tag + "}:cluster-client:" + number;
    }

    private void fail(RuntimeException error, long pauseMs) throws InterruptedException {
        String text = (error.getClass().getSimpleName() + ": " + error.getMessage()).replaceAll("[\"\\\\\n\r]", " ");
        errors.merge(text.substring(0, Math.min(120, text.length())), 1, Integer::sum);
        Thread.sleep(pauseMs);
    }

    private void read(int number) {
        String text = client.get(key(number));
        reads += 1;
        long value = text == null ? 0 : Long.parseLong(text);
        if (acknowledged[number] <= value && value <= tried[number]) {
            return;
        }
        String entry = String.format("[\"%s\",%d,%d,%.3f]", key(number), value, acknowledged[number], at[number]);
        (value < acknowledged[number] ? lost : wrong).add(entry);
        // From here on the older value is the right one.
        acknowledged[number] = Math.min(value, tried[number]);
    }

    private void write(int number) {
        tried[number] += 1;
        client.set(key(number), Long.toString(tried[number]));
        writes += 1;
        acknowledged[number] = tried[number];
        at[number] = System.currentTimeMillis() / 1000.0;
        read(number);
    }

    private void readUntil(int number) throws InterruptedException {
        for (int attempt = 0; attempt < 100; attempt++) {
            try {
                read(number);
                return;
            } catch (RuntimeException error) {
                fail(error, 200);
            }
        }
    }

    /** Writes for some seconds, reads all keys, and prints the report. */
    void run(String seconds, String version) throws InterruptedException {
        long end = System.currentTimeMillis() + Long.parseLong(seconds) * 1000;
        for (int turn = 0; System.currentTimeMillis() < end; turn++) {
            try {
                write(turn * 7 % KEYS);
            } catch (RuntimeException error) {
                fail(error, 100);
            }
        }
        for (int number = 0; number < KEYS; number++) {
            readUntil(number);
        }
        List<String> counts = new ArrayList<>();
        errors.forEach((text, count) -> counts.add("\"" + text + "\":" + count));
        System.out.printf("{\"version\":\"%s\",\"writes\":%d,\"reads\":%d,\"errors\":{%s},\"lost\":[%s],\"wrong\":[%s]}%n",
            version, writes, reads, String.join(",", counts), String.join(",", lost), String.join(",", wrong));
    }
}
