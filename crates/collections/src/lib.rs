//! Transactional collections in a partition.
