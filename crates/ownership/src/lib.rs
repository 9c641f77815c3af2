//! Who owns which partition, decided without I/O.
