//! The attributes `#[n(..)]` and `#[record(..)]`.
//!
//! An unknown attribute is an error, never ignored.

use proc_macro2::Span;
use syn::meta::ParseNestedMeta;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Attribute, Error, Expr, LitInt, LitStr, Path, Result, Token, parenthesized};

/// The attributes of a struct or enum.
pub(crate) struct TypeAttributes {
    pub(crate) root: Path,
    pub(crate) name: Option<String>,
    pub(crate) closed: bool,
    pub(crate) transparent: bool,
    pub(crate) retired: Vec<u32>,
}

impl TypeAttributes {
    pub(crate) fn parse(attributes: &[Attribute]) -> Result<Self> {
        let mut found = Self {
            root: syn::parse_quote!(::steadfast),
            name: None,
            closed: false,
            transparent: false,
            retired: Vec::new(),
        };
        for attribute in attributes.iter().filter(|a| a.path().is_ident("record")) {
            attribute.parse_nested_meta(|meta| found.entry(&meta))?;
        }
        if let Some(stray) = attributes.iter().find(|a| a.path().is_ident("n")) {
            return Err(Error::new(
                stray.span(),
                "a type has no number; its fields or variants have",
            ));
        }
        if found.closed && found.transparent {
            let message = "a transparent type has nothing to close: remove one of the two";
            return Err(Error::new(Span::call_site(), message));
        }
        Ok(found)
    }

    fn entry(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        if meta.path.is_ident("closed") {
            self.closed = true;
        } else if meta.path.is_ident("transparent") {
            self.transparent = true;
        } else if meta.path.is_ident("name") {
            self.name = Some(meta.value()?.parse::<LitStr>()?.value());
        } else if meta.path.is_ident("crate") {
            self.root = meta.value()?.parse::<LitStr>()?.parse()?;
        } else if meta.path.is_ident("retired") {
            let content;
            parenthesized!(content in meta.input);
            for number in Punctuated::<LitInt, Token![,]>::parse_terminated(&content)? {
                self.retired.push(number.base10_parse()?);
            }
        } else {
            return Err(meta.error(
                "expected `closed`, `transparent`, `name = \"..\"`, `retired(..)` or `crate = \"..\"`",
            ));
        }
        Ok(())
    }
}

/// The value of a field that is not in the bytes.
#[derive(Clone)]
pub(crate) enum Fallback {
    /// By the type of the field: an option is `None`, anything else is an error.
    OfType,
    /// `Default::default()`.
    Default,
    Expression(Box<Expr>),
}

/// The attributes of a field or variant.
pub(crate) struct FieldAttributes {
    pub(crate) number: Option<(u32, Span)>,
    pub(crate) fallback: Fallback,
    pub(crate) since: Option<(u32, Span)>,
    pub(crate) unknown: bool,
    pub(crate) other: bool,
}

impl FieldAttributes {
    pub(crate) fn parse(attributes: &[Attribute]) -> Result<Self> {
        let mut found = Self {
            number: None,
            fallback: Fallback::OfType,
            since: None,
            unknown: false,
            other: false,
        };
        for attribute in attributes {
            if attribute.path().is_ident("n") {
                let number: LitInt = attribute.parse_args()?;
                if found.number.is_some() {
                    return Err(Error::new(attribute.span(), "a second number"));
                }
                found.number = Some((number.base10_parse()?, number.span()));
            } else if attribute.path().is_ident("record") {
                attribute.parse_nested_meta(|meta| found.entry(&meta))?;
            }
        }
        Ok(found)
    }

    fn entry(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        if meta.path.is_ident("unknown") {
            self.unknown = true;
        } else if meta.path.is_ident("other") {
            self.other = true;
        } else if meta.path.is_ident("default") {
            self.fallback = if meta.input.peek(Token![=]) {
                Fallback::Expression(Box::new(meta.value()?.parse()?))
            } else {
                Fallback::Default
            };
        } else if meta.path.is_ident("since") {
            let since: LitInt = meta.value()?.parse()?;
            let version: u32 = since.base10_parse()?;
            if version < 2 {
                let message = "fields of the first version need no `since`; it starts at 2";
                return Err(Error::new(since.span(), message));
            }
            self.since = Some((version, since.span()));
        } else {
            return Err(meta.error(
                "expected `default`, `default = ..`, `since = ..`, `unknown` or, on a variant, `other`",
            ));
        }
        Ok(())
    }
}
