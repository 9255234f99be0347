//! What is known of nodes: NODES, REPLICAS, INFO, LINKS, MYID, MYSHARDID, COUNT-FAILURE-REPORTS.

use super::{node, refused, view};
use crate::command::{Args, Context, Outcome};
use crate::config::ClusterEndpointType;
use crate::error::{ClientError, quoted};
use crate::server::cluster_node::Endpoint;
use cluster::{Cluster, Node, Refusal};

pub(super) fn my_id(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    let id = view(ctx.server)?.my_id();
    ctx.reply.bulk(id.as_bytes());
    Ok(())
}

pub(super) fn my_shard_id(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    let id = view(ctx.server)?.myself().shard_id();
    ctx.reply.bulk(id.as_bytes());
    Ok(())
}

pub(super) fn list(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    let lines = lines(ctx, |view| Ok(view.nodes().collect()))?;
    let text: String = lines.iter().flat_map(|line| [line, "\n"]).collect();
    ctx.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

/// The lines of some nodes, with the addresses at which the client reaches them.
fn lines(
    ctx: &Context<'_>,
    choose: impl FnOnce(&Cluster) -> Result<Vec<&Node>, ClientError>,
) -> Result<Vec<String>, ClientError> {
    let view = view(ctx.server)?;
    let seen_by = &ctx.server.clients[ctx.client].connection;
    let lines = choose(view)?.into_iter().map(|node| {
        let endpoint = Endpoint::of(node, ClusterEndpointType::Ip, seen_by);
        let mut line = String::new();
        view.append_line(node, &endpoint.address, endpoint.port, &mut line);
        line
    });
    Ok(lines.collect())
}

fn named<'a>(view: &'a Cluster, args: Args<'_>) -> Result<&'a Node, ClientError> {
    view.lookup(args.at(2)).ok_or_else(|| refused(Refusal::UnknownNode(quoted(args.at(2)))))
}

pub(super) fn replicas(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let lines = lines(ctx, |view| {
        let primary = named(view, args)?;
        if primary.is_replica() {
            return Err(refused(Refusal::NotPrimary(primary.id())));
        }
        Ok(primary.replicas().iter().filter_map(|id| view.node(*id)).collect())
    })?;
    ctx.reply.array(lines.len());
    lines.iter().for_each(|line| ctx.reply.bulk(line.as_bytes()));
    Ok(())
}

pub(super) fn count_failure_reports(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let view = view(ctx.server)?;
    let reports = view.failure_reports(named(view, args)?.id());
    ctx.reply.count(reports);
    Ok(())
}

pub(super) fn info(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    let text: String =
        node(ctx)?.info_lines().iter().map(|(name, value)| format!("{name}:{value}\r\n")).collect();
    ctx.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

pub(super) fn links(ctx: &mut Context<'_>, _args: Args<'_>) -> Outcome {
    let links: Vec<_> = view(ctx.server)?.links().collect();
    let reply = &mut *ctx.reply;
    reply.array(links.len());
    for link in links {
        reply.map(6);
        reply.bulk(b"direction");
        reply.bulk(if link.link.is_inbound() { b"from" } else { b"to" });
        reply.bulk(b"node");
        reply.bulk(link.node.as_bytes());
        reply.bulk(b"create-time");
        reply.count(link.created_unix_ms);
        reply.bulk(b"events");
        reply.bulk(if link.backlog_bytes > 0 { b"rw" } else { b"r" });
        for name in ["send-buffer-allocated", "send-buffer-used"] {
            reply.bulk(name.as_bytes());
            reply.count(link.backlog_bytes);
        }
    }
    Ok(())
}
