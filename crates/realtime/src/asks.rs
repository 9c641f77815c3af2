//! Results of calls from app servers to clients.
//!
//! The client may belong to another app server, and be connected to another node. Its
//! app server reports the result, which returns along the path of the call.

use std::sync::Arc;

use bytes::Bytes;
use steadfast_core::task::named;
use steadfast_wire::signalr::service::{Completion, Message, Question};

use crate::across;
use crate::client::Client;
use crate::home::Home as _;
use crate::link::Link;
use crate::links::{Asker, Links};
use crate::said;
use crate::word::Reply;

const NO_CLIENT: &str = "The connection does not exist.";
const GONE: &str = "The client has disconnected.";

impl Links {
    /// Handles an app server's call to a client.
    pub(crate) fn ask(self: &Arc<Self>, link: &Arc<Link>, question: Question) {
        if self.lobby.client(&question.connection).is_none() && !self.lobby.nodes().is_alone() {
            return self.ask_elsewhere(link, question);
        }
        let Some((client, message)) = self.addressed(&question) else {
            return link.tell(&unanswered(question, NO_CLIENT));
        };
        self.note(link, &question);
        // An app server that calls its own client reads the result itself, on
        // whichever of its links the client is.
        let owner = self.owner(&question.connection);
        if owner
            .as_ref()
            .is_none_or(|own| own.server() != link.server())
        {
            link.tell(&mapping(&question, self.lobby.instance()));
            if let Some(owner) = owner {
                owner.tell(&Message::Ask(question));
            }
        }
        client.pass(message);
    }

    /// Handles an app server's call to a client that is not connected to this node.
    fn ask_elsewhere(self: &Arc<Self>, link: &Arc<Link>, question: Question) {
        self.note(link, &question);
        let found = self.lobby.everywhere().question(question.clone());
        let (links, link) = (Arc::clone(self), Arc::clone(link));
        tokio::spawn(named(async move {
            let found = found.await;
            let mut questions = links.questions.lock();
            match (found, questions.get_mut(&question.id)) {
                (Some(node), Some(asker)) => {
                    link.tell(&mapping(&question, &node));
                    asker.node = Some(node);
                }
                (None, Some(_)) => {
                    questions.remove(&question.id);
                    link.tell(&unanswered(question, NO_CLIENT));
                }
                // The result arrived before the acknowledgement.
                (_, None) => {}
            }
        }));
    }

    fn note(&self, link: &Link, question: &Question) {
        let asker = Asker {
            link: link.id().to_owned(),
            server: link.server().to_owned(),
            connection: question.connection.clone(),
            node: None,
        };
        self.questions.lock().insert(question.id.clone(), asker);
    }

    /// The client of a call, and the message in its protocol.
    fn addressed(&self, question: &Question) -> Option<(Arc<Client>, Bytes)> {
        let client = self.lobby.client(&question.connection)?;
        let payload = said::payload(question.payloads.clone());
        let message = payload.get(client.protocol()?)?.clone();
        Some((client, message))
    }

    /// The link that owns the client.
    fn owner(&self, connection: &str) -> Option<Arc<Link>> {
        let all = self.all();
        all.into_iter().find(|own| own.tenant(connection).is_some())
    }

    fn link(&self, id: &str) -> Option<Arc<Link>> {
        self.all().into_iter().find(|link| link.id() == id)
    }

    /// The client's app server reports a result.
    pub(crate) fn answered(&self, link: &Link, own: Completion) {
        let asker = self.questions.lock().remove(&own.id);
        match asker {
            // It only clears the pending call: the app server has the result.
            Some(asker) if asker.server == link.server() => {}
            Some(asker) => self.bring(&asker, own),
            None => {
                let node = self.lobby.take_foreign(&own.connection, &own.id);
                if let Some(node) = node {
                    self.lobby.everywhere().answer(&node, own);
                }
            }
        }
    }

    fn bring(&self, asker: &Asker, own: Completion) {
        if let Some(link) = self.link(&asker.link) {
            link.tell(&Message::Answer(own));
        }
    }

    /// Executes a peer node's message.
    pub(crate) fn hear(&self, node: &str, message: Message) -> Reply {
        match message {
            Message::Ask(question) => Reply::found(self.ask_for(node, question)),
            Message::Answer(own) => {
                for home in self.lobby.homes() {
                    home.answered(&own);
                }
                let asker = self.questions.lock().remove(&own.id);
                let asker = asker.filter(|asker| asker.server != own.caller);
                if let Some(asker) = asker {
                    self.bring(&asker, own);
                }
                Reply::default()
            }
            message => across::hear(&self.lobby, message),
        }
    }

    /// Handles a peer node's call to a client. False if the client is not connected
    /// here.
    fn ask_for(&self, node: &str, question: Question) -> bool {
        let Some((client, message)) = self.addressed(&question) else {
            return false;
        };
        self.lobby
            .put_foreign(node, &question.connection, &question.id);
        let owner = self.owner(&question.connection);
        if let Some(owner) = owner.filter(|own| own.server() != question.caller) {
            owner.tell(&Message::Ask(question));
        }
        client.pass(message);
        true
    }

    /// A client has disconnected: its pending results fail.
    pub(crate) fn client_gone(&self, connection: &str) {
        self.give_up(|asker| asker.connection == connection, GONE);
        for (id, node) in self.lobby.drop_foreign(connection) {
            let own = Completion {
                id,
                connection: connection.to_owned(),
                caller: self.lobby.instance().to_owned(),
                outcome: Err(GONE.to_owned()),
            };
            self.lobby.everywhere().answer(&node, own);
        }
    }

    /// A peer node has left: pending results of its clients fail, its own are
    /// dropped.
    pub(crate) fn node_gone(&self, node: &str) {
        let is_there = |asker: &Asker| asker.node.as_deref() == Some(node);
        self.give_up(is_there, GONE);
        self.lobby.forget_foreign(node);
    }

    fn give_up(&self, is_over: impl Fn(&Asker) -> bool, why: &str) {
        let mut questions = self.questions.lock();
        let over = questions.extract_if(|_, asker| is_over(asker));
        let over: Vec<_> = over.collect();
        drop(questions);
        for (id, asker) in over {
            let Some(link) = self.link(&asker.link) else {
                continue;
            };
            link.tell(&Message::Answer(Completion {
                id,
                connection: asker.connection,
                caller: link.server().to_owned(),
                outcome: Err(why.to_owned()),
            }));
        }
    }
}

fn mapping(question: &Question, instance: &str) -> Message {
    Message::Mapping {
        id: question.id.clone(),
        connection: question.connection.clone(),
        instance: instance.to_owned(),
    }
}

fn unanswered(question: Question, why: &str) -> Message {
    Message::Answer(Completion {
        id: question.id,
        connection: question.connection,
        caller: question.caller,
        outcome: Err(why.to_owned()),
    })
}
