//! Jobs that run when they are due.
