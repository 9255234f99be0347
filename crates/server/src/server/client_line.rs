//! A client's description in one line, as in CLIENT LIST, CLIENT INFO and ACL LOG.

use super::Server;
use crate::command::Args;
use crate::session::{Client, ClientHandle};
use std::fmt::Write as _;
use wire::convert::signed_len;
use wire::reply::Protocol;

/// Returns the letters of the client's states; `N` for none.
pub fn flags(client: &Client) -> String {
    let tracking = client.tracking.as_deref();
    let letters = [
        ('O', client.is_monitor),
        ('S', client.is_replica),
        ('M', client.is_primary),
        ('P', !client.subscriptions.is_empty()),
        ('x', client.transaction.is_some()),
        ('b', client.blocked.is_some()),
        ('t', tracking.is_some()),
        ('R', tracking.is_some_and(|tracking| tracking.broken_redirect)),
        ('B', tracking.is_some_and(|tracking| tracking.broadcast)),
        ('d', client.watch_broken),
        ('c', client.close_after_reply),
        ('A', client.close_asap),
        ('U', client.connection.is_unix_socket),
        ('r', client.routing.reads_replicas),
        ('e', client.no_evict),
        ('T', client.no_touch),
        ('I', client.import_source),
        ('i', client.is_slot_source()),
        ('E', client.is_slot_target()),
    ];
    let flags: String = letters.iter().filter(|(_, set)| *set).map(|(letter, _)| letter).collect();
    if flags.is_empty() { "N".to_owned() } else { flags }
}

impl Server {
    /// Appends the client's line. `args` are those of the current command, which is `own`'s.
    pub fn describe_client(&self, text: &mut String, client: &Client, own: ClientHandle, args: Args<'_>) {
        let connection = &client.connection;
        let now_us = self.now.monotonic_us;
        let age_s = now_us.saturating_sub(client.created.monotonic_us) / 1_000_000;
        let idle_s = now_us.saturating_sub(client.last_interaction.monotonic_us) / 1_000_000;
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let argument_bytes = match &client.blocked {
            Some(blocked) => blocked.argument_bytes(),
            None if client.handle == own => args.iter().map(<[u8]>::len).sum::<usize>(),
            None => 0,
        };
        let queued =
            client.transaction.as_ref().map_or(-1, |transaction| signed_len(transaction.queued.len()));
        let queued_bytes = client.transaction.as_ref().map_or(0, |transaction| transaction.argument_bytes);
        let (unsent, of_stream) = (client.unsent(), client.unsent_stream());
        let events = match (connection.watches_readable, connection.watches_writable) {
            (true, true) => "rw",
            (true, false) => "r",
            (false, true) => "w",
            (false, false) => "",
        };
        let command = client.last_command.map_or("NULL", |id| self.registry.row(id).name);
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "id={} addr={} laddr={} fd={} name={} age={age_s} idle={idle_s} flags={} capa={} db={}",
            client.id,
            connection.address,
            connection.local_address,
            connection.fd,
            shown(&client.name),
            flags(client),
            if client.capabilities_redirect { "r" } else { "" },
            client.db_index,
        );
        let _ = write!(
            text,
            " sub={} psub={} ssub={} multi={queued} watch={} qbuf={} qbuf-free={} argv-mem={argument_bytes} multi-mem={queued_bytes}",
            client.subscriptions.channels.len(),
            client.subscriptions.patterns.len(),
            client.subscriptions.shard_channels.len(),
            client.watched.len(),
            connection.input_bytes(),
            connection.input_free_bytes(),
        );
        let _ = write!(
            text,
            " rbs={} rbp={} obl={} oll={} omem={} tot-mem={} events={events} cmd={command} user={} redir={} resp={}",
            client.reply_buffer.bytes,
            client.reply_buffer.peak_bytes,
            unsent.buffered_bytes,
            unsent.chunks + of_stream.chunks,
            unsent.chunk_bytes + of_stream.chunk_bytes,
            client.memory_bytes_in_chunks() + of_stream.chunk_bytes,
            shown(self.users.name(client.user())),
            client.redirection(),
            if client.protocol() == Protocol::Resp3 { 3 } else { 2 },
        );
        let _ = writeln!(
            text,
            " lib-name={} lib-ver={} tot-net-in={} tot-net-out={} tot-cmds={} io-thread={}",
            shown(&client.library.name),
            shown(&client.library.version),
            connection.input_bytes_total,
            connection.output_bytes_total,
            client.commands_total,
            connection.io_thread,
        );
    }
}
