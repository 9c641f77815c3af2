//! Orchestrations and entities, on a virtual clock and a disk that outlives
//! processes.

mod delivery;
mod entities;
mod hall;
mod orchestrations;
