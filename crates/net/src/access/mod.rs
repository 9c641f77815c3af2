//! Authentication and authorization.
//!
//! Keys have names, rights and two secrets, so that one can be rotated while the other
//! is in use. Every protocol presents a proof to [`AccessControl::authorize`]: a shared access
//! signature, a JSON web token, a signed request, or a secret itself, together with the
//! rights that the route demands. The result is a [`Principal`]: the authenticated key and
//! its rights. Secrets are compared in constant time and never shown. A connection that
//! outlives its request holds a [`ProofWatch`], which ends when the proof is revoked.
//! [`Audit`] records changes and refusals.

mod audit;
mod client_token;
mod demand;
mod development;
mod error;
mod key;
mod principal;
mod proof_watch;
mod request_key;
mod right;
mod secret;
mod verify;

pub use audit::{Audit, AuditClient, AuditEvent};
pub use client_token::{CLIENT_KEY, ClientTokenOptions, client_token};
pub use demand::{Demand, EntityScope, is_for_area};
pub use development::{ACCOUNT, HUBS, ROOT, development_ring};
pub use error::{AccessError, AccessErrorKind};
pub use key::{Key, KeyRing, SHARED, SecretSlot};
pub use principal::Principal;
pub use proof_watch::{ProofWatch, ended};
pub(crate) use request_key::RequestKey;
pub use right::{Grant, ParseGrantError, Right, ServiceArea};
pub use secret::Secret;
pub use verify::{AccessControl, MARK, Proof, TokenClaims};
