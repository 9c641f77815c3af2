//! The SDKs of the page, one row each.

/// An SDK, or several that an application uses together.
pub(super) struct Sdk {
    pub(super) language: &'static str,
    pub(super) service: &'static str,
    /// Files below `interop` that name versions, each with packages.
    pub(super) packages: &'static [(&'static str, &'static [&'static str])],
    /// Test file and client whose scenarios it runs.
    pub(super) scenarios: Option<(&'static str, &'static str)>,
    /// Its tests beside the scenarios: file and names.
    pub(super) tests: &'static [(&'static str, &'static [&'static str])],
    /// How to configure TLS and a private certificate authority.
    pub(super) tls: &'static str,
    pub(super) lacks: &'static str,
}

const FIVE_PROCESSORS: (&str, &[&str]) = (
    "event_hub_languages",
    &["events_41_42_processors_in_five_languages_share_a_group_and_lose_nothing"],
);
const FOUR_WORKERS: (&str, &[&str]) = (
    "durable_clients",
    &["one_orchestration_has_activities_in_four_languages"],
);
const FIVE_CLIENTS: (&str, &[&str]) = (
    "signalr_clients",
    &["a_hub_has_clients_in_five_languages_that_all_hear_one_another"],
);
const DURABLE_TLS: (&str, &[&str]) = (
    "durable_clients",
    &["the_sdks_of_durable_task_trust_a_certificate_of_the_user"],
);
const SIGNALR_TLS: (&str, &[&str]) = (
    "signalr_clients",
    &["signalr_clients_trust_a_certificate_of_the_user"],
);

pub(super) const SDKS: &[Sdk] = &[
    Sdk {
        language: "Python",
        service: "event hubs and blobs",
        packages: &[(
            "python/requirements.txt",
            &[
                "azure-eventhub",
                "azure-eventhub-checkpointstoreblob",
                "azure-eventhub-checkpointstoreblob-aio",
                "azure-storage-blob",
            ],
        )],
        scenarios: Some(("event_hub_clients", "Python")),
        tests: &[
            (
                "event_hub_processors",
                &[
                    "events_37_python_and_node_mean_the_same_blob",
                    "events_41_another_continues_where_a_killed_processor_was",
                    "events_42_processors_of_python_and_node_share_fairly",
                ],
            ),
            (
                "blob_clients",
                &["blobs_of_256_mebibytes_pass_through_little_memory"],
            ),
            FIVE_PROCESSORS,
        ],
        tls: "leave out `UseDevelopmentEmulator`; `custom_endpoint_address=\"sb://host:port\"` for another port, `connection_verify=\"ca.pem\"` for an authority of your own, `transport_type=TransportType.AmqpOverWebsocket` by the HTTPS port",
        lacks: "",
    },
    Sdk {
        language: "Python",
        service: "durable entities and orchestrations",
        packages: &[(
            "durable-python/requirements.txt",
            &[
                "durabletask",
                "durabletask.azuremanaged",
                "azure-storage-blob[aio]",
            ],
        )],
        scenarios: Some(("durable_clients", "Python")),
        tests: &[
            (
                "durable_clients",
                &[
                    "managed_clients_name_their_task_hub",
                    "durable_60_no_money_is_lost_when_server_and_worker_are_killed",
                ],
            ),
            FOUR_WORKERS,
            DURABLE_TLS,
        ],
        tls: "`secure_channel=True`; the variable `GRPC_DEFAULT_SSL_ROOTS_FILE_PATH=ca.pem` for an authority of your own",
        lacks: "",
    },
    Sdk {
        language: "Python",
        service: "jobs",
        packages: &[(
            "python-scheduler/requirements.txt",
            &["azure-mgmt-scheduler"],
        )],
        scenarios: None,
        tests: &[(
            "scheduler_clients",
            &[
                "jobs_01_the_sdk_does_everything_over_http",
                "jobs_01_the_sdk_does_everything_over_tls",
                "jobs_12_the_sdk_gets_as_many_jobs_as_it_asks_for",
                "jobs_17_the_sdk_reads_our_errors",
            ],
        )],
        tls: "an `https://` base URL; `connection_verify=\"ca.pem\"` for an authority of your own",
        lacks: "",
    },
    Sdk {
        language: "Python",
        service: "real-time messaging",
        packages: &[(
            "signalr-python/requirements.txt",
            &["pysignalr", "signalrcore"],
        )],
        scenarios: Some(("signalr_clients", "Python")),
        tests: &[FIVE_CLIENTS, SIGNALR_TLS],
        tls: "an `https://` URL; for an authority of your own the variables `SSL_CERT_FILE=ca.pem` and, for signalrcore, `REQUESTS_CA_BUNDLE=ca.pem`",
        lacks: "pysignalr: WebSockets only, its `access_token_factory` is asked too late (give a header), no reconnects. signalrcore: long polling without a token, no results of the client, no streams of the client in MessagePack",
    },
    Sdk {
        language: "JavaScript",
        service: "event hubs and blobs",
        packages: &[(
            "node/package.json",
            &[
                "@azure/event-hubs",
                "@azure/eventhubs-checkpointstore-blob",
                "@azure/storage-blob",
            ],
        )],
        scenarios: Some(("event_hub_clients", "Node")),
        tests: &[
            (
                "event_hub_processors",
                &[
                    "events_37_python_and_node_mean_the_same_blob",
                    "events_41_another_continues_where_a_killed_processor_was",
                    "events_42_processors_of_python_and_node_share_fairly",
                ],
            ),
            FIVE_PROCESSORS,
        ],
        tls: "leave out `UseDevelopmentEmulator`; `customEndpointAddress: \"sb://host:port\"` for another port; by WebSocket options of the socket in `webSocketConstructorOptions`. Tried by WebSocket, without verification",
        lacks: "",
    },
    Sdk {
        language: "JavaScript",
        service: "durable entities and orchestrations",
        packages: &[("durable-node/package.json", &["@microsoft/durabletask-js"])],
        scenarios: Some(("durable_clients", "Node")),
        tests: &[FOUR_WORKERS, DURABLE_TLS],
        tls: "`useTLS: true`; the variable `GRPC_DEFAULT_SSL_ROOTS_FILE_PATH=ca.pem` for an authority of your own",
        lacks: "",
    },
    Sdk {
        language: "JavaScript",
        service: "real-time messaging",
        packages: &[(
            "signalr-node/package.json",
            &["@microsoft/signalr", "@microsoft/signalr-protocol-msgpack"],
        )],
        scenarios: Some(("signalr_clients", "Node")),
        tests: &[FIVE_CLIENTS, SIGNALR_TLS],
        tls: "an `https://` URL; the variable `NODE_EXTRA_CA_CERTS=ca.pem` for an authority of your own",
        lacks: "",
    },
    Sdk {
        language: "Java",
        service: "event hubs and blobs",
        packages: &[(
            "java/event-hubs/pom.xml",
            &[
                "azure-messaging-eventhubs",
                "azure-messaging-eventhubs-checkpointstore-blob",
                "azure-storage-blob",
            ],
        )],
        scenarios: Some(("event_hub_clients", "Java")),
        tests: &[
            (
                "event_hub_processors",
                &[
                    "events_41_42_processors_of_java_share_fairly_and_continue",
                    "events_41_42_processors_of_java_share_with_node_and_continue",
                ],
            ),
            (
                "blob_clients",
                &["blobs_of_256_mebibytes_of_java_pass_through_little_memory"],
            ),
            FIVE_PROCESSORS,
        ],
        tls: "leave out `UseDevelopmentEmulator` and give `customEndpointAddress(\"sb://host:port\")`; the JVM verifies the certificate: `-Djavax.net.ssl.trustStore=..` for an authority of your own; `transportType(AmqpTransportType.AMQP_WEB_SOCKETS)` by the HTTPS port",
        lacks: "checkpoints of single events have no offset, and processors of Node fail at them: take events by `processEventBatch`. No idempotent producers; [more](../../interop/README.md#what-the-java-clients-lack)",
    },
    Sdk {
        language: "Java",
        service: "durable entities and orchestrations",
        packages: &[("java/durable/pom.xml", &["durabletask-client"])],
        scenarios: Some(("durable_clients", "Java")),
        tests: &[
            (
                "durable_clients",
                &["no_order_of_java_is_lost_when_server_and_worker_are_killed"],
            ),
            FOUR_WORKERS,
            DURABLE_TLS,
        ],
        tls: "a channel of your own: `grpcChannel(Grpc.newChannelBuilder(\"host:port\", TlsChannelCredentials.newBuilder().trustManager(new File(\"ca.pem\")).build()).build())`; the channel that the builder makes is not encrypted",
        lacks: "no entities, locks, filters, versions; events carried over by `continueAsNew` come twice; timers over three days end early; restart under the same id is refused; [more](../../interop/README.md#what-the-java-clients-lack)",
    },
    Sdk {
        language: "Java",
        service: "real-time messaging",
        packages: &[("java/signalr/pom.xml", &["signalr"])],
        scenarios: Some(("signalr_clients", "Java")),
        tests: &[FIVE_CLIENTS, SIGNALR_TLS],
        tls: "an `https://` URL; a trust store of the JVM (`-Djavax.net.ssl.trustStore`) for an authority of your own",
        lacks: "JSON only; messages by long polling may come in another order; no reconnects",
    },
    Sdk {
        language: "Go",
        service: "event hubs and blobs",
        packages: &[(
            "go/go.mod",
            &[
                "github.com/Azure/azure-sdk-for-go/sdk/messaging/azeventhubs/v2",
                "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob",
            ],
        )],
        scenarios: Some(("event_hub_clients", "Go")),
        tests: &[
            (
                "event_hub_processors",
                &[
                    "events_41_processors_of_go_continue_where_a_killed_one_was",
                    "events_42_processors_of_go_share_fairly_with_others",
                ],
            ),
            (
                "blob_clients",
                &["blobs_of_256_mebibytes_of_go_pass_through_little_memory"],
            ),
            FIVE_PROCESSORS,
        ],
        tls: "leave out `UseDevelopmentEmulator` and the port, and give `CustomEndpoint: \"host:port\"`; `TLSConfig.RootCAs` for an authority of your own; `NewWebSocketConn` dials the WebSocket",
        lacks: "names in checkpoints keep their case, and a port in the connection string becomes part of them: write lower case, and `CustomEndpoint`. No idempotent producers; [more](../../interop/README.md#what-the-go-modules-lack)",
    },
    Sdk {
        language: "Go",
        service: "durable orchestrations",
        packages: &[("go/go.mod", &["github.com/microsoft/durabletask-go"])],
        scenarios: Some(("durable_clients", "Go")),
        tests: &[
            (
                "durable_clients",
                &["totals_of_go_are_right_when_server_and_worker_are_killed"],
            ),
            FOUR_WORKERS,
            DURABLE_TLS,
        ],
        tls: "`grpc.WithTransportCredentials` with `credentials.NewClientTLSFromFile(\"ca.pem\", \"\")`",
        lacks: "no entities, locks, filters, rewind, restart, queries, histories or versions",
    },
    Sdk {
        language: "Go",
        service: "real-time messaging",
        packages: &[("go/go.mod", &["github.com/philippseith/signalr"])],
        scenarios: Some(("signalr_clients", "Go")),
        tests: &[FIVE_CLIENTS, SIGNALR_TLS],
        tls: "an `https://` URL; the variable `SSL_CERT_FILE=ca.pem` for an authority of your own",
        lacks: "no long polling; beside server-sent events it posts without its token: WebSockets, or an HTTP client that adds the header",
    },
    Sdk {
        language: "Rust",
        service: "event hubs",
        packages: &[("rust/clients/Cargo.toml", &["azure_messaging_eventhubs"])],
        scenarios: Some(("event_hub_clients", "Rust")),
        tests: &[],
        tls: "`with_custom_endpoint(\"amqps://host:port\")`; with `AmqpTransport::WebSocket` by the HTTPS port; the variable `SSL_CERT_FILE=ca.pem` for an authority of your own",
        lacks: "`UseDevelopmentEmulator` is ignored: `with_custom_endpoint`, see [the guide](../guides/event-hub-clients.md#clients-in-rust)",
    },
    Sdk {
        language: "Rust",
        service: "processors of event hubs",
        packages: &[(
            "rust/processor/Cargo.toml",
            &[
                "azure_messaging_eventhubs",
                "azure_messaging_eventhubs_checkpointstore_blob",
            ],
        )],
        scenarios: None,
        tests: &[
            (
                "event_hub_processors",
                &[
                    "events_41_42_processors_of_rust_share_fairly_and_continue",
                    "a_processor_of_rust_trusts_a_certificate_of_the_user",
                ],
            ),
            FIVE_PROCESSORS,
        ],
        tls: "`with_custom_endpoint(\"amqps://host:port\")` and an `https://` address of the container; the variable `SSL_CERT_FILE=ca.pem` for an authority of your own",
        lacks: "names in checkpoints keep their case: write lower case to share a group with other SDKs; an error of one link makes all partitions begin again, see [the guide](../guides/event-hub-clients.md#clients-in-rust)",
    },
    Sdk {
        language: "Rust",
        service: "real-time messaging",
        packages: &[("rust/signalr/Cargo.toml", &["signalr-client"])],
        scenarios: None,
        tests: &[FIVE_CLIENTS],
        tls: "encrypted unless `unsecure` is called; it trusts the authorities that are compiled in, and none of your own",
        lacks: "WebSockets only",
    },
];
