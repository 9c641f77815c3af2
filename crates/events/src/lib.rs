//! Event hubs: append, read, own, checkpoint.
