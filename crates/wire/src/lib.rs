//! Codecs of the wire protocols, pure and bounded.

pub mod amqp;
