//! Names of locks as text.
//!
//! A lock's name is bytes: a table and a stored key. Reports show the collection's name
//! and the key as JSON; a key without a JSON form is shown as bytes.

use crate::collection::{Collection, Shape};
use crate::lock::name::{Subject, describe, key_of, subject_of, table_of};
use crate::queue;
use crate::replica_inner::ReplicaInner;
use crate::schema::render::key_to_json;

impl ReplicaInner {
    /// A lock's name for reports and errors.
    pub(crate) fn show_lock(&self, name: &[u8]) -> String {
        let shown = match subject_of(name) {
            Some(Subject::Name) => show_name(key_of(name)),
            Some(subject) => {
                self.registry
                    .with_table(table_of(name))
                    .and_then(|found| match subject {
                        Subject::Row => show_row(&found, key_of(name)),
                        _ => Some(format!("the collection {}", called(&found))),
                    })
            }
            None => None,
        };
        shown.unwrap_or_else(|| describe(name))
    }
}

fn show_name(key: &[u8]) -> Option<String> {
    let (scope, name) = std::str::from_utf8(key).ok()?.split_once('\0')?;
    Some(format!("the name {}", in_scope(scope, name)))
}

fn show_row(of: &Collection, key: &[u8]) -> Option<String> {
    let what = match of.what.shape {
        Shape::Dictionary => format!("key {}", key_to_json(key).ok()?),
        Shape::Queue => queue::show(key)?,
        Shape::ConcurrentQueue | Shape::Log => return None,
    };
    Some(format!("{what} of {}", called(of)))
}

fn called(collection: &Collection) -> String {
    in_scope(&collection.scope, &collection.name)
}

/// A collection's name, and the service's partition that it belongs to.
fn in_scope(scope: &str, name: &str) -> String {
    if scope.is_empty() {
        name.to_owned()
    } else {
        format!("{name} in {scope}")
    }
}
