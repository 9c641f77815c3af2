//! Results of calls from app servers to clients.
//!
//! The client may belong to another app server, and be connected to another node. Its
//! app server reports the result, which returns along the path of the call.

use std::sync::Arc;

use bytes::Bytes;
use steadfast_core::task::name_task;
use steadfast_wire::signalr::service::{ClientCompletion, ClientInvocation, Message};

use crate::app_server::link::AppServerLink;
use crate::app_server::links::{AppServerLinks, CallingLink};
use crate::backend::HubBackend as _;
use crate::cluster::broadcast;
use crate::cluster::convert;
use crate::cluster::messages::PeerResponse;
use crate::connection::client::ClientConnection;

const NO_CLIENT: &str = "The connection does not exist.";
const GONE: &str = "The client has disconnected.";

impl AppServerLinks {
    /// Handles an app server's call to a client.
    pub(crate) fn ask(self: &Arc<Self>, link: &Arc<AppServerLink>, question: ClientInvocation) {
        if self.hub.client(&question.connection).is_none() && !self.hub.nodes().is_alone() {
            return self.ask_elsewhere(link, question);
        }
        let Some((client, message)) = self.addressed(&question) else {
            return link.send(&unanswered(question, NO_CLIENT));
        };
        self.note(link, &question);
        // An app server that calls its own client reads the result itself, on
        // whichever of its links the client is.
        let owner = self.owner(&question.connection);
        if owner
            .as_ref()
            .is_none_or(|own| own.server() != link.server())
        {
            link.send(&mapping(&question, self.hub.instance()));
            if let Some(owner) = owner {
                owner.send(&Message::Ask(question));
            }
        }
        client.pass(message);
    }

    /// Handles an app server's call to a client that is not connected to this node.
    fn ask_elsewhere(self: &Arc<Self>, link: &Arc<AppServerLink>, question: ClientInvocation) {
        self.note(link, &question);
        let found = self.hub.cluster().question(question.clone());
        let (links, link) = (Arc::clone(self), Arc::clone(link));
        tokio::spawn(name_task(async move {
            let found = found.await;
            let mut questions = links.questions.lock();
            match (found, questions.get_mut(&question.id)) {
                (Some(node), Some(asker)) => {
                    link.send(&mapping(&question, &node));
                    asker.node = Some(node);
                }
                (None, Some(_)) => {
                    questions.remove(&question.id);
                    link.send(&unanswered(question, NO_CLIENT));
                }
                // The result arrived before the acknowledgement.
                (_, None) => {}
            }
        }));
    }

    fn note(&self, link: &AppServerLink, question: &ClientInvocation) {
        let asker = CallingLink {
            link: link.id().to_owned(),
            server: link.server().to_owned(),
            connection: question.connection.clone(),
            node: None,
        };
        self.questions.lock().insert(question.id.clone(), asker);
    }

    /// The client of a call, and the message in its protocol.
    fn addressed(&self, question: &ClientInvocation) -> Option<(Arc<ClientConnection>, Bytes)> {
        let client = self.hub.client(&question.connection)?;
        let payload = convert::payload(question.payloads.clone());
        let message = payload.get(client.protocol()?)?.clone();
        Some((client, message))
    }

    /// The link that owns the client.
    fn owner(&self, connection: &str) -> Option<Arc<AppServerLink>> {
        let all = self.all();
        all.into_iter().find(|own| own.client(connection).is_some())
    }

    fn link(&self, id: &str) -> Option<Arc<AppServerLink>> {
        self.all().into_iter().find(|link| link.id() == id)
    }

    /// The client's app server reports a result.
    pub(crate) fn answered(&self, link: &AppServerLink, own: ClientCompletion) {
        let asker = self.questions.lock().remove(&own.id);
        match asker {
            // It only clears the pending call: the app server has the result.
            Some(asker) if asker.server == link.server() => {}
            Some(asker) => self.bring(&asker, own),
            None => {
                let node = self.hub.take_peer_call(&own.connection, &own.id);
                if let Some(node) = node {
                    self.hub.cluster().answer(&node, own);
                }
            }
        }
    }

    fn bring(&self, asker: &CallingLink, own: ClientCompletion) {
        if let Some(link) = self.link(&asker.link) {
            link.send(&Message::Answer(own));
        }
    }

    /// Executes a peer node's message.
    pub(crate) fn execute(&self, node: &str, message: Message) -> PeerResponse {
        match message {
            Message::Ask(question) => PeerResponse::found(self.call_client(node, question)),
            Message::Answer(own) => {
                for home in self.hub.backends() {
                    home.answered(&own);
                }
                let asker = self.questions.lock().remove(&own.id);
                let asker = asker.filter(|asker| asker.server != own.caller);
                if let Some(asker) = asker {
                    self.bring(&asker, own);
                }
                PeerResponse::default()
            }
            message => broadcast::execute(&self.hub, message),
        }
    }

    /// Handles a peer node's call to a client. False if the client is not connected
    /// here.
    fn call_client(&self, node: &str, question: ClientInvocation) -> bool {
        let Some((client, message)) = self.addressed(&question) else {
            return false;
        };
        self.hub
            .put_peer_call(node, &question.connection, &question.id);
        let owner = self.owner(&question.connection);
        if let Some(owner) = owner.filter(|own| own.server() != question.caller) {
            owner.send(&Message::Ask(question));
        }
        client.pass(message);
        true
    }

    /// A client has disconnected: its pending results fail.
    pub(crate) fn client_gone(&self, connection: &str) {
        self.give_up(|asker| asker.connection == connection, GONE);
        for (id, node) in self.hub.take_client_calls(connection) {
            let own = ClientCompletion {
                id,
                connection: connection.to_owned(),
                caller: self.hub.instance().to_owned(),
                outcome: Err(GONE.to_owned()),
            };
            self.hub.cluster().answer(&node, own);
        }
    }

    /// A peer node has left: pending results of its clients fail, its own are
    /// dropped.
    pub(crate) fn node_gone(&self, node: &str) {
        let is_there = |asker: &CallingLink| asker.node.as_deref() == Some(node);
        self.give_up(is_there, GONE);
        self.hub.drop_node_calls(node);
    }

    fn give_up(&self, is_over: impl Fn(&CallingLink) -> bool, why: &str) {
        let mut questions = self.questions.lock();
        let over = questions.extract_if(|_, asker| is_over(asker));
        let over: Vec<_> = over.collect();
        drop(questions);
        for (id, asker) in over {
            let Some(link) = self.link(&asker.link) else {
                continue;
            };
            link.send(&Message::Answer(ClientCompletion {
                id,
                connection: asker.connection,
                caller: link.server().to_owned(),
                outcome: Err(why.to_owned()),
            }));
        }
    }
}

fn mapping(question: &ClientInvocation, instance: &str) -> Message {
    Message::Mapping {
        id: question.id.clone(),
        connection: question.connection.clone(),
        instance: instance.to_owned(),
    }
}

fn unanswered(question: ClientInvocation, why: &str) -> Message {
    Message::Answer(ClientCompletion {
        id: question.id,
        connection: question.connection,
        caller: question.caller,
        outcome: Err(why.to_owned()),
    })
}
