//! The HTTP thread: accepts connections and limits each of them.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

use crate::routes::Routes;
use crate::{Server, Settings};

/// Maximum size of a request's line and headers.
const REQUEST_BYTES_MAX: usize = 16 << 10;
/// Time from a connection's first byte, or the end of the previous request, to the end of the headers.
const HEADERS_WITHIN: Duration = Duration::from_secs(10);
/// Time from a connection's first byte to the end of the TLS handshake.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// Lifetime of a connection: it is asked to end after this time, and closed after it again.
const CONNECTION_FOR: Duration = Duration::from_secs(300);
const ENDS_WITHIN: Duration = Duration::from_secs(10);
const SAMPLED_EACH: Duration = Duration::from_secs(1);
/// Delay of the next accept after a system error, such as too many open files.
const REST: Duration = Duration::from_secs(1);

/// The running thread; dropping this ends it.
pub struct Thread {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take()
            && let Err(panic) = thread.join()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

/// Serves `listeners` on a thread.
///
/// # Errors
/// The system cannot create the thread or its poller.
pub fn start(listeners: Vec<TcpListener>, settings: Settings, server: Arc<dyn Server>) -> io::Result<Thread> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (stop, stopped) = watch::channel(false);
    let shared = Arc::new(Shared {
        free: Semaphore::new(settings.connections_max),
        speaks_tls: settings.speaks_tls,
        routes: Routes::new(settings.hosts, Arc::clone(&server)),
        server,
    });
    for listener in &listeners {
        listener.set_nonblocking(true)?;
    }
    let serve = move || {
        runtime.block_on(async move {
            for listener in listeners {
                match tokio::net::TcpListener::from_std(listener) {
                    Ok(listener) => drop(tokio::spawn(accept(listener, Arc::clone(&shared)))),
                    Err(error) => shared.server.warn(format!("Watching for HTTP connections: {error}")),
                }
            }
            let mut stopped = stopped;
            drop(tokio::spawn(sample(shared)));
            // Fails only if the receiver has been dropped.
            let _ = stopped.wait_for(|stopped| *stopped).await;
        });
        // Open requests end with the process.
        runtime.shutdown_background();
    };
    let thread = std::thread::Builder::new().name("http".to_owned()).spawn(serve)?;
    Ok(Thread { stop, thread: Some(thread) })
}

struct Shared {
    /// One permit per connection.
    free: Semaphore,
    speaks_tls: bool,
    routes: Routes,
    server: Arc<dyn Server>,
}

/// Samples the server each second. A sample without an answer leaves a gap.
async fn sample(shared: Arc<Shared>) {
    let mut clock = tokio::time::interval(SAMPLED_EACH);
    clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        clock.tick().await;
        let (answer, answered) = tokio::sync::oneshot::channel();
        // A stop does not wait for open requests.
        shared.server.request_figures(Box::new(|figures| drop(answer.send(figures))));
        if let Ok(figures) = answered.await {
            shared.routes.note(figures);
        }
    }
}

async fn accept(listener: tokio::net::TcpListener, shared: Arc<Shared>) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                tokio::spawn(serve(stream, peer, Arc::clone(&shared)));
            }
            Err(error) => {
                shared.server.warn(format!("Accepting an HTTP connection: {error}"));
                tokio::time::sleep(REST).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, peer: SocketAddr, shared: Arc<Shared>) {
    // Connections beyond the limit are closed, so that idle connections delay no other.
    let Ok(_permit) = shared.free.try_acquire() else { return };
    let Ok(local) = stream.local_addr() else { return };
    if !shared.speaks_tls {
        return converse(stream, peer, local, &shared).await;
    }
    let Some(config) = shared.server.tls() else { return };
    let handshake = TlsAcceptor::from(config).accept(stream);
    // The peer has received an alert; the reason concerns its certificates.
    if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_WITHIN, handshake).await {
        converse(stream, peer, local, &shared).await;
    }
}

async fn converse<S>(stream: S, peer: SocketAddr, local: SocketAddr, shared: &Shared)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let answer = service_fn(|request| shared.routes.answer(request, peer, local));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_buf_size(REQUEST_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), answer);
    let mut connection = std::pin::pin!(connection);
    // After an error of the peer or a timeout there is no one to reply to.
    if tokio::time::timeout(CONNECTION_FOR, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ = tokio::time::timeout(ENDS_WITHIN, connection).await;
    }
}
