//! The list of all settings.

use std::fmt::Write;

use super::value::{PORT, ValueType};

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its name in the file, with dots between tables.
    pub key: &'static str,
    /// The type of its value.
    pub form: ValueType,
    /// Its default as TOML; empty if there is none.
    pub default: &'static str,
    /// Its description, in one sentence.
    pub help: &'static str,
}

const fn setting(
    key: &'static str,
    form: ValueType,
    default: &'static str,
    help: &'static str,
) -> Setting {
    Setting {
        key,
        form,
        default,
        help,
    }
}

/// All settings, in display order.
#[rustfmt::skip]
pub const SETTINGS: &[Setting] = &[
    setting("name", ValueType::Text, "\"node-1\"", "The node's name, in logs and in the cluster."),
    setting("data", ValueType::Text, "\"./steadfast-data\"", "The folder that holds everything durable."),
    setting("engine", ValueType::Choice(&["local", "memory", "postgres"]), "\"local\"", "Where state is kept: in the data folder, in memory only, or in PostgreSQL."),
    setting("partitions", ValueType::Number(1, 4096), "64", "Number of partitions of the state; fixed when the data folder is created."),
    setting("memory", ValueType::Size, "\"512MiB\"", "Maximum memory for cached rows, tails of events and buffers."),
    setting("listen", ValueType::Address, "\"127.0.0.1\"", "The address that every port is opened on."),
    setting("backup.root", ValueType::Text, "", "The folder that contains backups taken over the network; the data folder's name with -backups appended unless set."),
    setting("postgres.url", ValueType::Secret, "", "The PostgreSQL cluster, with all its hosts: postgres://user:password@a,b,c/database; several, separated by spaces, share the partitions."),
    setting("cluster.key", ValueType::Secret, "", "The shared secret of all nodes of a cluster on PostgreSQL, or of a region pair, 32 characters at least; without it the node is alone."),
    setting("cluster.port", PORT, "7071", "Port for other nodes of the cluster or pair; open if there is a cluster key."),
    setting("cluster.advertise", ValueType::Text, "", "The host, or host and port, under which other nodes reach this one; where it listens unless set."),
    setting("cluster.lease", ValueType::Duration, "\"10s\"", "How long a node that does not renew its lease keeps its partitions; the same on all nodes."),
    setting("storage.log_target", ValueType::Size, "\"64MiB\"", "Size of the unflushed log that triggers a flush to the tables; at four times this size writers wait."),
    setting("http.port", PORT, "7070", "Port of REST, health and metrics."),
    setting("http.connections", ValueType::Number(1, 1_000_000), "10000", "Maximum connections per port; a further one replaces the oldest unauthenticated one, or waits."),
    setting("http.cors_origins", ValueType::List, "[]", "Origins whose pages may call the server from a browser; `*` is any, without credentials."),
    setting("http.hosts", ValueType::List, "[]", "Host names that requests may use, beside loopback and addresses; unless set, `dev` accepts no others and `serve` accepts any."),
    setting("http.trusted_proxies", ValueType::List, "[]", "Addresses and networks whose X-Forwarded headers are trusted."),
    setting("events.amqp_port", PORT, "5672", "Port of event hubs by AMQP, not encrypted; open on loopback, or where tls.allow_plain is set."),
    setting("events.amqps_port", PORT, "5671", "Port of event hubs by AMQP over TLS; open if there is a certificate."),
    setting("events.blob_port", PORT, "10000", "Port of blobs, where processors of the SDKs keep ownerships and checkpoints; over TLS if there is a certificate."),
    setting("events.partitions", ValueType::Number(1, 1024), "4", "Default number of partitions of an event hub."),
    setting("durable.port", PORT, "4001", "Port of orchestrations and entities by gRPC, for the Durable Task SDKs; encrypted if there is a certificate."),
    setting("durable.unknown_hubs", ValueType::Flag, "true", "Whether an undeclared task hub is created on first use."),
    setting("jobs.secret_key", ValueType::Text, "", "A file whose text encrypts the secrets of jobs, the keys of event hubs' policies and backups; secret.key in the data folder unless set."),
    setting("jobs.allow", ValueType::List, "[]", "Networks and ports that jobs and upstreams may call although they are closed by default: 10.0.0.0/8, 10.1.2.3:8443, private."),
    setting("jobs.deny", ValueType::List, "[]", "Networks and ports that jobs and upstreams may not call, such as *:25; * closes all that jobs.allow does not name."),
    setting("jobs.proxy", ValueType::Text, "", "A proxy for all calls of jobs."),
    setting("jobs.ca", ValueType::Text, "", "A PEM file with certificate authorities that calls of jobs trust beside those of the system."),
    setting("jobs.token_authority", ValueType::Text, "", "Token authority of jobs: {authority}/{tenant}/oauth2/token."),
    setting("jobs.endpoints", ValueType::List, "[]", "Storage accounts and Service Bus namespaces at other addresses, such as orders=http://127.0.0.1:10001/orders."),
    setting("jobs.quotas", ValueType::Flag, "true", "Whether the plan of a job collection limits its jobs."),
    setting("jobs.allow_seconds", ValueType::Flag, "false", "Whether a job may run every second."),
    setting("jobs.min_retry_interval", ValueType::Duration, "\"15s\"", "Shortest interval of a job's retry policy."),
    setting("jobs.region", ValueType::Text, "", "The region of this server, such as West US: its jobs are kept in two regions. `witness` for a server that only votes."),
    setting("jobs.pair", ValueType::Text, "", "Host and cluster port of the server in the other region."),
    setting("jobs.witness", ValueType::Text, "", "Host and cluster port of the witness; without one an operator must order the fail-over."),
    setting("realtime.port", PORT, "8888", "Port of SignalR clients and app servers."),
    setting("realtime.mode", ValueType::Choice(&["default", "serverless", "classic"]), "\"default\"", "Whether clients of hubs that are not hosted in this process need an app server; classic decides when a client connects."),
    setting("tls.certificate", ValueType::Text, "", "A PEM file with the certificate chain; reloaded on SIGHUP."),
    setting("tls.key", ValueType::Text, "", "A PEM file with the private key of the certificate."),
    setting("tls.allow_plain", ValueType::Flag, "false", "Whether to listen beyond loopback without TLS, because a proxy in front encrypts."),
    setting("access.keys", ValueType::Text, "", "The file in which `steadfast key` stores keys; keys.toml in the data folder unless set."),
    setting("drain.limit", ValueType::Duration, "\"30s\"", "Time limit of a drain, after which remaining work is cut off."),
    setting("limits.unproven_connections", ValueType::Number(1, 1_000_000), "1000", "Maximum unauthenticated connections, at most a quarter of them from one address; a further one replaces the oldest."),
    setting("limits.connection_bytes", ValueType::Size, "\"32MiB\"", "Memory of one authenticated AMQP connection above which it is closed."),
    setting("limits.connections_bytes", ValueType::Size, "\"256MiB\"", "Memory of all authenticated AMQP connections above which the largest is closed."),
    setting("limits.blob_account_bytes", ValueType::Size, "\"0B\"", "What all blobs of one account take together, above which writes that need more are refused; 0B is no limit. The same on all nodes of a cluster, and set only when all of them run this version."),
    setting("log.level", ValueType::Text, "\"info\"", "Log level: error, warn, info, debug or trace, also per module."),
    setting("log.format", ValueType::Choice(&["auto", "text", "json"]), "\"auto\"", "Format of log lines; auto is text on a terminal and JSON otherwise."),
];

/// The setting of that key.
pub(super) fn find(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.key == key)
}

/// A configuration file with every setting as a comment.
///
/// ```
/// let file = steadfast::config::template();
/// assert!(file.contains("# port = 7070"));
/// ```
pub fn template() -> String {
    let mut text = String::from(
        "# Steadfast. Every setting is optional; what is commented out is the default.\n\
         # Environment variables win over this file (STEADFAST_HTTP__PORT=7070), flags over both\n\
         # (--set http.port=7070).\n",
    );
    let mut table = "";
    for setting in SETTINGS {
        let (own, name) = setting.key.rsplit_once('.').unwrap_or(("", setting.key));
        // Writing to a string cannot fail.
        if own != table {
            table = own;
            let _ = write!(text, "\n[{table}]\n");
        }
        let value = if setting.default.is_empty() {
            "\"\""
        } else {
            setting.default
        };
        let _ = write!(text, "\n# {}\n# {name} = {value}\n", setting.help);
    }
    text.push_str(super::declarations::TEMPLATE);
    text
}

/// The reference of all settings, as a table in Markdown.
///
/// ```
/// let table = steadfast::config::reference();
/// assert!(table.contains("| `http.port` |"));
/// ```
pub fn reference() -> String {
    let mut text =
        String::from("| Setting | Value | Default | What it does |\n|---|---|---|---|\n");
    for setting in SETTINGS {
        let default = match setting.default {
            "" => "none".to_owned(),
            default => format!("`{default}`"),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| `{}` | {} | {default} | {} |",
            setting.key, setting.form, setting.help
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_fifty_settings_at_most() {
        assert!(SETTINGS.len() <= 50, "{}", SETTINGS.len());
    }

    #[test]
    fn every_default_fits_its_form_and_every_key_is_there_once() {
        for setting in SETTINGS
            .iter()
            .filter(|setting| !setting.default.is_empty())
        {
            let table: toml::Table = format!("value = {}", setting.default).parse().unwrap();
            setting.form.check(&table["value"]).unwrap();
        }
        let mut keys: Vec<_> = SETTINGS.iter().map(|setting| setting.key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), SETTINGS.len());
    }
}
