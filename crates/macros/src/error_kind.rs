//! The derive `ErrorKind`: code and message beside a variant.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Expr, Fields, LitStr, Result, Token, Variant};

/// What `#[error(..)]` says of a variant.
struct Declaration {
    code: Option<LitStr>,
    message: Option<Message>,
}

/// A format with its arguments, or a value that displays itself.
struct Message(Punctuated<Expr, Token![,]>);

impl Parse for Declaration {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let code = if input.peek(Token![_]) {
            input.parse::<Token![_]>()?;
            None
        } else {
            Some(code(input.parse()?)?)
        };
        let message = if input.parse::<Option<Token![,]>>()?.is_some() {
            Some(Message(Punctuated::parse_terminated(input)?))
        } else {
            None
        };
        Ok(Self { code, message })
    }
}

/// `STF-` and four digits.
fn code(text: LitStr) -> Result<LitStr> {
    let value = text.value();
    let digits = value.strip_prefix("STF-").unwrap_or_default();
    if digits.len() == 4 && digits.bytes().all(|digit| digit.is_ascii_digit()) {
        Ok(text)
    } else {
        let message = "a code is STF- and four digits; write _ for a kind without one of its own";
        Err(Error::new(text.span(), message))
    }
}

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Enum(data) = &input.data else {
        return Err(Error::new(
            input.span(),
            "the kinds of an error are an enum",
        ));
    };
    let declared = data.variants.iter().map(declaration);
    let declared = declared.collect::<Result<Vec<_>>>()?;
    let name = &input.ident;
    let codes = codes(data.variants.iter().zip(&declared));
    let with_code = with_code(data.variants.iter().zip(&declared));
    let display = display(data.variants.iter().zip(&declared))?;
    let display = display.map(|arms| {
        quote! {
            impl ::std::fmt::Display for #name {
                fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                    match self { #arms }
                }
            }
        }
    });
    Ok(quote! {
        impl #name {
            #codes

            #with_code
        }

        #display
    })
}

fn declaration(variant: &Variant) -> Result<Declaration> {
    let mut found = variant
        .attrs
        .iter()
        .filter(|attribute| attribute.path().is_ident("error"));
    match (found.next(), found.next()) {
        (Some(only), None) => only.parse_args(),
        (None, _) => Err(Error::new(
            variant.span(),
            "a kind has a code: #[error(\"STF-NNNN\", \"message\")]",
        )),
        (Some(_), Some(second)) => Err(Error::new(second.span(), "a kind has one code")),
    }
}

/// `code`, or `own_code` if a kind has the code of its cause.
fn codes<'a>(kinds: impl Iterator<Item = (&'a Variant, &'a Declaration)> + Clone) -> TokenStream {
    let code = |code: &LitStr| quote!(::steadfast_core::error::Code(#code));
    if kinds.clone().all(|(_, declared)| declared.code.is_some()) {
        let arms = kinds.filter_map(|(variant, declared)| {
            let (name, code) = (&variant.ident, code(declared.code.as_ref()?));
            Some(quote!(Self::#name { .. } => #code,))
        });
        return quote! {
            /// The stable code, the name of its page in `docs/errors/`.
            pub fn code(&self) -> ::steadfast_core::error::Code {
                match self { #(#arms)* }
            }
        };
    }
    let arms = kinds.map(|(variant, declared)| {
        let name = &variant.ident;
        match declared.code.as_ref().map(code) {
            Some(code) => quote!(Self::#name { .. } => ::std::option::Option::Some(#code),),
            None => quote!(Self::#name { .. } => ::std::option::Option::None,),
        }
    });
    quote! {
        /// The stable code of this kind; none if it has that of its cause.
        pub fn own_code(&self) -> ::std::option::Option<::steadfast_core::error::Code> {
            match self { #(#arms)* }
        }
    }
}

/// The reverse, for kinds that are a code and nothing else.
fn with_code<'a>(
    kinds: impl Iterator<Item = (&'a Variant, &'a Declaration)> + Clone,
) -> Option<TokenStream> {
    let is_plain = |(variant, _): (&Variant, _)| matches!(variant.fields, Fields::Unit);
    if !kinds.clone().all(is_plain) {
        return None;
    }
    let arms: TokenStream = kinds
        .filter_map(|(variant, declared)| {
            let (name, code) = (&variant.ident, declared.code.as_ref()?);
            Some(quote!(#code => ::std::option::Option::Some(Self::#name),))
        })
        .collect();
    Some(quote! {
        /// The kind that has this code.
        pub fn with_code(code: &str) -> ::std::option::Option<Self> {
            match code {
                #arms
                _ => ::std::option::Option::None,
            }
        }
    })
}

/// The arms that write the messages; none if no kind has one.
fn display<'a>(
    kinds: impl Iterator<Item = (&'a Variant, &'a Declaration)> + Clone,
) -> Result<Option<TokenStream>> {
    if kinds
        .clone()
        .all(|(_, declared)| declared.message.is_none())
    {
        return Ok(None);
    }
    let arms = kinds.map(|(variant, declared)| {
        let Some(Message(parts)) = &declared.message else {
            let message = "other kinds have a message, so this one needs one, too";
            return Err(Error::new(variant.span(), message));
        };
        let pattern = pattern(variant);
        let is_format = matches!(parts.first(), Some(Expr::Lit(_)));
        let write = if is_format {
            quote!(::std::write!(f, #parts))
        } else {
            quote!(::std::fmt::Display::fmt(&#parts, f))
        };
        Ok(quote! {
            #[allow(unused_variables)]
            #pattern => #write,
        })
    });
    arms.collect::<Result<TokenStream>>().map(Some)
}

/// Binds named fields by their names, others as `_0`, `_1`.
fn pattern(variant: &Variant) -> TokenStream {
    let name = &variant.ident;
    match &variant.fields {
        Fields::Unit => quote!(Self::#name),
        Fields::Named(fields) => {
            let names = fields.named.iter().map(|field| &field.ident);
            quote!(Self::#name { #(#names),* })
        }
        Fields::Unnamed(fields) => {
            let names = (0..fields.unnamed.len()).map(|at| format_ident!("_{at}"));
            quote!(Self::#name(#(#names),*))
        }
    }
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    /// The message of the compile error for an enum.
    fn refusal(input: &DeriveInput) -> String {
        derive(input).unwrap_err().to_string()
    }

    #[test]
    fn a_kind_needs_one_code_of_the_right_form() {
        let none = parse_quote!(
            enum Kind {
                Lost,
            }
        );
        assert!(refusal(&none).starts_with("a kind has a code"));
        let two = parse_quote!(
            enum Kind {
                #[error("STF-2001")]
                #[error("STF-2002")]
                Lost,
            }
        );
        assert_eq!(refusal(&two), "a kind has one code");
        for code in ["STF-12", "STF-12345", "STX-1001", "STF-10a1"] {
            let bad = parse_quote!(
                enum Kind {
                    #[error(#code)]
                    Lost,
                }
            );
            assert!(refusal(&bad).starts_with("a code is STF-"), "{code}");
        }
    }

    #[test]
    fn one_message_demands_the_others() {
        let some = parse_quote!(
            enum Kind {
                #[error("STF-2001", "it is lost")]
                Lost,
                #[error("STF-2002")]
                Found,
            }
        );
        assert!(refusal(&some).starts_with("other kinds have a message"));
    }

    #[test]
    fn a_struct_has_no_kinds() {
        let input = parse_quote!(
            struct Kind;
        );
        assert_eq!(refusal(&input), "the kinds of an error are an enum");
    }
}
