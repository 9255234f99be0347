import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisCluster;
import redis.clients.jedis.exceptions.JedisException;

/** Jedis' cluster client writes and reads back: java ClusterJedis.java PORT SECONDS TAGS */
public class ClusterJedis {
    static final int KEYS = 2000;
    static final long[] acknowledged = new long[KEYS];
    static final long[] tried = new long[KEYS];
    static final double[] at = new double[KEYS];
    static final Map<String, Integer> errors = new TreeMap<>();
    static final List<String> lost = new ArrayList<>();
    static final List<String> wrong = new ArrayList<>();
    // Every second key is of one of the slots that move, which these words are of.
    static String[] tags;
    static long writes;
    static long reads;

    static String key(int number) {
        String tag = number % 2 == 1 ? tags[number / 2 % tags.length] : Integer.toString(number);
        return "{" + tag + "}:cluster-client:" + number;
    }

    static void fail(JedisException error, long pauseMs) throws InterruptedException {
        String text = (error.getClass().getSimpleName() + ": " + error.getMessage()).replaceAll("[\"\\\\\n\r]", " ");
        errors.merge(text.substring(0, Math.min(120, text.length())), 1, Integer::sum);
        Thread.sleep(pauseMs);
    }

    static void read(JedisCluster client, int number) {
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

    static void write(JedisCluster client, int number) {
        tried[number] += 1;
        client.set(key(number), Long.toString(tried[number]));
        writes += 1;
        acknowledged[number] = tried[number];
        at[number] = System.currentTimeMillis() / 1000.0;
        read(client, number);
    }

    static void readUntil(JedisCluster client, int number) throws InterruptedException {
        for (int attempt = 0; attempt < 100; attempt++) {
            try {
                read(client, number);
                return;
            } catch (JedisException error) {
                fail(error, 200);
            }
        }
    }

    public static void main(String[] words) throws Exception {
        tags = words[2].split(",");
        long end = System.currentTimeMillis() + Long.parseLong(words[1]) * 1000;
        try (JedisCluster client = new JedisCluster(new HostAndPort("127.0.0.1", Integer.parseInt(words[0])), 5000, 5000)) {
            for (int turn = 0; System.currentTimeMillis() < end; turn++) {
                try {
                    write(client, turn * 7 % KEYS);
                } catch (JedisException error) {
                    fail(error, 100);
                }
            }
            for (int number = 0; number < KEYS; number++) {
                readUntil(client, number);
            }
        }
        List<String> counts = new ArrayList<>();
        errors.forEach((text, count) -> counts.add("\"" + text + "\":" + count));
        String version = JedisCluster.class.getPackage().getImplementationVersion();
        System.out.printf("{\"version\":\"%s\",\"writes\":%d,\"reads\":%d,\"errors\":{%s},\"lost\":[%s],\"wrong\":[%s]}%n",
            version, writes, reads, String.join(",", counts), String.join(",", lost), String.join(",", wrong));
    }
}
