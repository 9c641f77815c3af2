//! Merges our additions into a published interface.
//!
//! The published file stays as it is. An addition is a file of its own, in a package of its
//! own: a message, an enumeration or a service with the name of a published one is added to
//! that one, all others are new.

use std::collections::HashMap;

use anyhow::{Result, bail, ensure};
use prost_types::source_code_info::Location;
use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorProto};

/// Field numbers of `FileDescriptorProto`, as they stand in the paths of comments.
const MESSAGE: i32 = 4;
const ENUM: i32 = 5;
const SERVICE: i32 = 6;
/// The field with the fields of a message, and with the values and methods of the others.
const FIELD: i32 = 2;

/// Where an element of the additions has gone: its index, and the index of its first member.
type Places = HashMap<(i32, i32), (i32, i32)>;

/// Adds everything in `additions` to `published`.
pub(super) fn merge(
    published: &mut FileDescriptorProto,
    mut additions: FileDescriptorProto,
) -> Result<()> {
    let package = format!(".{}", additions.package());
    let mut places = Places::new();
    for (index, mut message) in (0..).zip(additions.message_type) {
        unqualify(&mut message, &package);
        let place = add_message(&mut published.message_type, message)?;
        places.insert((MESSAGE, index), place);
    }
    for (index, addition) in (0..).zip(additions.enum_type) {
        let place = add_enum(&mut published.enum_type, addition)?;
        places.insert((ENUM, index), place);
    }
    for (index, service) in (0..).zip(additions.service) {
        let mut all = published.service.iter_mut().enumerate();
        let Some((place, known)) = all.find(|(_, known)| known.name == service.name) else {
            bail!("there is no published service {}", service.name());
        };
        places.insert((SERVICE, index), (place as i32, known.method.len() as i32));
        known
            .method
            .extend(service.method.into_iter().map(|mut method| {
                for name in [&mut method.input_type, &mut method.output_type] {
                    strip(name, &package);
                }
                method
            }));
    }
    let comments = additions.source_code_info.take().unwrap_or_default();
    let moved = comments.location.into_iter();
    let moved = moved.filter_map(|location| rebase(location, &places));
    let known = published.source_code_info.get_or_insert_default();
    known.location.extend(moved);
    Ok(())
}

/// Adds a message, or its fields to the one with its name.
fn add_message(known: &mut Vec<DescriptorProto>, message: DescriptorProto) -> Result<(i32, i32)> {
    let mut all = known.iter_mut().enumerate();
    let Some((place, own)) = all.find(|(_, own)| own.name == message.name) else {
        known.push(message);
        return Ok((known.len() as i32 - 1, 0));
    };
    let is_plain = message.oneof_decl.is_empty() && message.nested_type.is_empty();
    ensure!(is_plain, "{} adds more than plain fields", message.name());
    let first = own.field.len() as i32;
    for field in message.field {
        let is_taken = |own: &prost_types::FieldDescriptorProto| {
            own.number == field.number || own.name == field.name
        };
        let is_free = !own.field.iter().any(is_taken);
        ensure!(is_free, "{} has {} already", own.name(), field.name());
        own.field.push(field);
    }
    Ok((place as i32, first))
}

/// Adds an enumeration, or its values but the first to the one with its name: the language
/// demands a value zero.
fn add_enum(
    known: &mut Vec<EnumDescriptorProto>,
    addition: EnumDescriptorProto,
) -> Result<(i32, i32)> {
    let mut all = known.iter_mut().enumerate();
    let Some((place, own)) = all.find(|(_, own)| own.name == addition.name) else {
        known.push(addition);
        return Ok((known.len() as i32 - 1, 0));
    };
    let first = own.value.len() as i32 - 1;
    for value in addition.value.into_iter().skip(1) {
        let is_free = !own.value.iter().any(|own| own.number == value.number);
        ensure!(is_free, "{} has {} already", own.name(), value.number());
        own.value.push(value);
    }
    Ok((place as i32, first))
}

/// Takes the package of the additions off the types of all fields.
fn unqualify(message: &mut DescriptorProto, package: &str) {
    for field in &mut message.field {
        strip(&mut field.type_name, package);
    }
    for nested in &mut message.nested_type {
        unqualify(nested, package);
    }
}

fn strip(name: &mut Option<String>, package: &str) {
    if let Some(rest) = name.as_deref().and_then(|name| name.strip_prefix(package)) {
        *name = Some(rest.to_owned());
    }
}

/// A comment where its element has gone; `None` for those of the file itself.
fn rebase(mut location: Location, places: &Places) -> Option<Location> {
    let [kind, index, rest @ ..] = location.path.as_mut_slice() else {
        return None;
    };
    let (place, first) = *places.get(&(*kind, *index))?;
    *index = place;
    match rest {
        // The comment of a published element stays.
        [] if first > 0 => return None,
        [FIELD, member, ..] => *member += first,
        _ => {}
    }
    Some(location)
}

#[cfg(test)]
mod tests {
    use prost_types::field_descriptor_proto::Type;
    use prost_types::{FieldDescriptorProto, SourceCodeInfo};

    use super::*;

    fn message(name: &str, fields: &[(&str, i32, &str)]) -> DescriptorProto {
        let field = |(name, number, kind): &(&str, i32, &str)| FieldDescriptorProto {
            name: Some((*name).to_owned()),
            number: Some(*number),
            r#type: Some(Type::Message.into()),
            type_name: Some((*kind).to_owned()),
            ..FieldDescriptorProto::default()
        };
        DescriptorProto {
            name: Some(name.to_owned()),
            field: fields.iter().map(field).collect(),
            ..DescriptorProto::default()
        }
    }

    fn file(package: &str, messages: Vec<DescriptorProto>) -> FileDescriptorProto {
        FileDescriptorProto {
            package: Some(package.to_owned()),
            message_type: messages,
            ..FileDescriptorProto::default()
        }
    }

    #[test]
    fn fields_go_to_the_message_with_their_name_and_comments_follow() {
        let mut published = file("", vec![message("A", &[]), message("B", &[("x", 1, ".A")])]);
        let added = vec![
            message("New", &[("b", 1, ".B")]),
            message("B", &[("y", 2, ".ours.New")]),
        ];
        let comment = |path: &[i32]| Location {
            path: path.to_vec(),
            ..Location::default()
        };
        let additions = FileDescriptorProto {
            source_code_info: Some(SourceCodeInfo {
                location: vec![comment(&[4, 0]), comment(&[4, 1, 2, 0]), comment(&[3, 0])],
            }),
            ..file("ours", added)
        };
        merge(&mut published, additions).unwrap();
        assert_eq!(
            published.message_type,
            [
                message("A", &[]),
                message("B", &[("x", 1, ".A"), ("y", 2, ".New")]),
                message("New", &[("b", 1, ".B")]),
            ]
        );
        let comments = published.source_code_info.unwrap().location;
        let paths: Vec<_> = comments.into_iter().map(|found| found.path).collect();
        assert_eq!(paths, [vec![4, 2], vec![4, 1, 2, 1]]);
    }

    #[test]
    fn a_number_that_is_taken_is_refused() {
        let mut published = file("", vec![message("B", &[("x", 1, ".B")])]);
        let additions = file("ours", vec![message("B", &[("y", 1, ".B")])]);
        assert!(merge(&mut published, additions).is_err());
    }
}
