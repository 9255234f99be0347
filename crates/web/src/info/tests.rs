use super::*;
use crate::metrics::{Form, exposition};
use std::collections::BTreeSet;

fn scraped(info: &str) -> String {
    let replies = Replies { info: info.replace('\n', "\r\n"), ..Replies::default() };
    exposition(&replies, Form::Prometheus)
}

#[test]
fn times_of_threads_are_told_apart_by_a_label() {
    let text = scraped("used_active_time_main_thread:1.5\nused_active_time_io_thread_1:0.25\n");
    for line in [
        "warmline_main_thread_active_seconds_total 1.5\n",
        "warmline_thread_active_seconds_total{thread=\"0\"} 1.5\n",
        "warmline_thread_active_seconds_total{thread=\"1\"} 0.25\n",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("io_thread_1"), "{text}");
}

#[test]
fn each_row_has_a_name_of_its_own() {
    let (mut fields, mut names) = (BTreeSet::new(), BTreeSet::new());
    let lists = LISTS.iter().flat_map(|list| list.members);
    for row in ROWS {
        assert!(fields.insert(row.field), "{}", row.field);
        assert!(names.insert(format!("warmline_{}", row.name)), "{}", row.name);
        assert!(
            row.exporter.is_empty() || names.insert(format!("redis_{}", row.exporter)),
            "{}",
            row.exporter
        );
    }
    for member in lists {
        assert!(names.insert(format!("warmline_{}", member.name)), "{}", member.name);
        assert!(
            member.exporter.is_empty() || names.insert(format!("redis_{}", member.exporter)),
            "{}",
            member.exporter
        );
    }
    for (_, name) in EXPORTER_GAUGES {
        assert!(names.insert(format!("redis_{name}")), "{name}");
    }
    for name in &names {
        assert!(!name.ends_with("_total"), "{name}: counters stand without it");
        assert_eq!(&metric_name(name), name);
    }
}

#[test]
fn numbers_are_scaled_to_base_units() {
    let text = scraped(
        "# Stats\nlatest_fork_usec:1500\nused_memory_peak_perc:50.00%\ninstantaneous_input_kbps:2.00\n",
    );
    assert!(text.contains("warmline_last_fork_seconds 0.0015\n"), "{text}");
    assert!(text.contains("redis_latest_fork_usec 1500.0\n"), "{text}");
    assert!(text.contains("warmline_memory_used_of_peak_ratio 0.5\n"), "{text}");
    assert!(text.contains("warmline_network_input_bytes_per_second 2048.0\n"), "{text}");
}

#[test]
fn fields_without_a_row_are_shown() {
    let text = scraped("new_figure:7\nnew_word:abc\nnan_word:nan\nrun_id:123\n");
    assert!(text.contains("# TYPE warmline_new_figure gauge\nwarmline_new_figure 7.0\n"), "{text}");
    assert!(!text.contains("new_word") && !text.contains("nan_word"));
    assert!(!text.contains("warmline_run_id"));
}

#[test]
fn what_is_not_there_has_no_measure() {
    let text = scraped(
        "tls_server_cert_serial:none\ntls_server_cert_expires_in_seconds:0\n\
         tls_ca_cert_serial:7\ntls_ca_cert_expires_in_seconds:0\n\
         rdb_last_bgsave_time_sec:-1\naof_last_rewrite_time_sec:0\nallocator_frag_bytes:-1\n",
    );
    assert!(!text.contains("tls_server_certificate_expires"), "{text}");
    assert!(text.contains("warmline_tls_ca_certificate_expires_seconds 0.0\n"), "expired: {text}");
    assert!(!text.contains("warmline_rdb_last_save_duration_seconds"), "{text}");
    assert!(text.contains("redis_rdb_last_bgsave_duration_sec -1.0\n"), "as redis_exporter has it: {text}");
    assert!(text.contains("warmline_aof_last_rewrite_duration_seconds 0.0\n"), "{text}");
    assert!(text.contains("warmline_allocator_fragmentation_bytes -1.0\n"), "{text}");
}

#[test]
fn words_are_one_and_zero() {
    let text = scraped("rdb_last_bgsave_status:err\naof_last_write_status:ok\n");
    assert!(
        text.contains("warmline_rdb_last_save_ok 0.0\n")
            && text.contains("redis_aof_last_write_status 1.0\n")
    );
}

#[test]
fn lists_are_told_apart_by_labels() {
    let text = scraped(
        "cmdstat_config|get:calls=2,usec=300,usec_per_call=150.00,rejected_calls=1,failed_calls=0\n\
         cmdstat_get:calls=5,usec=50,usec_per_call=10.00,rejected_calls=0,failed_calls=0\n\
         errorstat_WRONGTYPE:count=3\n\
         db3:keys=10,expires=2,avg_ttl=1500,keys_with_volatile_items=0\n\
         slave0:ip=::1,port=7000,state=online,offset=77,lag=1,type=replica\n",
    );
    for line in [
        "redis_commands_total{cmd=\"config get\"} 2.0\nredis_commands_total{cmd=\"get\"} 5.0\n",
        "redis_commands_duration_seconds_total{cmd=\"get\"} 0.00005\n",
        "warmline_errors_total{err=\"WRONGTYPE\"} 3.0\n",
        "redis_db_keys{db=\"db3\"} 10.0\n",
        "redis_db_avg_ttl_seconds{db=\"db3\"} 1.5\n",
        "redis_connected_slave_offset_bytes{slave_ip=\"::1\",slave_port=\"7000\",slave_state=\"online\"} 77.0\n",
        "warmline_connected_replica_silent_seconds{replica=\"0\"} 1.0\n",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    // One description for all samples of a name.
    assert_eq!(text.matches("# TYPE redis_commands_total ").count(), 1);
}

#[test]
fn errors_may_have_any_name() {
    let text = scraped("errorstat_A\"B\\C:count=1\n");
    assert!(text.contains("warmline_errors_total{err=\"A\\\"B\\\\C\"} 1.0\n"), "{text}");
}

#[test]
fn histograms_have_rising_buckets() {
    let bulk = |text: &str| Value::Bulk(text.as_bytes().to_vec());
    let usec = Value::Array(vec![Value::Integer(1), Value::Integer(3), Value::Integer(4), Value::Integer(5)]);
    let get = Value::Array(vec![bulk("calls"), Value::Integer(6), bulk("histogram_usec"), usec]);
    let replies = Replies {
        info: "cmdstat_get:calls=6,usec=20\r\n".to_owned(),
        histograms: Some(Value::Array(vec![bulk("get"), get])),
        slow_len: Some(Value::Integer(2)),
        slow_last: Some(Value::Array(vec![Value::Array(vec![
            Value::Integer(9),
            Value::Integer(1),
            Value::Integer(2500),
        ])])),
        ..Replies::default()
    };
    let text = exposition(&replies, Form::OpenMetrics);
    for line in [
        "warmline_command_duration_seconds_sum{cmd=\"get\"} 0.00002\n",
        "warmline_command_duration_seconds_count{cmd=\"get\"} 6\n",
        "warmline_command_duration_seconds_bucket{le=\"0.000004\",cmd=\"get\"} 5\n",
        "warmline_command_duration_seconds_bucket{le=\"+Inf\",cmd=\"get\"} 6\n",
        "redis_slowlog_last_id 9.0\n",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[test]
fn nothing_that_the_server_may_answer_panics() {
    let replies = Replies {
        info: "a\n:\n#\n:=\ncmdstat_:calls=\ndb:keys=1\nslave0:\ncmdstat_x:=,,=5,calls=--\n1e:1e999\n"
            .to_owned(),
        histograms: Some(Value::Array(vec![Value::Null, Value::Integer(i64::MIN)])),
        slow_len: Some(Value::Null),
        slow_last: Some(Value::Array(vec![Value::NullArray])),
        cluster_nodes: Some(text("\nx\n a b c \nid addr myself,x - 0 0 1 connected [ [->- 5-\n")),
        cluster_links: Some(Value::Array(vec![Value::Null, Value::Map(Vec::new())])),
        slot_migrations: Some(Value::Array(vec![Value::Integer(1), Value::Map(Vec::new())])),
        slot_stats: vec![Value::Null, Value::Array(vec![Value::Array(vec![Value::Null, Value::Null])])],
    };
    exposition(&replies, Form::Prometheus);
}

fn text(words: &str) -> Value {
    Value::Bulk(words.as_bytes().to_vec())
}

fn pairs(members: &[(&str, Value)]) -> Value {
    Value::Array(members.iter().flat_map(|(name, value)| [text(name), value.clone()]).collect())
}

#[test]
fn nodes_and_links_are_told_apart_by_labels() {
    let link = |direction: &str, bytes: i64| {
        pairs(&[
            ("direction", text(direction)),
            ("node", text("bb")),
            ("send-buffer-used", Value::Integer(bytes)),
        ])
    };
    let nodes = "aa 10.0.0.1:1@2 myself,master - 0 0 1 connected 0-9 [5->-bb] [6->-bb] [12-<-bb]\n\
                 bb 10.0.0.2:1@2,name master - 0 5 2 connected 10-20\n\
                 cc ::1:1@2 slave,fail? bb 0 5 2 disconnected\n\
                 dd 10.0.0.4:1@2 handshake - 0 0 0 disconnected\n";
    let replies = Replies {
        cluster_nodes: Some(text(nodes)),
        cluster_links: Some(Value::Array(vec![link("to", 7), link("from", 1), link("from", 2)])),
        ..Replies::default()
    };
    let shown = exposition(&replies, Form::Prometheus);
    for line in [
        "warmline_cluster_open_slots{state=\"migrating\"} 2.0\n",
        "warmline_cluster_open_slots{state=\"importing\"} 1.0\n",
        "warmline_cluster_node_ok{node=\"bb\",address=\"10.0.0.2:1\",role=\"primary\"} 1.0\n",
        "warmline_cluster_node_ok{node=\"cc\",address=\"::1:1\",role=\"replica\"} 0.0\n",
        "warmline_cluster_link_connected{direction=\"to\",node=\"bb\"} 1.0\n",
        "warmline_cluster_link_connected{direction=\"from\",node=\"bb\"} 1.0\n",
        "warmline_cluster_link_connected{direction=\"to\",node=\"cc\"} 0.0\n",
        "warmline_cluster_link_connected{direction=\"from\",node=\"cc\"} 0.0\n",
        "warmline_cluster_link_send_buffer_bytes{direction=\"to\",node=\"bb\"} 7.0\n",
        "warmline_cluster_link_send_buffer_bytes{direction=\"from\",node=\"bb\"} 3.0\n",
    ] {
        assert!(shown.contains(line), "{line} is not in\n{shown}");
    }
    assert!(!shown.contains("\"dd\"") && !shown.contains("node=\"aa\""), "{shown}");
}

#[test]
fn slot_migrations_in_progress_are_counted_by_state() {
    let job = |operation: &str, state: &str, updated_s: i64, bytes: i64| {
        pairs(&[
            ("operation", text(operation)),
            ("state", text(state)),
            ("last_update_time", Value::Integer(updated_s)),
            ("remaining_repl_size", Value::Integer(bytes)),
        ])
    };
    let jobs = [
        job("EXPORT", "snapshotting", 940, 5),
        job("EXPORT", "snapshotting", 990, 6),
        job("EXPORT", "connecting", 999, 0),
        job("EXPORT", "success", 1, 0),
        job("IMPORT", "failed", 1, 0),
    ];
    let replies = Replies {
        info: "server_time_usec:1000000000\r\n".to_owned(),
        slot_migrations: Some(Value::Array(jobs.to_vec())),
        ..Replies::default()
    };
    let shown = exposition(&replies, Form::Prometheus);
    for line in [
        "warmline_cluster_slot_migrations{operation=\"export\",state=\"snapshotting\"} 2.0\n",
        "warmline_cluster_slot_migrations{operation=\"export\",state=\"connecting\"} 1.0\n",
        "warmline_cluster_slot_migration_remaining_bytes{operation=\"export\"} 11.0\n",
        "warmline_cluster_slot_migration_state_seconds{operation=\"export\"} 60.0\n",
        "warmline_cluster_slot_migration_state_seconds{operation=\"import\"} 0.0\n",
    ] {
        assert!(shown.contains(line), "{line} is not in\n{shown}");
    }
    assert_eq!(shown.matches("warmline_cluster_slot_migrations{").count(), 2, "{shown}");
}

#[test]
fn a_slot_that_leads_twice_is_one_series() {
    let slot = |number: i64, usec: i64| {
        let figures = pairs(&[("key-count", Value::Integer(3)), ("cpu-usec", Value::Integer(usec))]);
        Value::Array(vec![Value::Integer(number), figures])
    };
    let by_keys = Value::Array(vec![slot(1, 10), slot(2, 20)]);
    let by_time = Value::Array(vec![slot(2, 20), slot(3, 5)]);
    let shown =
        exposition(&Replies { slot_stats: vec![by_keys, by_time], ..Replies::default() }, Form::Prometheus);
    assert_eq!(shown.matches("warmline_cluster_slot_keys{").count(), 3, "{shown}");
    assert!(shown.contains("warmline_cluster_slot_processor_seconds_total{slot=\"2\"} 0.00002\n"), "{shown}");
}

#[test]
fn messages_of_the_bus_are_told_apart_by_type() {
    let shown = scraped(
        "cluster_state:fail\ncluster_stats_messages_auth-req_sent:4\ncluster_stats_messages_sent:9\n\
         cluster_stats_messages_ping_received:2\ncluster_stats_bytes_sent:77\n",
    );
    for line in [
        "warmline_cluster_ok 0.0\n",
        "warmline_cluster_bus_sent_messages_total{type=\"auth-req\"} 4.0\n",
        "warmline_cluster_bus_received_messages_total{type=\"ping\"} 2.0\n",
        "redis_cluster_messages_sent_total 9.0\n",
        "warmline_cluster_bus_sent_bytes_total 77.0\n",
    ] {
        assert!(shown.contains(line), "{line} is not in\n{shown}");
    }
    assert_eq!(metric_of("cluster_stats_messages_ping_sent"), "warmline_cluster_bus_sent_messages");
}

#[test]
fn only_a_node_that_has_its_data_is_asked_about_its_cluster() {
    let asked = |info: &str| crate::metrics::cluster_commands(info).len();
    assert_eq!(asked("cluster_enabled:0\r\n"), 0);
    assert_eq!(asked("cluster_enabled:1\r\nloading:1\r\n"), 0);
    assert_eq!(asked("loading:0\r\nasync_loading:1\r\ncluster_enabled:1\r\n"), 0);
    assert_eq!(asked("loading:0\r\ncluster_enabled:1\r\ncluster_slot_stats_enabled:0\r\n"), 3);
    assert_eq!(asked("loading:0\r\ncluster_enabled:1\r\ncluster_slot_stats_enabled:1\r\n"), 7);
}

#[test]
fn replicas_that_claim_one_address_are_one_series() {
    let line = "ip=10.0.0.1,port=6379,state=online,offset=7,lag=0,type=replica";
    let text = scraped(&format!("slave0:{line}\nslave1:{line}\n"));
    assert_eq!(text.matches("redis_connected_slave_lag_seconds{").count(), 1, "{text}");
    assert_eq!(text.matches("warmline_connected_replica_silent_seconds{").count(), 2, "{text}");
}
