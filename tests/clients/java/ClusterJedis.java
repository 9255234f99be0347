import java.util.Properties;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisCluster;

/** Jedis' cluster client writes and reads back: ClusterJedis PORT SECONDS TAGS */
public class ClusterJedis {
    public static void main(String[] words) throws Exception {
        Properties properties = new Properties();
        properties.load(JedisCluster.class.getResourceAsStream("pom.properties"));
        try (JedisCluster jedis = new JedisCluster(new HostAndPort("127.0.0.1", Integer.parseInt(words[0])), 5000, 5000)) {
            ClusterRecord.Client client = new ClusterRecord.Client() {
                @Override
                public void set(String key, String value) {
                    jedis.set(key, value);
                }

                @Override
                public String get(String key) {
                    return jedis.get(key);
                }
            };
            new ClusterRecord(client, words[2]).run(words[1], properties.getProperty("version"));
        }
    }
}
