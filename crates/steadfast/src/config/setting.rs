//! The list of all settings.

use std::fmt::Write;

use super::value::{Form, PORT};

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its name in the file, with dots between tables.
    pub key: &'static str,
    /// What its value must look like.
    pub form: Form,
    /// Its default as TOML; empty if there is none.
    pub default: &'static str,
    /// What it does, in one sentence.
    pub help: &'static str,
}

const fn setting(
    key: &'static str,
    form: Form,
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

/// All settings, in the order in which people are shown them.
#[rustfmt::skip]
pub const SETTINGS: &[Setting] = &[
    setting("name", Form::Text, "\"node-1\"", "The node's name, in logs and in the cluster."),
    setting("data", Form::Text, "\"./steadfast-data\"", "The folder that holds everything durable."),
    setting("engine", Form::Choice(&["local", "memory", "postgres"]), "\"local\"", "Where state is kept: in the data folder, in memory only, or in PostgreSQL."),
    setting("partitions", Form::Number(1, 4096), "64", "Into how many partitions state is divided; fixed when a data folder is made."),
    setting("memory", Form::Size, "\"512MiB\"", "Memory for cached rows, tails of events and buffers, at most."),
    setting("listen", Form::Address, "\"127.0.0.1\"", "The address that every port is opened on."),
    setting("backup.root", Form::Text, "", "The folder below which backups by command over the network lie; the data folder's name with -backups behind it unless set."),
    setting("postgres.url", Form::Secret, "", "The PostgreSQL cluster, with all its hosts: postgres://user:password@a,b,c/database; several, with spaces between them, share the partitions."),
    setting("cluster.key", Form::Secret, "", "What all nodes of a cluster on PostgreSQL, or of a pair of regions, know, 32 characters at least; without it the node is alone."),
    setting("cluster.port", PORT, "7071", "Other nodes of the cluster or pair; open if there is a cluster key."),
    setting("cluster.advertise", Form::Text, "", "The host, or host and port, under which other nodes reach this one; where it listens unless set."),
    setting("cluster.lease", Form::Duration, "\"10s\"", "How long a node that is not heard of keeps its partitions; the same on all nodes."),
    setting("storage.log_target", Form::Size, "\"64MiB\"", "Unflushed log from which on it is brought into the tables; from four times as much on writers have to wait."),
    setting("http.port", PORT, "7070", "REST, health and metrics."),
    setting("http.connections", Form::Number(1, 1_000_000), "10000", "Connections per port at a time; a further one takes the place of the oldest without a key, or waits."),
    setting("http.cors_origins", Form::List, "[]", "Origins whose pages may call us from a browser; `*` is any, without credentials."),
    setting("http.hosts", Form::List, "[]", "Host names that requests may be for, beside loopback and addresses; unless set, `dev` takes no others and `serve` takes any."),
    setting("http.trusted_proxies", Form::List, "[]", "Addresses and networks whose X-Forwarded headers are believed."),
    setting("events.amqp_port", PORT, "5672", "Event hubs by AMQP, not encrypted; open on loopback, or where tls.allow_plain is set."),
    setting("events.amqps_port", PORT, "5671", "Event hubs by AMQP over TLS; open if there is a certificate."),
    setting("events.blob_port", PORT, "10000", "Blobs, where processors of the SDKs keep ownerships and checkpoints; over TLS if there is a certificate."),
    setting("events.partitions", Form::Number(1, 1024), "4", "Partitions of an event hub whose declaration does not say."),
    setting("durable.port", PORT, "4001", "Orchestrations and entities by gRPC, for the Durable Task SDKs; encrypted if there is a certificate."),
    setting("durable.unknown_hubs", Form::Flag, "true", "Whether a task hub that is not declared comes to be when it is used."),
    setting("jobs.secret_key", Form::Text, "", "A file whose text encrypts the secrets of jobs, the keys of event hubs' policies and backups; secret.key in the data folder unless set."),
    setting("jobs.allow", Form::List, "[]", "Networks and ports that jobs and upstreams may call although they are closed: 10.0.0.0/8, 10.1.2.3:8443, private."),
    setting("jobs.deny", Form::List, "[]", "Networks and ports that jobs and upstreams may not call, such as *:25; * closes all that jobs.allow does not name."),
    setting("jobs.proxy", Form::Text, "", "A proxy for all calls of jobs."),
    setting("jobs.ca", Form::Text, "", "A PEM file with authorities that calls of jobs trust beside those of the system."),
    setting("jobs.token_authority", Form::Text, "", "Where tokens of jobs come from: {authority}/{tenant}/oauth2/token."),
    setting("jobs.endpoints", Form::List, "[]", "Storage accounts and Service Bus namespaces that live elsewhere, such as orders=http://127.0.0.1:10001/orders."),
    setting("jobs.quotas", Form::Flag, "true", "Whether the plan of a collection bounds its jobs."),
    setting("jobs.allow_seconds", Form::Flag, "false", "Whether a job may run every second."),
    setting("jobs.min_retry_interval", Form::Duration, "\"15s\"", "The shortest interval that the retry policy of a job may have."),
    setting("jobs.region", Form::Text, "", "The region of this server, such as West US: its jobs are kept in two regions. `witness` for a server that only votes."),
    setting("jobs.pair", Form::Text, "", "Host and cluster port of the server in the other region."),
    setting("jobs.witness", Form::Text, "", "Host and cluster port of the witness; without one a person decides who takes over."),
    setting("realtime.port", PORT, "8888", "SignalR clients and app servers."),
    setting("realtime.mode", Form::Choice(&["default", "serverless", "classic"]), "\"default\"", "Whether clients of hubs that are not hosted here need an app server, or are served without; classic decides when they come."),
    setting("tls.certificate", Form::Text, "", "A PEM file with the chain of certificates; read again on SIGHUP."),
    setting("tls.key", Form::Text, "", "A PEM file with the private key of the certificate."),
    setting("tls.allow_plain", Form::Flag, "false", "Listen beyond loopback without TLS, because something in front encrypts."),
    setting("access.keys", Form::Text, "", "The file that `steadfast key` keeps keys in; keys.toml in the data folder unless set."),
    setting("drain.limit", Form::Duration, "\"30s\"", "How long leaving may take before the rest is cut off."),
    setting("limits.unproven_connections", Form::Number(1, 1_000_000), "1000", "Connections without a key at a time, a quarter of them from one address; a further one takes the place of the oldest."),
    setting("limits.connection_bytes", Form::Size, "\"32MiB\"", "Memory that one AMQP connection with a key may hold before it is closed."),
    setting("limits.connections_bytes", Form::Size, "\"256MiB\"", "Memory that all AMQP connections with a key may hold before the largest is closed."),
    setting("log.level", Form::Text, "\"info\"", "How much is logged: error, warn, info, debug or trace, also per module."),
    setting("log.format", Form::Choice(&["auto", "text", "json"]), "\"auto\"", "How log lines look; auto is text on a terminal and JSON otherwise."),
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
    text.push_str(super::declared::TEMPLATE);
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
    fn there_are_about_forty_settings_at_most() {
        assert!(SETTINGS.len() <= 49, "{}", SETTINGS.len());
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
