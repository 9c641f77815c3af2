//! Flow control of a session and of what its links receive.
//!
//! A session has windows, handles and unsent dispositions; the receiving end of a link has
//! credit and at most one incomplete message.

use std::collections::HashMap;

use steadfast_core::limits;
use steadfast_wire::amqp::delivery::{Disposition, Outcome};
use steadfast_wire::amqp::link::LinkRole;
use steadfast_wire::amqp::session::{Begin, Flow};

use super::frame_buffer::FrameBuffer;

/// The number of our first transfer.
const FIRST: u32 = 1;

/// The link behind a handle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Handle {
    Link(u64),
    /// We have detached it; the client has not answered yet.
    Closing,
}

#[derive(Debug)]
pub(super) struct Session {
    channel: u16,
    next_incoming: u32,
    incoming_left: u32,
    next_outgoing: u32,
    /// The remaining outgoing window, in transfers.
    pub(super) window: u32,
    next_delivery: u32,
    pub(super) handles: HashMap<u32, Handle>,
    /// Accepted deliveries whose disposition is not sent yet.
    accepted: Vec<u32>,
}

impl Session {
    pub(super) fn new(channel: u16, begin: &Begin) -> Self {
        Self {
            channel,
            next_incoming: begin.next_outgoing,
            incoming_left: limits::AMQP_WINDOW,
            next_outgoing: FIRST,
            window: begin.incoming_window,
            next_delivery: 0,
            handles: HashMap::new(),
            accepted: Vec::new(),
        }
    }

    pub(super) fn answer(&self) -> Begin {
        Begin {
            remote_channel: Some(self.channel),
            next_outgoing: FIRST,
            incoming_window: limits::AMQP_WINDOW,
            outgoing_window: limits::AMQP_WINDOW,
            handle_max: Some(limits::AMQP_HANDLE_MAX),
        }
    }

    /// The client updates its window. True if it opens again.
    pub(super) fn on_flow(&mut self, flow: &Flow) -> bool {
        let before = self.window;
        let next = flow.next_incoming.unwrap_or(FIRST);
        let open = next
            .wrapping_add(flow.incoming_window)
            .wrapping_sub(self.next_outgoing);
        // More than was granted means that the client lags by more than its window.
        self.window = if open > flow.incoming_window { 0 } else { open };
        before == 0 && self.window > 0
    }

    /// Counts a received transfer. True if it is time to open the window again.
    pub(super) fn on_transfer(&mut self) -> bool {
        self.next_incoming = self.next_incoming.wrapping_add(1);
        self.incoming_left = self.incoming_left.saturating_sub(1);
        self.incoming_left < limits::AMQP_WINDOW / 2
    }

    /// A flow that opens our window; the caller adds the state of a link.
    pub(super) fn flow(&mut self) -> Flow {
        self.incoming_left = limits::AMQP_WINDOW;
        Flow {
            next_incoming: Some(self.next_incoming),
            incoming_window: limits::AMQP_WINDOW,
            next_outgoing: self.next_outgoing,
            outgoing_window: limits::AMQP_WINDOW,
            ..Flow::default()
        }
    }

    /// The number of a new delivery of ours.
    pub(super) fn begin_delivery(&mut self) -> u32 {
        let delivery = self.next_delivery;
        self.next_delivery = delivery.wrapping_add(1);
        delivery
    }

    /// Counts a sent transfer.
    pub(super) fn sent(&mut self) {
        self.next_outgoing = self.next_outgoing.wrapping_add(1);
        self.window = self.window.saturating_sub(1);
    }

    /// Records an accepted delivery. True if it is the first one.
    pub(super) fn accept(&mut self, delivery: u32) -> bool {
        self.accepted.push(delivery);
        self.accepted.len() == 1
    }

    /// Sends dispositions for accepted deliveries, one per contiguous range.
    pub(super) fn flush_accepted(&mut self, out: &mut FrameBuffer) {
        self.accepted.sort_unstable();
        for range in self
            .accepted
            .chunk_by(|one, next| one.wrapping_add(1) == *next)
        {
            let disposition = Disposition {
                role: LinkRole::Receiver,
                first: range[0],
                last: range.last().copied(),
                settled: true,
                outcome: Some(Outcome::Accepted),
            };
            out.frame(self.channel, |out| disposition.write(out));
        }
        self.accepted.clear();
        self.accepted.shrink_to(64);
    }
}

/// The receiving end of a link: the credit that we grant and an incomplete message.
#[derive(Debug)]
pub(super) struct AmqpInlet {
    pub(super) grant: u32,
    pub(super) credit: u32,
    pub(super) count: u32,
    pub(super) partial: Option<IncomingDelivery>,
}

/// An incomplete message.
#[derive(Debug)]
pub(super) struct IncomingDelivery {
    pub(super) delivery: u32,
    pub(super) format: u32,
    pub(super) settled: bool,
    pub(super) bytes: Vec<u8>,
    /// How many bytes were received.
    pub(super) size: usize,
    /// Too large: the rest is discarded and the delivery will be rejected.
    pub(super) is_too_large: bool,
}

impl AmqpInlet {
    pub(super) fn new(grant: u32, initial_count: u32) -> Self {
        Self {
            grant,
            credit: grant,
            count: initial_count,
            partial: None,
        }
    }

    /// A delivery is complete. True if it is time to grant credit again.
    pub(super) fn take(&mut self) -> bool {
        self.count = self.count.wrapping_add(1);
        self.credit = self.credit.saturating_sub(1);
        self.credit <= self.grant / 2
    }
}

impl IncomingDelivery {
    /// Adds the payload of one transfer, up to the limit of a message.
    pub(super) fn gather(&mut self, payload: &[u8], limit: usize) {
        self.size += payload.len();
        self.is_too_large |= self.size > limit;
        if self.is_too_large {
            self.bytes = Vec::new()
        } else {
            self.bytes.extend_from_slice(payload)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(window: u32) -> Session {
        Session::new(
            0,
            &Begin {
                remote_channel: None,
                next_outgoing: 7,
                incoming_window: window,
                outgoing_window: 1,
                handle_max: None,
            },
        )
    }

    #[test]
    fn events_25_the_window_counts_what_is_under_way() {
        let mut session = session(3);
        (0..3).for_each(|_| session.sent());
        assert_eq!(session.window, 0);
        // The client had received one of three when it sent this.
        let flow = Flow {
            next_incoming: Some(FIRST + 1),
            incoming_window: 3,
            ..Flow::default()
        };
        assert!(session.on_flow(&flow));
        assert_eq!(session.window, 1);
        let stale = Flow {
            next_incoming: Some(FIRST),
            incoming_window: 2,
            ..Flow::default()
        };
        assert!(!session.on_flow(&stale));
        assert_eq!(session.window, 0);
    }

    #[test]
    fn neighbours_are_told_together() {
        let mut session = session(1);
        let mut out = FrameBuffer::default();
        for delivery in [5, 3, 4, 9] {
            session.accept(delivery);
        }
        session.flush_accepted(&mut out);
        let one = out.next().len() / 2;
        assert_eq!(out.next()[..4], (one as u32).to_be_bytes());
        assert!(session.accepted.is_empty());
    }
}
