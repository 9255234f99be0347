import io.lettuce.core.MaintNotificationsConfig;
import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.ClusterTopologyRefreshOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.api.sync.RedisAdvancedClusterCommands;
import java.time.Duration;

/** Lettuce's cluster client writes and reads back: ClusterLettuce PORT SECONDS TAGS */
public class ClusterLettuce {
    public static void main(String[] words) throws Exception {
        String version = RedisURI.class.getPackage().getImplementationVersion().split("/")[0];
        RedisURI address = RedisURI.builder().withHost("127.0.0.1").withPort(Integer.parseInt(words[0])).withTimeout(Duration.ofSeconds(5)).build();
        try (RedisClusterClient lettuce = RedisClusterClient.create(address)) {
            // Without this it asks for the owners of slots once, and never again: its documentation advises it for clusters that change.
            ClusterTopologyRefreshOptions refresh = ClusterTopologyRefreshOptions.builder()
                .enablePeriodicRefresh(Duration.ofSeconds(10)).enableAllAdaptiveRefreshTriggers()
                .adaptiveRefreshTriggersTimeout(Duration.ofSeconds(1)).build();
            ClusterClientOptions.Builder options = ClusterClientOptions.builder().topologyRefreshOptions(refresh);
            // These notices are of one vendor's service; other servers reply with an error, which is not to be counted here.
            options.maintNotificationsConfig(MaintNotificationsConfig.disabled());
            lettuce.setOptions(options.build());
            RedisAdvancedClusterCommands<String, String> commands = lettuce.connect().sync();
            ClusterRecord.Client client = new ClusterRecord.Client() {
                @Override
                public void set(String key, String value) {
                    commands.set(key, value);
                }

                @Override
                public String get(String key) {
                    return commands.get(key);
                }
            };
            new ClusterRecord(client, words[2]).run(words[1], version);
        }
    }
}
