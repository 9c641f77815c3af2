//! `#[derive(Record)]`.
//!
//! A struct is a map from field numbers to values. A variant of an enum is its
//! number, or a list of its number and its content.

use std::collections::HashMap;

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DataEnum, DeriveInput, Error, Fields, Generics, Ident, Result, Variant};

use crate::attributes::{FieldAttributes, TypeAttributes};
use crate::fields::{CheckedFields, at, check_number, is_last, join};

/// The implementation for a struct or enum.
pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let attributes = TypeAttributes::parse(&input.attrs)?;
    let body = match &input.data {
        Data::Struct(data) if attributes.transparent => transparent(input, &data.fields)?,
        Data::Struct(data) => of_struct(input, &attributes, &data.fields)?,
        Data::Enum(_) if attributes.transparent => {
            return Err(Error::new(
                input.ident.span(),
                "only a struct can be transparent",
            ));
        }
        Data::Enum(data) => of_enum(input, &attributes, data)?,
        Data::Union(_) => {
            return Err(Error::new(input.ident.span(), "a union cannot be stored"));
        }
    };
    let head = implementation(input, &quote!(Record))?;
    Ok(in_scope(
        &attributes,
        &quote! {
            #[automatically_derived]
            #head {
                fn __seal() -> __steadfast::Seal {
                    __steadfast::Seal::by_derive()
                }

                #body
            }
        },
    ))
}

/// Brings the hidden module into scope, for generated code only.
pub(crate) fn in_scope(attributes: &TypeAttributes, code: &TokenStream) -> TokenStream {
    let root = &attributes.root;
    quote! {
        const _: () = {
            use #root::__private as __steadfast;
            #code
        };
    }
}

/// `impl Record for Type`, with every type parameter bound.
pub(crate) fn implementation(input: &DeriveInput, of: &TokenStream) -> Result<TokenStream> {
    if let Some(lifetime) = input.generics.lifetimes().next() {
        let message = "a stored type owns what it holds: it has no lifetimes";
        return Err(Error::new(lifetime.span(), message));
    }
    let name = &input.ident;
    let mut generics: Generics = input.generics.clone();
    for parameter in generics.type_params_mut() {
        parameter.bounds.push(syn::parse_quote!(__steadfast::#of));
    }
    let (parameters, arguments, clause) = generics.split_for_impl();
    Ok(quote!(impl #parameters __steadfast::#of for #name #arguments #clause))
}

/// The name of the type in the metadata, with those of its parameters.
pub(crate) fn type_name(input: &DeriveInput, attributes: &TypeAttributes) -> TokenStream {
    let name = attributes
        .name
        .clone()
        .unwrap_or_else(|| input.ident.to_string());
    let parameters: Vec<_> = input.generics.type_params().map(|p| &p.ident).collect();
    let value = if parameters.is_empty() {
        quote!(::std::string::String::from(#name))
    } else {
        quote! {{
            let parameters = [#(<#parameters as __steadfast::Record>::type_name()),*];
            ::std::format!("{}<{}>", #name, parameters.join(", "))
        }}
    };
    quote! {
        fn type_name() -> ::std::string::String {
            #value
        }
    }
}

fn of_struct(
    input: &DeriveInput,
    attributes: &TypeAttributes,
    fields: &Fields,
) -> Result<TokenStream> {
    let name = input.ident.to_string();
    let checked = CheckedFields::new(
        fields,
        input.ident.span(),
        attributes.closed,
        &attributes.retired,
    )?;
    let (pattern, old_pattern) = (checked.pattern(""), checked.pattern("old_"));
    let (encode, inherit, version) = (checked.encode(), checked.inherit(), checked.version());
    let (read, build) = checked.decode(&name);
    let type_name = type_name(input, attributes);
    Ok(quote! {
        const VERSION: u32 = #version;

        #type_name

        fn encode(&self, to: &mut __steadfast::CborWriter) {
            if !to.enter() {
                return;
            }
            let Self #pattern = self;
            #encode
            to.leave();
        }

        fn decode(from: &mut __steadfast::CborReader<'_>) -> __steadfast::Result<Self> {
            from.nested(|from| {
                #read
                ::core::result::Result::Ok(Self #build)
            })
        }

        fn inherit(&mut self, old: &Self) {
            let Self #pattern = self;
            let Self #old_pattern = old;
            #inherit
        }
    })
}

/// A struct that is stored as its only field.
fn transparent(input: &DeriveInput, fields: &Fields) -> Result<TokenStream> {
    let (member, ty) = only_field(input, fields)?;
    Ok(quote_spanned! {at(ty)=>
        const VERSION: u32 = <#ty as __steadfast::Record>::VERSION;
        const NULLABLE: bool = <#ty as __steadfast::Record>::NULLABLE;

        fn type_name() -> ::std::string::String {
            <#ty as __steadfast::Record>::type_name()
        }

        fn encode(&self, to: &mut __steadfast::CborWriter) {
            <#ty as __steadfast::Record>::encode(&self.#member, to);
        }

        fn decode(from: &mut __steadfast::CborReader<'_>) -> __steadfast::Result<Self> {
            let value = <#ty as __steadfast::Record>::decode(from)?;
            ::core::result::Result::Ok(Self { #member: value })
        }

        fn is_absent(&self) -> bool {
            <#ty as __steadfast::Record>::is_absent(&self.#member)
        }

        fn missing() -> ::core::option::Option<Self> {
            let value = <#ty as __steadfast::Record>::missing()?;
            ::core::option::Option::Some(Self { #member: value })
        }

        fn inherit(&mut self, old: &Self) {
            <#ty as __steadfast::Record>::inherit(&mut self.#member, &old.#member);
        }
    })
}

/// The field of a transparent struct.
pub(crate) fn only_field<'a>(
    input: &DeriveInput,
    fields: &'a Fields,
) -> Result<(syn::Member, &'a syn::Type)> {
    let (Some(member), Some(field), 1) =
        (fields.members().next(), fields.iter().next(), fields.len())
    else {
        let message = "a transparent struct has exactly one field";
        return Err(Error::new(input.ident.span(), message));
    };
    let attributes = FieldAttributes::parse(&field.attrs)?;
    if let Some((_, span)) = attributes.number {
        let message = "the field of a transparent struct has no number";
        return Err(Error::new(span, message));
    }
    Ok((member, &field.ty))
}

/// The code for one variant.
struct Arm {
    encode: TokenStream,
    decode: TokenStream,
    inherit: TokenStream,
    version: u32,
}

fn of_enum(
    input: &DeriveInput,
    attributes: &TypeAttributes,
    data: &DataEnum,
) -> Result<TokenStream> {
    let mut errors = None;
    let mut seen = HashMap::new();
    let mut arms = Vec::new();
    let mut other = None;
    for variant in &data.variants {
        let arm = FieldAttributes::parse(&variant.attrs).and_then(|of| {
            if of.other {
                return catch_all(variant, attributes, &mut other).map(|()| None);
            }
            arm(input, variant, &of, attributes, &mut seen).map(Some)
        });
        match arm {
            Ok(arm) => arms.extend(arm),
            Err(error) => join(&mut errors, error),
        }
    }
    if other.is_none() && !attributes.closed && errors.is_none() {
        let message = "no place for variants that newer code writes: add `#[record(other)] Other(UnknownVariant)`, or say `#[record(closed)]` if there will never be any";
        errors = Some(Error::new(input.ident.span(), message));
    }
    match errors {
        Some(errors) => Err(errors),
        None => Ok(enum_body(input, attributes, &arms, other)),
    }
}

fn enum_body(
    input: &DeriveInput,
    attributes: &TypeAttributes,
    arms: &[Arm],
    other: Option<&Ident>,
) -> TokenStream {
    let type_name = type_name(input, attributes);
    let version = arms.iter().map(|arm| arm.version).max().unwrap_or(1);
    let encodes = arms.iter().map(|arm| &arm.encode);
    let decodes = arms.iter().map(|arm| &arm.decode);
    let inherits = arms.iter().map(|arm| &arm.inherit);
    let name = input.ident.to_string();
    let keep = other.map(|other| quote!(Self::#other(variant) => to.variant(variant),));
    let unknown = match other {
        Some(other) => quote!(from.variant(number, start).map(Self::#other)),
        None => quote!(::core::result::Result::Err(__steadfast::closed_variant(#name, number))),
    };
    let start = other.map(|_| quote!(let start = from.position();));
    quote! {
        const VERSION: u32 = #version;

        #type_name

        fn encode(&self, to: &mut __steadfast::CborWriter) {
            if !to.enter() {
                return;
            }
            match self {
                #(#encodes)*
                #keep
            }
            to.leave();
        }

        fn decode(from: &mut __steadfast::CborReader<'_>) -> __steadfast::Result<Self> {
            from.nested(|from| {
                #start
                match from.variant_number()? {
                    #(#decodes)*
                    (number, _) => #unknown,
                }
            })
        }

        fn inherit(&mut self, old: &Self) {
            match (self, old) {
                #(#inherits)*
                _ => {}
            }
        }
    }
}

/// Checks the variant that keeps unknown variants.
fn catch_all<'a>(
    variant: &'a Variant,
    attributes: &TypeAttributes,
    other: &mut Option<&'a Ident>,
) -> Result<()> {
    if attributes.closed {
        return Err(Error::new(
            variant.span(),
            "a closed enum keeps no unknown variants",
        ));
    }
    if other.is_some() {
        return Err(Error::new(
            variant.span(),
            "a second place for unknown variants",
        ));
    }
    match &variant.fields {
        Fields::Unnamed(fields)
            if fields.unnamed.len() == 1 && is_last(&fields.unnamed[0].ty, "UnknownVariant") =>
        {
            *other = Some(&variant.ident);
            Ok(())
        }
        _ => {
            let message = format!("write `{}(UnknownVariant)`", variant.ident);
            Err(Error::new(variant.span(), message))
        }
    }
}

fn arm(
    input: &DeriveInput,
    variant: &Variant,
    of: &FieldAttributes,
    attributes: &TypeAttributes,
    seen: &mut HashMap<u32, String>,
) -> Result<Arm> {
    let ident = &variant.ident;
    let name = ident.to_string();
    let Some((number, span)) = of.number else {
        let message = format!("variant `{name}` has no number: write `#[n(..)]` before it");
        return Err(Error::new(variant.span(), message));
    };
    check_number(number, span, &name, seen, &attributes.retired)?;
    if let Some((_, span)) = of.since {
        let message = "a variant is written as soon as the code uses it; only fields have `since`";
        return Err(Error::new(span, message));
    }
    match &variant.fields {
        Fields::Unit => Ok(unit(ident, number)),
        Fields::Unnamed(fields) if fields.unnamed.len() == 1 => {
            Ok(content(input, ident, number, &fields.unnamed[0].ty))
        }
        Fields::Unnamed(_) => {
            let message = "a variant has no content, one value, or named fields";
            Err(Error::new(variant.span(), message))
        }
        fields @ Fields::Named(_) => {
            let checked = CheckedFields::new(fields, ident.span(), attributes.closed, &[])?;
            Ok(with_fields(input, ident, number, &checked))
        }
    }
}

fn unit(ident: &Ident, number: u32) -> Arm {
    let wide = u64::from(number);
    Arm {
        encode: quote!(Self::#ident => to.unsigned(#wide),),
        decode: quote!((#wide, false) => ::core::result::Result::Ok(Self::#ident),),
        inherit: TokenStream::new(),
        version: 1,
    }
}

fn content(input: &DeriveInput, ident: &Ident, number: u32, ty: &syn::Type) -> Arm {
    let (wide, path) = (u64::from(number), format!("{}.{ident}", input.ident));
    let write = quote_spanned!(at(ty)=> <#ty as __steadfast::Record>::encode(value, to););
    let read = quote_spanned!(at(ty)=> <#ty as __steadfast::Record>::decode(from));
    let inherit = quote_spanned!(at(ty)=> <#ty as __steadfast::Record>::inherit(new, old));
    Arm {
        encode: quote! {
            Self::#ident(value) => {
                to.array(2);
                to.unsigned(#wide);
                #write
            }
        },
        decode: quote!((#wide, true) => __steadfast::within(#read, #path).map(Self::#ident),),
        inherit: quote! {
            (Self::#ident(new), Self::#ident(old)) => #inherit,
        },
        version: 1,
    }
}

fn with_fields(input: &DeriveInput, ident: &Ident, number: u32, checked: &CheckedFields) -> Arm {
    let wide = u64::from(number);
    let (pattern, old_pattern) = (checked.pattern(""), checked.pattern("old_"));
    let (encode, inherit) = (checked.encode(), checked.inherit());
    let (read, build) = checked.decode(&format!("{}.{ident}", input.ident));
    Arm {
        encode: quote! {
            Self::#ident #pattern => {
                to.array(2);
                to.unsigned(#wide);
                #encode
            }
        },
        decode: quote! {
            (#wide, true) => {
                #read
                ::core::result::Result::Ok(Self::#ident #build)
            }
        },
        inherit: quote! {
            (Self::#ident #pattern, Self::#ident #old_pattern) => { #inherit }
        },
        version: checked.version(),
    }
}
