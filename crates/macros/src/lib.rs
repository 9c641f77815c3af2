//! The derives and attributes of Steadfast.
//!
//! `Record` and `Key` for the types that an application stores, `entity` for those whose
//! methods are operations, `hub` for those whose methods clients call. Generated code
//! names one hidden module only, `steadfast::__private`; a crate that does not depend on
//! the facade gives its path with `#[record(crate = "..")]`. A type that cannot be stored
//! safely is a compile error at the code that must change. `ErrorKind` is for our own
//! crates, and names `steadfast_core`.

use proc_macro::TokenStream;

mod attributes;
mod body;
mod entity;
mod error_kind;
mod fields;
mod hub;
mod key;
mod record;

/// Makes a struct or an enum storable.
///
/// Every field has a number, `#[n(0)]`, that names it in storage permanently. A struct
/// has one field of type `Unknown`, where fields of newer code are kept; an enum has
/// a variant `#[record(other)] Other(UnknownVariant)`. Both can be left out with
/// `#[record(closed)]`: then anything unknown is an error.
///
/// On the type: `#[record(closed)]`, `#[record(transparent)]` for a struct that is
/// stored as its only field, `#[record(name = "..")]` for the name in the metadata,
/// `#[record(retired(3, 4))]` for numbers that may not be used again,
/// `#[record(crate = "..")]` for the path of the facade.
///
/// On a field: `#[record(default)]` or `#[record(default = expression)]` for a value
/// when the field is absent, `#[record(since = 2)]` for the write version from which
/// the field is written.
#[proc_macro_derive(Record, attributes(n, record))]
pub fn derive_record(input: TokenStream) -> TokenStream {
    expand(input, record::derive)
}

/// Makes a struct usable as a key.
///
/// Fields are numbered from 0 in the order in which they are declared, which is also
/// the order in which keys are compared: derive `PartialOrd` and `Ord` with it. The
/// last field has the type `Unknown`, unless the key is `#[record(closed)]` or
/// `#[record(transparent)]`. A key type may gain fields that are an `Option`.
#[proc_macro_derive(Key, attributes(n, record))]
pub fn derive_key(input: TokenStream) -> TokenStream {
    expand(input, key::derive)
}

/// Writes the codes and messages of an error's kinds, which stand beside the variants.
///
/// Every variant has `#[error("STF-2007")]`, or `#[error("STF-2007", "message", ..)]` with
/// the arguments of `format!`, in which fields have their names (those without are `_0`,
/// `_1`). Instead of a text there may be a value that displays itself. `_` stands for a
/// code that the kind takes from its cause. The enum gets `code` (`own_code` if a kind
/// takes that of its cause), its messages as `Display`, and `with_code` if no variant has
/// fields.
#[proc_macro_derive(ErrorKind, attributes(error))]
pub fn derive_error_kind(input: TokenStream) -> TokenStream {
    expand(input, error_kind::derive)
}

/// Makes an entity of a type: its methods are the operations.
///
/// The attribute goes on an `impl` block. A method takes `&mut self`, or `&self` if it
/// only reads; then, optionally, the context of the operation by reference; then one
/// input. It may be async, and may fail with anything that converts into
/// `FailureDetails`.
///
/// A proxy of the type's name and `At` has the same methods, for orchestrations and
/// clients: `Counter::at("key")?.add(&cx, 5).await?`, and `signal_add` to send it
/// without waiting.
///
/// `#[entity(name = "..")]` gives it another name than the type's in lower case,
/// `#[entity(crate = "..")]` gives the path of the facade's module `durable`.
#[proc_macro_attribute]
pub fn entity(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let mut options = entity::Options::default();
    let parser = syn::meta::parser(|meta| options.entry(&meta));
    let parsed = syn::parse::Parser::parse(parser, attribute);
    let expanded = parsed
        .and_then(|()| syn::parse::<syn::ItemImpl>(item))
        .and_then(|block| entity::expand(&options, &block));
    expanded
        .unwrap_or_else(|error| error.into_compile_error())
        .into()
}

/// Makes a type a hub: clients call the methods of this impl block.
///
/// A method may take `&Context` first, then arguments, which can be deserialised,
/// and `Upload<T>` for streams of the client. It returns nothing, a value, a
/// `Result` of one, or `impl Stream<Item = ..>`. Names are compared without case and
/// underscores. `on_connected(&self, &Context)` and
/// `on_disconnected(&self, &Context, Option<String>)` are hooks.
///
/// On a method: `#[hub(name = "..")]` for another name, `#[hub(skip)]` for one that
/// is not for clients. On the block: `#[hub(crate = "..")]` for the path of the
/// facade's `realtime`.
#[proc_macro_attribute]
pub fn hub(attribute: TokenStream, item: TokenStream) -> TokenStream {
    syn::parse(item)
        .and_then(|block| hub::expand(attribute.into(), block))
        .unwrap_or_else(|error| error.into_compile_error())
        .into()
}

fn expand(
    input: TokenStream,
    derive: fn(&syn::DeriveInput) -> syn::Result<proc_macro2::TokenStream>,
) -> TokenStream {
    syn::parse(input)
        .and_then(|input| derive(&input))
        .unwrap_or_else(|error| error.into_compile_error())
        .into()
}
