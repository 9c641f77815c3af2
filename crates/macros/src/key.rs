//! `#[derive(Key)]`.
//!
//! A key is encoded as a row of its fields in the order of their declaration, in which a
//! derived `Ord` compares them. A key is a record too.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Fields, Result};

use crate::attributes::{Fallback, TypeAttributes};
use crate::fields::{CheckedFields, at};
use crate::record::{implementation, in_scope, only_field, type_name};

/// The implementations of `Key` and `Record` for a struct.
pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let attributes = TypeAttributes::parse(&input.attrs)?;
    let Data::Struct(data) = &input.data else {
        let message = "a key is a struct; store the number or the name of a variant instead";
        return Err(Error::new(input.ident.span(), message));
    };
    if let Some(parameter) = input.generics.params.first() {
        return Err(Error::new(parameter.span(), "a key type has no parameters"));
    }
    if attributes.transparent {
        return transparent(input, &attributes, &data.fields);
    }
    let checked = CheckedFields::new(
        &data.fields,
        input.ident.span(),
        attributes.closed,
        &attributes.retired,
    )?;
    check_order(&checked)?;
    let row = row(input, &checked);
    let type_name = type_name(input, &attributes);
    let (record, key) = (
        implementation(input, &quote!(Record))?,
        implementation(input, &quote!(Key))?,
    );
    Ok(in_scope(
        &attributes,
        &quote! {
            #[automatically_derived]
            #record {
                fn __seal() -> __steadfast::Seal {
                    __steadfast::Seal::by_derive()
                }

                #type_name

                fn encode(&self, to: &mut __steadfast::CborWriter) {
                    __steadfast::encode_key_in_value(self, to);
                }

                fn decode(from: &mut __steadfast::CborReader<'_>) -> __steadfast::Result<Self> {
                    __steadfast::decode_key_in_value(from)
                }
            }

            #[automatically_derived]
            #key {
                fn write(&self, to: &mut __steadfast::KeyWriter) {
                    to.row(|to| __steadfast::Key::write_row(self, to));
                }

                fn read(from: &mut __steadfast::KeyReader<'_>) -> __steadfast::Result<Self> {
                    from.row(<Self as __steadfast::Key>::read_row)
                }

                #row
            }
        },
    ))
}

/// Fields are numbered in the order of their declaration; the one for unknown fields is
/// last.
fn check_order(checked: &CheckedFields) -> Result<()> {
    if let Some(slot) = &checked.slot
        && !checked.slot_is_last
    {
        let message =
            "the place for unknown fields is the last field of a key, because they sort last";
        return Err(Error::new(slot.member.span(), message));
    }
    for (index, field) in checked.known.iter().enumerate() {
        let declared = format!("field_{index}");
        if field.number as usize != index || field.variable != declared {
            let message = "the fields of a key are numbered 0, 1, 2 .. as they are declared, because that is how keys sort";
            return Err(Error::new(field.ty.span(), message));
        }
        if field.since.is_some() || !matches!(field.fallback, Fallback::OfType) {
            let message = "a field that a key gains is an `Option`: existing keys keep their bytes";
            return Err(Error::new(field.ty.span(), message));
        }
    }
    Ok(())
}

fn row(input: &DeriveInput, checked: &CheckedFields) -> TokenStream {
    let owner = input.ident.to_string();
    let pattern = checked.pattern("");
    let writes = checked.known.iter().map(|field| {
        let (ty, variable) = (&field.ty, &field.variable);
        quote_spanned!(field.span=> <#ty as __steadfast::Key>::write(#variable, to);)
    });
    let write_slot = checked.slot.iter().map(|slot| {
        let variable = &slot.variable;
        quote!(to.unknown(#variable);)
    });
    let reads = checked.known.iter().map(|field| {
        let (ty, variable, name) = (&field.ty, &field.variable, field.name());
        quote_spanned!(field.span=> let #variable = <#ty as __steadfast::Key>::read_field(from, #name)?;)
    });
    let read_slot = match &checked.slot {
        Some(slot) => {
            let variable = &slot.variable;
            quote!(let #variable = from.unknown()?;)
        }
        None => quote!(__steadfast::end_closed_key(from, #owner)?;),
    };
    quote! {
        fn write_row(&self, to: &mut __steadfast::KeyWriter) {
            let Self #pattern = self;
            #(#writes)*
            #(#write_slot)*
        }

        fn read_row(from: &mut __steadfast::KeyReader<'_>) -> __steadfast::Result<Self> {
            #(#reads)*
            #read_slot
            ::core::result::Result::Ok(Self #pattern)
        }
    }
}

/// A transparent struct: its key is that of its only field.
fn transparent(
    input: &DeriveInput,
    attributes: &TypeAttributes,
    fields: &Fields,
) -> Result<TokenStream> {
    let (member, ty) = only_field(input, fields)?;
    let record = crate::record::derive(input)?;
    let key = implementation(input, &quote!(Key))?;
    let key = quote_spanned! {at(ty)=>
        #[automatically_derived]
        #key {
            fn write(&self, to: &mut __steadfast::KeyWriter) {
                <#ty as __steadfast::Key>::write(&self.#member, to);
            }

            fn read(from: &mut __steadfast::KeyReader<'_>) -> __steadfast::Result<Self> {
                let value = <#ty as __steadfast::Key>::read(from)?;
                ::core::result::Result::Ok(Self { #member: value })
            }

            fn write_row(&self, to: &mut __steadfast::KeyWriter) {
                <#ty as __steadfast::Key>::write_row(&self.#member, to);
            }

            fn read_row(from: &mut __steadfast::KeyReader<'_>) -> __steadfast::Result<Self> {
                let value = <#ty as __steadfast::Key>::read_row(from)?;
                ::core::result::Result::Ok(Self { #member: value })
            }
        }
    };
    let key = in_scope(attributes, &key);
    Ok(quote!(#record #key))
}
