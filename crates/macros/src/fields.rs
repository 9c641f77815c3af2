//! The fields of a struct or variant, checked.
//!
//! Every field has a number, unique and not retired; one field keeps unknown fields, or
//! none if the type is closed. Each violation is an error of its own at the field that
//! causes it.

use std::collections::HashMap;

use proc_macro2::Span;
use quote::format_ident;
use syn::spanned::Spanned;
use syn::{Error, Fields, Ident, Index, Member, Result, Type};

use crate::attributes::{Fallback, FieldAttributes};

/// A field that is stored under a number.
pub(crate) struct Field {
    pub(crate) number: u32,
    pub(crate) span: Span,
    pub(crate) member: Member,
    /// The variable that holds the field, or a reference to it.
    pub(crate) variable: Ident,
    pub(crate) ty: Type,
    pub(crate) fallback: Fallback,
    pub(crate) since: Option<u32>,
}

impl Field {
    /// The name for error messages.
    pub(crate) fn name(&self) -> String {
        name_of(&self.member)
    }
}

/// The field that keeps unknown fields.
pub(crate) struct UnknownField {
    pub(crate) member: Member,
    pub(crate) variable: Ident,
    pub(crate) ty: Type,
}

/// All fields: those with numbers in ascending order.
pub(crate) struct CheckedFields {
    pub(crate) known: Vec<Field>,
    pub(crate) slot: Option<UnknownField>,
    /// Whether the field for unknown fields is the last one.
    pub(crate) slot_is_last: bool,
}

pub(crate) fn name_of(member: &Member) -> String {
    match member {
        Member::Named(name) => name.to_string(),
        Member::Unnamed(index) => index.index.to_string(),
    }
}

/// Adds one error to those that were found before.
pub(crate) fn join(errors: &mut Option<Error>, error: Error) {
    match errors {
        Some(errors) => errors.combine(error),
        None => *errors = Some(error),
    }
}

/// Fails if a number comes twice or is retired.
pub(crate) fn check_number(
    number: u32,
    span: Span,
    name: &str,
    seen: &mut HashMap<u32, String>,
    retired: &[u32],
) -> Result<()> {
    if retired.contains(&number) {
        let message = format!("number {number} is retired: stored bytes may still carry it");
        return Err(Error::new(span, message));
    }
    if let Some(other) = seen.insert(number, name.to_owned()) {
        let message = format!("number {number} is taken by `{other}`");
        return Err(Error::new(span, message));
    }
    Ok(())
}

impl CheckedFields {
    /// Checks the fields of `owner`, the place where a missing field for unknown fields
    /// is reported.
    pub(crate) fn new(fields: &Fields, owner: Span, closed: bool, retired: &[u32]) -> Result<Self> {
        let mut checked = Self {
            known: Vec::new(),
            slot: None,
            slot_is_last: false,
        };
        let mut errors = None;
        let mut seen = HashMap::new();
        for (index, field) in fields.iter().enumerate() {
            if let Err(error) = checked.add(index, field, closed, retired, &mut seen) {
                join(&mut errors, error);
            }
        }
        if checked.slot.is_none() && !closed && errors.is_none() {
            let message = "no place for fields that newer code writes: add a field `unknown: Unknown`, or say `#[record(closed)]` if there will never be any";
            errors = Some(Error::new(owner, message));
        }
        match errors {
            Some(errors) => Err(errors),
            None => {
                checked.known.sort_by_key(|field| field.number);
                Ok(checked)
            }
        }
    }

    fn add(
        &mut self,
        index: usize,
        field: &syn::Field,
        closed: bool,
        retired: &[u32],
        seen: &mut HashMap<u32, String>,
    ) -> Result<()> {
        let attributes = FieldAttributes::parse(&field.attrs)?;
        let member = field
            .ident
            .clone()
            .map_or_else(|| Member::Unnamed(Index::from(index)), Member::Named);
        self.slot_is_last = false;
        if attributes.unknown || (attributes.number.is_none() && is_last(&field.ty, "Unknown")) {
            return self.add_slot(member, field, &attributes, closed);
        }
        let name = name_of(&member);
        let Some((number, span)) = attributes.number else {
            let message = format!("field `{name}` has no number: write `#[n(..)]` before it");
            return Err(Error::new(field.span(), message));
        };
        if attributes.other {
            return Err(Error::new(
                field.span(),
                "`other` is for a variant of an enum",
            ));
        }
        check_number(number, span, &name, seen, retired)?;
        let optional = is_last(&field.ty, "Option");
        if let Some((_, span)) = attributes.since {
            if closed {
                return Err(Error::new(span, "a closed type has no later fields"));
            }
            if !optional && matches!(attributes.fallback, Fallback::OfType) {
                let message = "a field added later is absent in older bytes: make it an `Option`, or add `#[record(default)]`";
                return Err(Error::new(span, message));
            }
        }
        self.known.push(Field {
            number,
            span: at(&field.ty),
            member,
            variable: format_ident!("field_{index}"),
            ty: field.ty.clone(),
            fallback: attributes.fallback,
            since: attributes.since.map(|(since, _)| since),
        });
        Ok(())
    }

    fn add_slot(
        &mut self,
        member: Member,
        field: &syn::Field,
        attributes: &FieldAttributes,
        closed: bool,
    ) -> Result<()> {
        if let Some((_, span)) = attributes.number {
            return Err(Error::new(
                span,
                "the place for unknown fields has no number",
            ));
        }
        if self.slot.is_some() {
            return Err(Error::new(
                field.span(),
                "a second place for unknown fields",
            ));
        }
        if closed {
            return Err(Error::new(
                field.span(),
                "a closed type keeps no unknown fields",
            ));
        }
        self.slot_is_last = true;
        self.slot = Some(UnknownField {
            member,
            variable: format_ident!("slot"),
            ty: field.ty.clone(),
        });
        Ok(())
    }
}

/// Where errors about a type are shown; the code there still counts as generated.
pub(crate) fn at(ty: &Type) -> Span {
    Span::call_site().located_at(ty.span())
}

/// Whether the last segment of a type's path is `name`.
pub(crate) fn is_last(ty: &Type, name: &str) -> bool {
    let Type::Path(path) = ty else { return false };
    path.path
        .segments
        .last()
        .is_some_and(|segment| segment.ident == name)
}
