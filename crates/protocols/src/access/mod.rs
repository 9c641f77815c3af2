//! Authentication and authorization.
//!
//! Keys have names, rights and two secrets, so that one can be rotated while the other
//! is in use. Every protocol presents a proof to [`Access::admit`]: a shared access
//! signature, a JSON web token, a signed request, or a secret itself, together with the
//! rights that the route demands. The result is a [`Pass`]: the authenticated key and
//! its rights. Secrets are compared in constant time and never shown. A connection that
//! outlives its request holds a [`Follow`], which ends when the proof is revoked.
//! [`Audit`] records changes and refusals.

mod audit;
mod demand;
mod denied;
mod development;
mod follow;
mod key;
mod pass;
mod prover;
mod right;
mod secret;
mod verify;

pub use audit::{Asker, Audit, AuditEvent};
pub use demand::{Demand, Scope, is_for_area};
pub use denied::{Denied, Reason};
pub use development::{ACCOUNT, HUBS, ROOT, development_ring};
pub use follow::{Follow, ended};
pub use key::{Key, Ring, Slot};
pub use pass::Pass;
pub(crate) use prover::Prover;
pub use right::{Area, BadGrant, Grant, Right};
pub use secret::Secret;
pub use verify::{Access, Claims, MARK, Proof};
