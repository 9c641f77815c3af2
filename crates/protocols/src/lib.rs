//! Sessions and routing of every protocol.
