//! Calls of app servers to clients, whose answers are wanted.
//!
//! The client may be another server's, and at another node. Its server says what it
//! has answered; the answer goes back the way that the call came.

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
    /// A server asks a client.
    pub(crate) fn ask(self: &Arc<Self>, link: &Arc<Link>, question: Question) {
        if self.lobby.client(&question.connection).is_none() && !self.lobby.nodes().is_alone() {
            return self.ask_elsewhere(link, question);
        }
        let Some((client, message)) = self.addressed(&question) else {
            return link.tell(&unanswered(question, NO_CLIENT));
        };
        self.note(link, &question);
        // A server that asks its own client knows what the client answers, whichever of
        // its links the client has.
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

    /// A server asks a client that is not at this node.
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
                // The answer was faster.
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

    /// The client of a question, and the question in its protocol.
    fn addressed(&self, question: &Question) -> Option<(Arc<Client>, Bytes)> {
        let client = self.lobby.client(&question.connection)?;
        let payload = said::payload(question.payloads.clone());
        let message = payload.get(client.protocol()?)?.clone();
        Some((client, message))
    }

    /// The link whose client it is.
    fn owner(&self, connection: &str) -> Option<Arc<Link>> {
        let all = self.all();
        all.into_iter().find(|own| own.tenant(connection).is_some())
    }

    fn link(&self, id: &str) -> Option<Arc<Link>> {
        self.all().into_iter().find(|link| link.id() == id)
    }

    /// The server of a client says what the client has answered.
    pub(crate) fn answered(&self, link: &Link, own: Completion) {
        let asker = self.questions.lock().remove(&own.id);
        match asker {
            // It tells only that nothing is to be kept any more.
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

    /// Does what another node says.
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

    /// Another node asks a client. False if it is not here.
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

    /// A client has gone: nobody waits for its answers.
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

    /// A node has gone: nobody waits for its clients, and it waits for nobody.
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
