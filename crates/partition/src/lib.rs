//! The runtime of a partition.
