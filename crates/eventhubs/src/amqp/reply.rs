//! Routes replies to their link, which sends on credit.

use steadfast_core::limits;
use steadfast_wire::amqp::condition;

use super::condition::Condition;
use super::connection::AmqpConnection;
use super::deliver::DeliveryWriter;
use super::link::{AmqpLink, Kind, ManagementNode, Replies};
use super::work::NodeRequest;

impl AmqpConnection {
    pub(super) fn on_answer(&mut self, asked: &NodeRequest, message: Vec<u8>) {
        // First: a client may expect the reply only after its request was accepted.
        self.settle(asked.link, asked.delivery, asked.settled);
        self.flush_accepted();
        let Some(id) = self.way_back(asked) else {
            tracing::debug!(event = "amqp.no_reply_link", reply_to = asked.reply_to);
            return;
        };
        let Some(Kind::Replies(_, _, replies)) = self.links.get_mut(&id).map(|link| &mut link.kind)
        else {
            return;
        };
        if replies.waiting.len() >= limits::AMQP_REPLIES {
            let words = "too many replies wait for credit";
            return self.detach(id, &Condition::new(condition::RESOURCE_LIMIT, words));
        }
        if self.reply_bytes + message.len() > limits::AMQP_REPLY_BYTES {
            let words = "the replies that wait for credit are too large";
            return self.detach(id, &Condition::new(condition::RESOURCE_LIMIT, words));
        }
        self.reply_bytes += message.len();
        replies.waiting.push_back(message);
        self.ready.push_back(id);
    }

    /// The link for a reply: the one that the request names by address or by name;
    /// otherwise the only one of that node on the same session.
    fn way_back(&self, asked: &NodeRequest) -> Option<u64> {
        let mut links = self.links.iter();
        let found = links.find(|(_, link)| match takes(link, asked.node) {
            Some(address) => match &asked.reply_to {
                Some(name) => address == Some(name) || *link.name == **name,
                None => link.channel == asked.channel,
            },
            None => false,
        });
        found.map(|(id, _)| *id)
    }
}

/// The address of a reply link of a node.
fn takes(link: &AmqpLink, desk: ManagementNode) -> Option<Option<&String>> {
    match &link.kind {
        Kind::Replies(own, address, _) if *own == desk => Some(address.as_ref()),
        _ => None,
    }
}

impl DeliveryWriter<'_> {
    /// Sends replies while there is credit; returns the number of bytes released.
    pub(super) fn reply(&mut self, replies: &mut Replies) -> usize {
        let mut sent = 0;
        while self.finish_partial(&mut replies.outlet) && replies.outlet.credit > 0 {
            let Some(message) = replies.waiting.pop_front() else {
                break;
            };
            sent += message.len();
            self.message(&mut replies.outlet, message);
        }
        sent
    }
}
