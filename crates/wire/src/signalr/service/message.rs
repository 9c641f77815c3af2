//! Messages between app servers and the service.

use bytes::Bytes;

/// Framed hub messages by the name of their protocol.
pub type Payloads = Vec<(String, Bytes)>;

/// One message. Fields that the other side does not use are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// 1: an app server introduces itself.
    Handshake(ServerHandshake),
    /// 2: the service's response; an empty error means success.
    Welcome { error: String, id: Option<String> },
    /// 3: alternating keys and values.
    Ping(Vec<String>),
    /// 4: a client is opened.
    Open(OpenConnection),
    /// 5: a client has closed, or must close.
    Close(CloseConnection),
    /// 6: to or from a client.
    Data(ConnectionData),
    /// 7 to 10, 14: to several clients.
    Send { to: Target, payloads: Payloads },
    /// 13: to a group, with exceptions.
    Group(GroupBroadcast),
    /// 11 and 18.
    Join {
        connection: String,
        group: String,
        ack: Option<i64>,
    },
    /// 12 and 19; without a group: all of them.
    Leave {
        connection: String,
        group: Option<String>,
        ack: Option<i64>,
    },
    /// 15: the service refuses this server.
    Fault(String),
    /// 16 and 26.
    UserJoin {
        user: String,
        group: String,
        ttl_s: Option<i64>,
        ack: Option<i64>,
    },
    /// 17 and 27.
    UserLeave {
        user: String,
        group: Option<String>,
        ack: Option<i64>,
    },
    /// 20.
    Ack(Ack),
    /// 21, 23, 24, 25.
    Check { of: ExistenceCheck, ack: i64 },
    /// 22: an event of an object.
    Event {
        object: i64,
        id: String,
        kind: i64,
        text: String,
    },
    /// 28.
    KeyRequest { kid: String },
    /// 29.
    KeyResponse {
        kid: String,
        key: String,
        error: String,
        text: String,
    },
    /// 30 to 33.
    CloseMany(CloseConnections),
    /// 34: a call that expects a result.
    Ask(ClientInvocation),
    /// 35 and 36: the result, or an error.
    Answer(ClientCompletion),
    /// 37: the node from which a result will come.
    Mapping {
        id: String,
        connection: String,
        instance: String,
    },
    /// 38: a client has reconnected; incomplete messages are void.
    Reconnect { connection: String },
    /// 39.
    Flow(FlowControl),
    /// 40: the members of a group.
    Members {
        group: String,
        ack: i64,
        most: Option<i64>,
        token: Option<String>,
    },
    /// An unknown type, to be ignored.
    Unknown(i64),
}

/// The handshake of an app server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerHandshake {
    pub version: i64,
    /// 0 carries clients, 1 was requested by the service, 2 only sends.
    pub kind: i64,
    pub target: String,
    /// 0 never, 1 on shutdown, 2 always.
    pub migration: i64,
    pub is_stateful: bool,
    /// The number of received elements: newer servers send more.
    pub elements: usize,
}

/// A client that is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenConnection {
    pub connection: String,
    /// A name may occur more than once.
    pub claims: Vec<(String, String)>,
    pub headers: Vec<(String, Vec<String>)>,
    /// With `?`.
    pub query: String,
    pub protocol: Option<String>,
}

/// The end of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloseConnection {
    pub connection: String,
    pub error: String,
    pub headers: Vec<(String, Vec<String>)>,
}

/// Bytes to or from one client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionData {
    pub connection: String,
    pub payload: Bytes,
    /// 1 handshake, 2 invocation, 3 other, 4 close.
    pub kind: Option<i64>,
    pub is_partial: bool,
}

/// The recipients of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Connections(Vec<String>),
    User(String),
    Users(Vec<String>),
    /// All but these connections.
    All {
        except: Vec<String>,
    },
    Groups(Vec<String>),
}

/// To a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupBroadcast {
    pub group: String,
    pub except: Vec<String>,
    pub payloads: Payloads,
    pub except_users: Vec<String>,
    pub caller: Option<String>,
}

/// The result of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ack {
    pub id: i64,
    pub status: i64,
    pub text: String,
    pub payload: Option<Bytes>,
}

/// The statuses of an [`Ack`].
pub mod status {
    pub const OK: i64 = 1;
    pub const NOT_FOUND: i64 = 2;
    pub const TIMEOUT: i64 = 3;
    pub const FAILED: i64 = 4;
}

/// The subject of an existence check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExistenceCheck {
    UserInGroup { user: String, group: String },
    Group(String),
    Connection(String),
    User(String),
}

/// A request to close several clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloseConnections {
    /// One connection, or all of a user or group; all clients if none is named.
    pub connection: Option<String>,
    pub user: Option<String>,
    pub group: Option<String>,
    pub reason: String,
    pub except: Vec<String>,
    pub ack: i64,
}

/// A call to a client that expects a result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientInvocation {
    pub id: String,
    pub connection: String,
    pub caller: String,
    pub payloads: Payloads,
}

/// The result of a call, or an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCompletion {
    pub id: String,
    pub connection: String,
    pub caller: String,
    /// The protocol and the framed completion, or an error.
    pub outcome: Result<(String, Bytes), String>,
}

/// Flow control of a client or a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowControl {
    pub id: String,
    /// Applies to a server connection rather than a client.
    pub is_server: bool,
    pub kind: FlowControlKind,
}

/// The requested or confirmed change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowControlKind {
    Pause,
    Paused,
    Resume,
    Offline,
    /// An unknown kind.
    Other(i64),
}
