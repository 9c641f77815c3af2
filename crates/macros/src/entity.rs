//! `#[entity]`.
//!
//! The macro derives two things from the methods of an impl block: code that runs an
//! operation on an entity of the type, and a proxy whose methods call the entity from
//! other code.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::meta::ParseNestedMeta;
use syn::spanned::Spanned;
use syn::{Error, FnArg, ImplItem, ImplItemFn, ItemImpl, LitStr, Path, Result, ReturnType, Type};

/// The arguments of `#[entity(..)]`.
pub(crate) struct Options {
    root: Path,
    name: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            root: syn::parse_quote!(::steadfast::durable),
            name: None,
        }
    }
}

impl Options {
    pub(crate) fn entry(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        if meta.path.is_ident("name") {
            self.name = Some(meta.value()?.parse::<LitStr>()?.value());
        } else if meta.path.is_ident("crate") {
            self.root = meta.value()?.parse::<LitStr>()?.parse()?;
        } else {
            return Err(meta.error("expected `name = \"..\"` or `crate = \"..\"`"));
        }
        Ok(())
    }
}

/// One method that is an operation of the entity.
struct EntityMethod<'a> {
    method: &'a ImplItemFn,
    /// Whether it may change the state.
    is_changing: bool,
    has_context: bool,
    input: Option<&'a Type>,
    /// The type of a success, and whether the method may fail.
    output: TokenStream,
    is_fallible: bool,
}

pub(crate) fn expand(options: &Options, block: &ItemImpl) -> Result<TokenStream> {
    let name = type_name(block)?;
    let mut operations = Vec::new();
    for item in &block.items {
        if let ImplItem::Fn(method) = item
            && method.sig.receiver().is_some()
        {
            operations.push(read(method)?);
        }
    }
    if operations.is_empty() {
        let message = "an entity needs at least one method that takes `&self` or `&mut self`";
        return Err(Error::new(block.span(), message));
    }
    let root = &options.root;
    let entity = options
        .name
        .clone()
        .unwrap_or_else(|| name.to_string().to_lowercase());
    let arms = operations.iter().map(|operation| arm(root, operation));
    let proxy = format_ident!("{name}At");
    let methods = operations.iter().map(|operation| proxied(root, operation));
    let about = format!("One [`{name}`], to be called or signalled.");
    Ok(quote! {
        // An input comes by value: it was made of a payload.
        #[allow(clippy::needless_pass_by_value)]
        #block

        impl #root::EntityType for #name {
            const NAME: &'static str = #entity;

            fn run<'a>(
                &'a mut self,
                context: &'a mut #root::EntityContext,
            ) -> #root::BoxFuture<'a, ::core::result::Result<
                ::core::option::Option<::std::string::String>,
                #root::FailureDetails,
            >> {
                ::std::boxed::Box::pin(async move {
                    let operation = context.operation().to_lowercase();
                    match operation.as_str() {
                        #(#arms)*
                        _ => context.otherwise(),
                    }
                })
            }
        }

        impl #name {
            /// The entity with this key.
            ///
            /// # Errors
            ///
            /// If the key is too long or holds control characters.
            pub fn at(
                key: &str,
            ) -> ::core::result::Result<#proxy, #root::Error> {
                let id = #root::EntityId::new(<Self as #root::EntityType>::NAME, key)?;
                ::core::result::Result::Ok(#proxy { id })
            }
        }

        #[doc = #about]
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct #proxy {
            id: #root::EntityId,
        }

        #[allow(dead_code)]
        impl #proxy {
            /// The id of the entity.
            pub fn id(&self) -> &#root::EntityId {
                &self.id
            }

            #(#methods)*
        }
    })
}

/// The type of the impl block, which must be a plain name.
fn type_name(block: &ItemImpl) -> Result<&Ident> {
    let message = "`#[entity]` stands on an `impl` of a type without parameters";
    let wrong = || Error::new(block.self_ty.span(), message);
    if block.trait_.is_some() || !block.generics.params.is_empty() {
        return Err(wrong());
    }
    match &*block.self_ty {
        Type::Path(path) => path.path.get_ident().ok_or_else(wrong),
        _ => Err(wrong()),
    }
}

fn read(method: &ImplItemFn) -> Result<EntityMethod<'_>> {
    let signature = &method.sig;
    let receiver = signature.receiver();
    let is_changing = receiver.is_some_and(|receiver| receiver.mutability.is_some());
    if receiver.is_some_and(|receiver| receiver.reference.is_none()) {
        let message = "an operation takes `&self` or `&mut self`";
        return Err(Error::new(signature.span(), message));
    }
    let (mut has_context, mut input) = (false, None);
    for argument in signature.inputs.iter().skip(1) {
        let FnArg::Typed(argument) = argument else {
            continue;
        };
        match &*argument.ty {
            Type::Reference(_) if !has_context && input.is_none() => has_context = true,
            Type::Reference(_) => {
                let message = "the context comes first, and there is one: `&mut EntityContext`";
                return Err(Error::new(argument.span(), message));
            }
            other if input.is_none() => input = Some(other),
            _ => {
                let message = "an operation takes one input: put several values into a tuple";
                return Err(Error::new(argument.span(), message));
            }
        }
    }
    let (output, is_fallible) = output(&signature.output);
    Ok(EntityMethod {
        method,
        is_changing,
        has_context,
        input,
        output,
        is_fallible,
    })
}

/// The type of a success, and whether the method may fail.
fn output(output: &ReturnType) -> (TokenStream, bool) {
    let ReturnType::Type(_, ty) = output else {
        return (quote!(()), false);
    };
    if let Type::Path(path) = &**ty
        && let Some(last) = path.path.segments.last()
        && last.ident == "Result"
        && let syn::PathArguments::AngleBracketed(arguments) = &last.arguments
        && let Some(first) = arguments.args.first()
    {
        return (quote!(#first), true);
    }
    (quote!(#ty), false)
}

/// The arm that runs an operation.
fn arm(root: &Path, operation: &EntityMethod<'_>) -> TokenStream {
    let method = &operation.method.sig.ident;
    let name = method.to_string().trim_start_matches("r#").to_lowercase();
    let context = operation.has_context.then(|| quote!(context,));
    let input = operation.input.map(|_| quote!(input,));
    let read = operation
        .input
        .map(|ty| quote!(let input: #ty = context.input()?;));
    let wait = operation.method.sig.asyncness.map(|_| quote!(.await));
    let check = operation
        .is_fallible
        .then(|| quote!(.map_err(::core::convert::Into::<#root::FailureDetails>::into)?));
    let leave = (!operation.is_changing).then(|| quote!(context.leave_state();));
    quote! {
        #name => {
            #read
            #leave
            let output = self.#method(#context #input) #wait #check;
            context.output(&output)
        }
    }
}

/// The methods of the proxy for an operation.
fn proxied(root: &Path, operation: &EntityMethod<'_>) -> TokenStream {
    let method = &operation.method.sig.ident;
    let name = method.to_string().trim_start_matches("r#").to_owned();
    let signal = format_ident!("signal_{name}");
    let output = &operation.output;
    let (argument, value) = match operation.input {
        Some(ty) => (quote!(, input: #ty), quote!(&input)),
        None => (TokenStream::new(), quote!(&())),
    };
    let (call_doc, signal_doc) = (
        format!("Runs `{name}` on the entity and waits for its result."),
        format!("Sends `{name}` to the entity without waiting for its result."),
    );
    quote! {
        #[doc = #call_doc]
        pub fn #method<C: #root::EntityCaller>(
            &self,
            by: &C
            #argument
        ) -> impl ::core::future::Future<
            Output = ::core::result::Result<#output, #root::FailureDetails>,
        > + use<C> {
            #root::call_typed(by, &self.id, #name, #value)
        }

        #[doc = #signal_doc]
        pub fn #signal<C: #root::EntityCaller>(
            &self,
            by: &C
            #argument
        ) -> impl ::core::future::Future<
            Output = ::core::result::Result<(), #root::FailureDetails>,
        > + use<C> {
            #root::signal_typed(by, &self.id, #name, #value)
        }
    }
}
