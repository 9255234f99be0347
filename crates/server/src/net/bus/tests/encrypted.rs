//! Links with TLS: both ends show a certificate.

use super::*;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tls::configs::{ClientAuthentication, ClientOptions, ServerContext, ServerOptions};
use tls::materials::IdentityFiles;
use tls::{ServerName, TlsStream};

/// An authority with one certificate, which all nodes show.
struct Certificates(Directory);

impl Certificates {
    fn new() -> Self {
        let certificates = Certificates(Directory::new());
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let node = CertificateParams::default().signed_by(&key, &issuer).unwrap();
        for (name, text) in
            [("ca.crt", issuer.pem()), ("node.crt", node.pem()), ("node.key", key.serialize_pem())]
        {
            std::fs::write(certificates.0.0.join(name), text).unwrap();
        }
        certificates
    }

    fn identity(&self) -> IdentityFiles {
        let path = |name: &str| self.0.0.join(name);
        IdentityFiles { certificate: path("node.crt"), key: path("node.key"), key_password: None }
    }

    /// Those of a server whose clients need no certificate.
    fn published(&self) -> Arc<Published<BusConfigs>> {
        let options = ServerOptions {
            identity: self.identity(),
            authorities_file: Some(self.0.0.join("ca.crt")),
            client_authentication: ClientAuthentication::No,
            accepts_servers: true,
            ..ServerOptions::default()
        };
        let context = ServerContext::read(&options).unwrap();
        let published = Arc::<Published<BusConfigs>>::default();
        published.set(Some(BusConfigs { server: context.for_servers.unwrap(), client: context.client }));
        published
    }

    /// The result of a connection that shows a certificate or none: whether the node keeps it.
    fn connects(&self, port: u16, identity: Option<IdentityFiles>) -> bool {
        let authorities_file = Some(self.0.0.join("ca.crt"));
        let options = ClientOptions { identity, authorities_file, ..ClientOptions::default() };
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TcpStream::connect((LOCALHOST, port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let Ok(mut stream) = TlsStream::connect(stream, options.config().unwrap(), name) else {
            return false;
        };
        let _ = stream.write_all(ping(3).encode().as_bytes());
        let ended = stream.read(&mut [0; 1]);
        matches!(ended, Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
    }
}

#[test]
fn frames_pass_encrypted() {
    let certificates = Certificates::new();
    let mut one = Node::with(Limits::default(), certificates.published());
    let mut other = Node::with(Limits::default(), certificates.published());
    let link = one.connect("127.0.0.1", other.port);
    let frames = [ping(1), publication(300_000), ping(2)];
    frames.iter().for_each(|frame| one.send(link, frame));
    one.opened(link);
    let accepted = other.accepted();
    for frame in &frames {
        assert_eq!(other.frame(accepted), *frame);
        other.send(accepted, frame);
    }
    assert!(frames.iter().all(|frame| one.frame(link) == *frame));
    drop(other);
    assert_eq!(one.closed(link), "Peer");
}

#[test]
fn a_link_without_a_certificate_is_refused() {
    let certificates = Certificates::new();
    let mut node = Node::with(Limits::default(), certificates.published());
    assert!(!certificates.connects(node.port, None));
    let mut plain = TcpStream::connect((LOCALHOST, node.port)).unwrap();
    plain.set_read_timeout(Some(PATIENCE)).unwrap();
    plain.write_all(ping(1).encode().as_bytes()).unwrap();
    let ended = plain.read_to_end(&mut Vec::new());
    assert!(ended.is_ok() || ended.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
    node.until("no link", |figures| figures.links.load(Ordering::Relaxed) == 0);
    node.take_events();
    assert!(node.events.is_empty(), "{:?}", node.events);
    assert!(certificates.connects(node.port, Some(certificates.identity())));
    let link = node.accepted();
    assert_eq!(node.frame(link), ping(3));
}

#[test]
fn a_plain_node_is_not_connected_to() {
    let certificates = Certificates::new();
    let mut node = Node::with(Limits::default(), certificates.published());
    let mut plain = Node::new();
    let link = node.connect("127.0.0.1", plain.port);
    let accepted = plain.accepted();
    assert_eq!(plain.closed(accepted), "Fault(Signature)");
    assert!(node.closed(link).starts_with("Failed"));
}
