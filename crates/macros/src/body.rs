//! Code for the fields of a record.
//!
//! The code works on variables: references to the fields when it writes, options of their
//! values when it reads. So a struct and a variant with fields share it.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};

use crate::attributes::Fallback;
use crate::fields::{CheckedFields, Field};

impl CheckedFields {
    /// A pattern, behind the name of the type or variant, that binds every field.
    pub(crate) fn pattern(&self, prefix: &str) -> TokenStream {
        let fields = self.known.iter().map(|field| {
            let (member, variable) = (&field.member, format_ident!("{prefix}{}", field.variable));
            quote!(#member: #variable)
        });
        let slot = self.slot.iter().map(|slot| {
            let (member, variable) = (&slot.member, format_ident!("{prefix}{}", slot.variable));
            quote!(#member: #variable)
        });
        quote!({ #(#fields,)* #(#slot,)* })
    }

    /// Writes the map.
    pub(crate) fn encode(&self) -> TokenStream {
        let (present, checks): (Vec<_>, Vec<_>) =
            self.known.iter().map(|field| self.presence(field)).unzip();
        let slot = match &self.slot {
            Some(slot) => {
                let variable = &slot.variable;
                quote!(#variable)
            }
            None => quote!(&__steadfast::Unknown::NONE),
        };
        let writes = self.known.iter().zip(&present).map(|(field, present)| {
            let (number, variable, ty) = (u64::from(field.number), &field.variable, &field.ty);
            let write =
                quote_spanned!(field.span=> <#ty as __steadfast::Record>::encode(#variable, to));
            quote! {
                if #present {
                    weaver.before(#number, to);
                    to.unsigned(#number);
                    #write;
                }
            }
        });
        quote! {
            #(let #present: bool = #checks;)*
            to.record(0 #(+ #present as usize)*, #slot);
            let mut weaver = __steadfast::weave(#slot);
            #(#writes)*
            weaver.rest(to);
        }
    }

    /// A variable that says whether a field is written, and its value.
    fn presence(&self, field: &Field) -> (proc_macro2::Ident, TokenStream) {
        let variable = &field.variable;
        let present = format_ident!("has_{variable}");
        let ty = &field.ty;
        let there =
            quote_spanned!(field.span=> !<#ty as __steadfast::Record>::is_absent(#variable));
        let check = match (field.since, &self.slot) {
            (Some(since), Some(slot)) => {
                let slot = &slot.variable;
                quote!(#there && (#slot.had(#since) || to.writes(#since)))
            }
            _ => there,
        };
        (present, check)
    }

    /// Reads the map into variables, ending with the fields in braces.
    pub(crate) fn decode(&self, owner: &str) -> (TokenStream, TokenStream) {
        let declarations = self.known.iter().map(|field| {
            let (variable, ty) = (&field.variable, &field.ty);
            quote!(let mut #variable: ::core::option::Option<#ty> = ::core::option::Option::None;)
        });
        let arms = self.known.iter().map(|field| {
            let (number, variable) = (u64::from(field.number), &field.variable);
            let (ty, path) = (&field.ty, format!("{owner}.{}", field.name()));
            let saw = field.since.map(|since| quote!(gather.saw(#since);));
            let read = quote_spanned!(field.span=> <#ty as __steadfast::Record>::decode(from));
            quote! {
                #number => {
                    #variable = ::core::option::Option::Some(__steadfast::within(#read, #path)?);
                    #saw
                }
            }
        });
        let unknown = if self.slot.is_some() {
            quote!(from.keep(number, start, &mut gather)?)
        } else {
            quote!(return ::core::result::Result::Err(__steadfast::closed(#owner, number)))
        };
        let gather = self
            .slot
            .as_ref()
            .map(|_| quote!(let mut gather = __steadfast::UnknownCollector::default();));
        let read = quote! {
            #(#declarations)*
            #gather
            let mut last = ::core::option::Option::None;
            for _ in 0..from.map()? {
                let start = from.position();
                let number = from.number(last)?;
                last = ::core::option::Option::Some(number);
                match number {
                    #(#arms)*
                    _ => #unknown,
                }
            }
        };
        let fields = self.known.iter().map(|field| {
            let (member, variable) = (&field.member, &field.variable);
            let otherwise = field.otherwise(owner);
            quote! {
                #member: match #variable {
                    ::core::option::Option::Some(value) => value,
                    ::core::option::Option::None => #otherwise,
                }
            }
        });
        let slot = self.slot.iter().map(|slot| {
            let member = &slot.member;
            quote!(#member: gather.finish())
        });
        (read, quote!({ #(#fields,)* #(#slot,)* }))
    }

    /// Takes over unknown fields; the variables of the old value start with `old_`.
    pub(crate) fn inherit(&self) -> TokenStream {
        let fields = self.known.iter().map(|field| {
            let (ty, new) = (&field.ty, &field.variable);
            let old = format_ident!("old_{new}");
            quote_spanned!(field.span=> <#ty as __steadfast::Record>::inherit(#new, #old);)
        });
        let slot = self.slot.iter().map(|slot| {
            let (ty, new) = (&slot.ty, &slot.variable);
            let old = format_ident!("old_{new}");
            quote!(<#ty>::inherit(#new, #old);)
        });
        quote!(#(#fields)* #(#slot)*)
    }

    /// The newest version of any field.
    pub(crate) fn version(&self) -> u32 {
        let versions = self.known.iter().filter_map(|field| field.since);
        versions.max().unwrap_or(1)
    }
}

impl Field {
    /// The code for a field that is not in the bytes.
    fn otherwise(&self, owner: &str) -> TokenStream {
        let (ty, name) = (&self.ty, self.name());
        match &self.fallback {
            Fallback::OfType => {
                let missing = quote_spanned!(self.span=> <#ty as __steadfast::Record>::missing());
                quote!(__steadfast::or_missing(#missing, #owner, #name)?)
            }
            Fallback::Default => {
                quote_spanned!(self.span=> <#ty as ::core::default::Default>::default())
            }
            Fallback::Expression(expression) => quote!(#expression),
        }
    }
}
