//! The settings and the layers that their values come from.
//!
//! Values come in layers: defaults, then a file, then the environment, then flags.
//! Every key is optional and an unknown one is refused. `setting.rs` is the one
//! list of settings: the file's template, the reference and the checks follow it.

mod declarations;
mod error;
mod features;
mod file;
mod layers;
mod nearest;
mod regions;
mod setting;
mod typed;
#[cfg_attr(not(feature = "signalr"), path = "../absent/upstream.rs")]
pub(crate) mod upstream;
mod value;

pub use declarations::{
    DeclaredEventHub, DeclaredJobCollection, DeclaredKey, DeclaredRegion, DeclaredTaskHub,
    DeclaredUpstream,
};
pub use error::{Error, ErrorKind};
pub use layers::{Layer, Layers};
pub use regions::{RegionConfig, RegionRole};
pub use setting::{SETTINGS, Setting, reference, template};
pub use typed::{Config, EngineKind, LogFormat};
pub use value::{ValueType, duration, size};
