//! TLS: whether a certificate is trusted, and in words what is wrong with it.

use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::steps::Finding;

/// Shakes hands as the library would: the public roots, HTTP/1.1.
pub(super) async fn connect(host: &str, stream: TcpStream) -> Result<TlsStream<TcpStream>, Finding> {
    let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned())
        .map_err(|cause| Finding::failed(cause.to_string(), "the host's name cannot stand in a certificate"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|cause| Finding::failed(cause.to_string(), "this program cannot speak TLS"))?
        .with_root_certificates(RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() })
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|cause| failed(&cause))
}

/// What was agreed upon.
pub(super) fn describe(stream: &TlsStream<TcpStream>) -> String {
    let (_, session) = stream.get_ref();
    let version = session.protocol_version().and_then(|version| version.as_str()).unwrap_or("an unknown version");
    format!("{}, the certificate is trusted", version.replace('_', "."))
}

fn failed(cause: &std::io::Error) -> Finding {
    let Some(error) = cause.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) else {
        return Finding::failed(
            cause.to_string(),
            "the other side ended the handshake; does it speak TLS at that port?",
        );
    };
    match error {
        rustls::Error::InvalidCertificate(problem) => certificate(problem),
        rustls::Error::InvalidMessage(_) => {
            Finding::failed("the other side does not speak TLS", "try the same URL with http://")
        }
        other => Finding::failed(other.to_string(), "the two sides could not agree"),
    }
}

/// What is wrong with a certificate.
fn certificate(problem: &CertificateError) -> Finding {
    match problem {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => Finding::failed(
            "the certificate has expired",
            "the server's owner must renew it; is this machine's clock right?",
        ),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            Finding::failed("the certificate is not valid yet", "is this machine's clock right?")
        }
        CertificateError::UnknownIssuer => Finding::failed(
            "nobody known issued the certificate",
            "it is self-signed, or a proxy stands in between, or the server does not send its whole chain",
        ),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            Finding::failed("the certificate is for another name", "use the name that stands in the certificate")
        }
        CertificateError::Revoked => Finding::failed("the certificate was revoked", "the server's owner must renew it"),
        other => Finding::failed(format!("the certificate is not valid: {other}"), "the server's owner must mend it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_certificate_is_said_in_words() {
        let expired = std::io::Error::other(rustls::Error::InvalidCertificate(CertificateError::Expired));
        assert!(failed(&expired).found.contains("expired"));
        let stranger = std::io::Error::other(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer));
        assert!(failed(&stranger).advice.unwrap().contains("self-signed"));
        assert!(failed(&std::io::ErrorKind::UnexpectedEof.into()).advice.unwrap().contains("TLS"));
    }
}
