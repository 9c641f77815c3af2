//! The guide of event hubs, so that its example is tested.
#![doc = include_str!("../../../docs/guides/events.md")]
