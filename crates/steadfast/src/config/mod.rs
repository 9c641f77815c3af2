//! The settings and the layers that their values come from.
//!
//! Values come in layers: defaults, then a file, then the environment, then flags.
//! Every key is optional and an unknown one is refused. `setting.rs` is the one
//! list of settings: the file's template, the reference and the checks follow it.

mod declared;
mod error;
mod layers;
mod nearest;
mod regions;
mod setting;
mod typed;
mod value;

pub use declared::{
    DeclaredEventHub, DeclaredJobCollection, DeclaredKey, DeclaredRegion, DeclaredTaskHub,
    DeclaredUpstream,
};
pub use error::{Error, Kind};
pub use layers::{Layer, Layers};
pub use regions::{Regions, Role};
pub use setting::{SETTINGS, Setting, reference, template};
pub use typed::{Config, Engine, LogFormat};
pub use value::{Form, duration, size};
