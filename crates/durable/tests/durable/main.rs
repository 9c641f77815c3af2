//! Orchestrations and entities on a virtual clock.
#![expect(clippy::unwrap_used, reason = "tests")]

mod census;
mod delivery;
mod direct;
mod entities;
mod hall;
mod missing_code;
mod nodes;
mod orchestrations;
mod sizes;
mod turns;
mod upgrade;
