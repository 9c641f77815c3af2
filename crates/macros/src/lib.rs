//! The derives of Steadfast.
