//! Encrypted connections to a server with a certificate.
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use steadfast_harness::postgres::PostgresServer;
use steadfast_storage::{Engine, Result};
use steadfast_storage_postgres::{Durability, ErrorKind, Options, PostgresEngine};

/// A server whose certificate is for `localhost`, and the file of that.
fn server(settings: &str) -> (PostgresServer, PathBuf) {
    let mut server = PostgresServer::create("tls", settings).unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_string()]).unwrap();
    let root = server.data().join("server.crt");
    give(&server, &root, &made.cert.pem());
    let key = server.data().join("server.key");
    give(&server, &key, &made.signing_key.serialize_pem());
    server.start().unwrap();
    (server, root)
}

/// Writes a file that only the server may read.
fn give(server: &PostgresServer, file: &Path, text: &str) {
    std::fs::write(file, text).unwrap();
    std::fs::set_permissions(file, PermissionsExt::from_mode(0o600)).unwrap();
    let pattern = server.data().join("postgresql.conf");
    let mut chown = Command::new("chown");
    let chown = chown.arg("--reference").arg(pattern).arg(file);
    assert!(chown.status().unwrap().success());
}

async fn open(server: &PostgresServer, host: &str, settings: &str) -> Result<PostgresEngine> {
    let port = server.port();
    let url = format!("postgres://postgres:unused@{host}:{port}/postgres?{settings}");
    let mut options = Options::new(url);
    options.durability = Durability::Single;
    options.patience = Duration::from_secs(20);
    PostgresEngine::open(options).await
}

async fn refused(server: &PostgresServer, host: &str, settings: &str, text: &str) {
    let error = open(server, host, settings).await.err().unwrap();
    assert!(
        matches!(error.specific(), Some(ErrorKind::BadAddress { .. })),
        "{error}"
    );
    assert!(error.to_string().contains(text), "{error}");
}

/// How many of the engine's connections are encrypted, and how many are not.
fn encrypted(server: &PostgresServer) -> String {
    let question = "select count(*) filter (where ssl) > 0, count(*) filter (where not ssl) > 0 \
        from pg_stat_ssl join pg_stat_activity using (pid) \
        where application_name = 'steadfast'";
    server.sql(question).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_must_be_who_it_should_be() {
    let (server, root) = server("ssl = on");
    let root = root.display();
    let full = format!("sslmode=verify-full&sslrootcert={root}");
    let engine = open(&server, "localhost", &full).await.unwrap();
    assert_eq!(engine.list("").await.unwrap(), []);
    assert_eq!(encrypted(&server), "t|f");
    drop(engine);

    // The same certificate, which is not for this name.
    refused(&server, "127.0.0.1", &full, "not trusted").await;
    let other = rcgen::generate_simple_self_signed(["localhost".to_string()]).unwrap();
    let file = server.data().join("other.crt");
    std::fs::write(&file, other.cert.pem()).unwrap();
    let wrong = format!("sslmode=verify-full&sslrootcert={}", file.display());
    refused(&server, "localhost", &wrong, "not trusted").await;
    let weak = format!("sslmode=require&sslrootcert={}", file.display());
    refused(&server, "localhost", &weak, "not trusted").await;
    let missing = format!("sslmode=verify-full&sslrootcert={}.no", file.display());
    refused(&server, "localhost", &missing, "holds no certificate").await;

    // Without an authority of its own, those of the system count, and none knows it.
    for settings in ["sslmode=require", "sslmode=verify-full"] {
        refused(&server, "localhost", settings, "sslrootcert=FILE").await;
    }
    // Encrypted without verification: because that is written, or on this machine, where it
    // need not be encrypted at all.
    for settings in ["sslmode=no-verify", "sslmode=prefer", ""] {
        server.wait_for(GONE, "0").unwrap();
        let engine = open(&server, "127.0.0.1", settings).await.unwrap();
        assert_eq!(encrypted(&server), "t|f", "{settings}");
        drop(engine);
    }
    server.wait_for(GONE, "0").unwrap();
    let engine = open(&server, "127.0.0.1", "sslmode=disable").await.unwrap();
    assert_eq!(encrypted(&server), "f|t");
    drop(engine);
}

const GONE: &str = "select count(*) from pg_stat_activity where application_name = 'steadfast'";

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_tls_is_refused_if_it_is_demanded() {
    let (server, root) = server("ssl = off");
    refused(&server, "127.0.0.1", "sslmode=require", "sslmode=disable").await;
    let full = format!("sslmode=verify-full&sslrootcert={}", root.display());
    refused(&server, "localhost", &full, "offers no TLS").await;
    open(&server, "127.0.0.1", "").await.unwrap();
}

/// A certificate that names a user, and its key, as files beside the server's.
fn identity(server: &PostgresServer, user: &str, file: &str) -> (PathBuf, PathBuf) {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new([]).unwrap();
    let name = &mut params.distinguished_name;
    name.push(rcgen::DnType::CommonName, user);
    let made = params.self_signed(&key).unwrap();
    let at = |ending: &str| server.data().join(format!("{file}.{ending}"));
    give(server, &at("crt"), &made.pem());
    give(server, &at("key"), &key.serialize_pem());
    (at("crt"), at("key"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_may_ask_who_we_are() {
    let mut server = PostgresServer::create("asks", "ssl = on\nssl_ca_file = 'ada.crt'").unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_string()]).unwrap();
    let root = server.data().join("server.crt");
    give(&server, &root, &made.cert.pem());
    let key = made.signing_key.serialize_pem();
    give(&server, &server.data().join("server.key"), &key);
    let (ours, our_key) = identity(&server, "ada", "ada");
    let (others, other_key) = identity(&server, "ada", "other");
    let rules = server.data().join("pg_hba.conf");
    let all = std::fs::read_to_string(&rules).unwrap();
    std::fs::write(&rules, format!("hostssl all ada 127.0.0.1/32 cert\n{all}")).unwrap();
    server.start().unwrap();
    server.sql("create role ada login superuser").unwrap();

    let shown = |certificate: &Path, key: &Path| {
        let (root, certificate, key) = (root.display(), certificate.display(), key.display());
        format!("sslmode=verify-full&sslrootcert={root}&sslcert={certificate}&sslkey={key}")
    };
    let open = async |user: &str, settings: &str| {
        let port = server.port();
        let url = format!("postgres://{user}@localhost:{port}/postgres?{settings}");
        let mut options = Options::new(url);
        options.durability = Durability::Single;
        options.patience = Duration::from_secs(20);
        PostgresEngine::open(options).await
    };
    let engine = open("ada", &shown(&ours, &our_key)).await.unwrap();
    assert_eq!(engine.list("").await.unwrap(), []);
    drop(engine);

    let denied = async |settings: &str| {
        let error = open("ada", settings).await.err().unwrap();
        assert!(
            matches!(error.specific(), Some(ErrorKind::AccessDenied { .. })),
            "{error}"
        );
        assert_eq!(error.code().0, "STF-2031");
    };
    denied("sslmode=no-verify").await;
    // Signed by another authority.
    denied(&shown(&others, &other_key)).await;
    let error = open("ada", &shown(&ours, &other_key)).await.err().unwrap();
    assert!(error.to_string().contains("fit together"), "{error}");
}

/// A server that takes a connection, says that it speaks TLS, and shows a certificate of
/// its own making. Answers what it was told in the encrypted connection.
async fn stranger(listener: tokio::net::TcpListener, config: rustls::ServerConfig) -> Vec<u8> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config));
    let (mut stream, _) = listener.accept().await.unwrap();
    drop(listener);
    let mut request = [0; 8];
    stream.read_exact(&mut request).await.unwrap();
    stream.write_all(b"S").await.unwrap();
    let mut told = Vec::new();
    if let Ok(mut encrypted) = acceptor.accept(stream).await {
        // Asks for the password in the clear, as a thief of passwords would.
        let mut startup = [0; 512];
        let read = encrypted.read(&mut startup).await.unwrap_or(0);
        told.extend_from_slice(&startup[..read]);
        let _ = encrypted.write_all(b"R\0\0\0\x08\0\0\0\x03").await;
        let read = encrypted.read(&mut startup).await.unwrap_or(0);
        told.extend_from_slice(&startup[..read]);
    }
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_not_sent_to_a_server_that_has_not_proven_its_name() {
    for (settings, is_told) in [("sslmode=require", false), ("sslmode=no-verify", true)] {
        let made = rcgen::generate_simple_self_signed(["localhost".to_string()]).unwrap();
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let key = rustls::pki_types::PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let thief = tokio::spawn(stranger(listener, config));
        let url = format!("postgres://ada:hush-hush@localhost:{port}/postgres?{settings}");
        let mut options = Options::new(url);
        options.durability = Durability::Single;
        options.patience = Duration::from_secs(2);
        let refused = PostgresEngine::open(options).await.err().unwrap();
        let told = thief.await.unwrap();
        let told = String::from_utf8_lossy(&told);
        assert_eq!(told.contains("hush-hush"), is_told, "{settings}: {refused}");
    }
}
