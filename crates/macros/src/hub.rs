//! `#[hub]`: methods of an impl block that clients call.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{
    Attribute, Error, FnArg, GenericArgument, Ident, ImplItem, ImplItemFn, ItemImpl, LitStr, Path,
    PathArguments, Result, ReturnType, Type, TypeParamBound, parse_quote,
};

/// Keeps the block, and adds the implementation of `Hub`.
pub(crate) fn expand(attribute: TokenStream, mut block: ItemImpl) -> Result<TokenStream> {
    let facade = facade(attribute)?;
    if let Some((_, path, _)) = &block.trait_ {
        return Err(Error::new_spanned(
            path,
            "#[hub] stands on a plain impl block",
        ));
    }
    let mut methods = Vec::new();
    let mut hooks = Vec::new();
    for item in &mut block.items {
        let ImplItem::Fn(function) = item else {
            continue;
        };
        let marks = MethodAttributes::take(&mut function.attrs)?;
        if marks.is_skipped || function.sig.receiver().is_none() {
            continue;
        }
        match function.sig.ident.to_string().as_str() {
            "on_connected" => hooks.push(connected(function, &facade)),
            "on_disconnected" => hooks.push(disconnected(function, &facade)),
            _ => methods.push(HubMethod::read(function, marks)?),
        }
    }
    let own = &block.self_ty;
    let (generics, _, bounds) = block.generics.split_for_impl();
    let list = methods.iter().map(|method| method.entry(&facade));
    let arms = methods.iter().enumerate();
    let arms = arms.map(|(place, method)| method.arm(place, &facade));
    Ok(quote! {
        #block

        impl #generics #facade::Hub for #own #bounds {
            const METHODS: &'static [#facade::Method] = &[#(#list),*];

            fn call(
                self: #facade::__private::Arc<Self>,
                method: usize,
                mut call: #facade::MethodCall,
            ) -> #facade::__private::BoxFuture<'static, #facade::MethodResponse> {
                ::std::boxed::Box::pin(async move {
                    let context = call.context();
                    let protocol = call.protocol();
                    let _ = (&context, &protocol, &mut call);
                    match method {
                        #(#arms)*
                        _ => #facade::MethodResponse::Failed(#facade::HubError::new("no such method")),
                    }
                })
            }

            #(#hooks)*
        }
    })
}

/// The path at which generated code finds the library.
fn facade(attribute: TokenStream) -> Result<Path> {
    let mut path: Path = parse_quote!(::steadfast::realtime);
    let parser = syn::meta::parser(|meta| {
        if meta.path.is_ident("crate") {
            path = meta.value()?.parse::<LitStr>()?.parse()?;
            return Ok(());
        }
        Err(meta.error("only `crate = \"..\"` is known here"))
    });
    syn::parse::Parser::parse2(parser, attribute)?;
    Ok(path)
}

/// The arguments of `#[hub(..)]` on a method.
#[derive(Default)]
struct MethodAttributes {
    name: Option<String>,
    is_skipped: bool,
}

impl MethodAttributes {
    fn take(attributes: &mut Vec<Attribute>) -> Result<Self> {
        let mut marks = Self::default();
        for attribute in attributes.iter().filter(|own| own.path().is_ident("hub")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("skip") {
                    marks.is_skipped = true;
                    return Ok(());
                }
                if meta.path.is_ident("name") {
                    marks.name = Some(meta.value()?.parse::<LitStr>()?.value());
                    return Ok(());
                }
                Err(meta.error("only `skip` and `name = \"..\"` are known here"))
            })?;
        }
        attributes.retain(|own| !own.path().is_ident("hub"));
        Ok(marks)
    }
}

/// The source of a parameter's value.
enum Parameter {
    Context,
    Argument(Type),
    Upload(Type),
}

/// How a method's return value is sent.
enum ReturnKind {
    Void,
    /// `Result<(), E>`.
    VoidResult,
    Value,
    Result,
    Stream,
    TryStream,
}

struct HubMethod {
    ident: Ident,
    name: String,
    is_async: bool,
    parameters: Vec<Parameter>,
    answer: ReturnKind,
}

impl HubMethod {
    fn read(function: &mut ImplItemFn, marks: MethodAttributes) -> Result<Self> {
        let ident = function.sig.ident.clone();
        let inputs = function.sig.inputs.iter().skip(1);
        let parameters = inputs.map(parameter).collect::<Result<_>>()?;
        let is_async = function.sig.asyncness.is_some();
        let answer = answer(&mut function.sig.output);
        if is_async && matches!(answer, ReturnKind::Stream | ReturnKind::TryStream) {
            let why = "a method that answers with a stream is not async: the stream is";
            return Err(Error::new_spanned(&function.sig, why));
        }
        Ok(Self {
            name: marks.name.unwrap_or_else(|| ident.to_string()),
            ident,
            is_async,
            parameters,
            answer,
        })
    }

    fn entry(&self, facade: &Path) -> TokenStream {
        let name = &self.name;
        let is_stream = matches!(self.answer, ReturnKind::Stream | ReturnKind::TryStream);
        let count = |is: fn(&&Parameter) -> bool| self.parameters.iter().filter(is).count();
        let arguments = count(|own| matches!(own, Parameter::Argument(_)));
        let uploads = count(|own| matches!(own, Parameter::Upload(_)));
        quote! {
            #facade::Method {
                name: #name,
                is_stream: #is_stream,
                arguments: #arguments,
                uploads: #uploads,
            }
        }
    }

    fn arm(&self, place: usize, facade: &Path) -> TokenStream {
        let names: Vec<_> = (0..self.parameters.len())
            .map(|number| quote::format_ident!("value_{number}"))
            .collect();
        let reads = self.parameters.iter().zip(&names).map(|(own, name)| {
            let read = match own {
                Parameter::Context => return quote!(let #name = &context;),
                Parameter::Argument(of) => quote!(call.argument::<#of>()),
                Parameter::Upload(of) => quote!(call.upload::<#of>()),
            };
            quote! {
                let #name = match #read {
                    ::std::result::Result::Ok(value) => value,
                    ::std::result::Result::Err(reply) => return reply,
                };
            }
        });
        let ident = &self.ident;
        let wait = self.is_async.then(|| quote!(.await));
        let reply = match self.answer {
            ReturnKind::Void => quote!({
                let () = answer;
                #facade::MethodResponse::Void
            }),
            ReturnKind::VoidResult => quote!(match answer {
                ::std::result::Result::Ok(()) => #facade::MethodResponse::Void,
                ::std::result::Result::Err(error) => {
                    #facade::MethodResponse::Failed(::std::convert::Into::into(error))
                }
            }),
            ReturnKind::Value => quote!(#facade::MethodResponse::value(protocol, &answer)),
            ReturnKind::Result => quote!(#facade::MethodResponse::result(protocol, answer)),
            ReturnKind::Stream => quote!(#facade::MethodResponse::stream(protocol, answer)),
            ReturnKind::TryStream => quote!(#facade::MethodResponse::try_stream(protocol, answer)),
        };
        quote! {
            #place => {
                #(#reads)*
                let answer = self.#ident(#(#names),*)#wait;
                #reply
            }
        }
    }
}

fn parameter(input: &FnArg) -> Result<Parameter> {
    let FnArg::Typed(input) = input else {
        return Err(Error::new_spanned(input, "a second receiver"));
    };
    if let Type::Reference(reference) = &*input.ty {
        return if last(&reference.elem).is_some_and(|(name, _)| name == "Context") {
            Ok(Parameter::Context)
        } else {
            Err(Error::new_spanned(
                input,
                "an argument is owned: only `&Context` is borrowed",
            ))
        };
    }
    match last(&input.ty) {
        Some((name, Some(of))) if name == "Upload" => Ok(Parameter::Upload(of.clone())),
        _ => Ok(Parameter::Argument((*input.ty).clone())),
    }
}

/// Classifies a method's return type. A stream must not borrow from the hub; the macro
/// adds that bound.
fn answer(output: &mut ReturnType) -> ReturnKind {
    let ReturnType::Type(_, returned) = output else {
        return ReturnKind::Void;
    };
    if let Type::ImplTrait(opaque) = &mut **returned {
        let is_captured = |own: &TypeParamBound| matches!(own, TypeParamBound::PreciseCapture(_));
        let may_fail = opaque.bounds.iter().any(has_results);
        if !opaque.bounds.iter().any(is_captured) {
            opaque.bounds.push(parse_quote!(Send));
            opaque.bounds.push(parse_quote!(use<>));
        }
        return if may_fail {
            ReturnKind::TryStream
        } else {
            ReturnKind::Stream
        };
    }
    match last(returned) {
        Some((name, of)) if name == "Result" || name == "HubResult" => {
            if of.is_some_and(is_unit) {
                ReturnKind::VoidResult
            } else {
                ReturnKind::Result
            }
        }
        Some((name, of)) if name == "BoxStream" => match of.and_then(last) {
            Some((name, _)) if name == "Result" || name == "HubResult" => ReturnKind::TryStream,
            _ => ReturnKind::Stream,
        },
        _ if is_unit(returned) => ReturnKind::Void,
        _ => ReturnKind::Value,
    }
}

/// Whether it is `Stream<Item = Result<..>>`.
fn has_results(bound: &TypeParamBound) -> bool {
    let TypeParamBound::Trait(bound) = bound else {
        return false;
    };
    let Some(segment) = bound.path.segments.last() else {
        return false;
    };
    let PathArguments::AngleBracketed(list) = &segment.arguments else {
        return false;
    };
    list.args.iter().any(|own| match own {
        GenericArgument::AssocType(own) if own.ident == "Item" => {
            last(&own.ty).is_some_and(|(name, _)| name == "Result" || name == "HubResult")
        }
        _ => false,
    })
}

/// The last name of a type's path, and the first type in its brackets.
fn last(of: &Type) -> Option<(String, Option<&Type>)> {
    let Type::Path(path) = of else {
        return None;
    };
    let segment = path.path.segments.last()?;
    let inner = match &segment.arguments {
        PathArguments::AngleBracketed(list) => list.args.iter().find_map(|own| match own {
            GenericArgument::Type(own) => Some(own),
            _ => None,
        }),
        _ => None,
    };
    Some((segment.ident.to_string(), inner))
}

fn is_unit(of: &Type) -> bool {
    matches!(of, Type::Tuple(tuple) if tuple.elems.is_empty())
}

fn connected(function: &ImplItemFn, facade: &Path) -> TokenStream {
    let ident = &function.sig.ident;
    let wait = function.sig.asyncness.is_some().then(|| quote!(.await));
    let done = done(function);
    quote! {
        fn on_connected(
            self: #facade::__private::Arc<Self>,
            context: #facade::Context,
        ) -> #facade::__private::BoxFuture<'static, #facade::HubResult<()>> {
            ::std::boxed::Box::pin(async move {
                let done = Self::#ident(&self, &context)#wait;
                #done
            })
        }
    }
}

fn disconnected(function: &ImplItemFn, facade: &Path) -> TokenStream {
    let ident = &function.sig.ident;
    let wait = function.sig.asyncness.is_some().then(|| quote!(.await));
    let done = done(function);
    quote! {
        fn on_disconnected(
            self: #facade::__private::Arc<Self>,
            context: #facade::Context,
            error: ::std::option::Option<::std::string::String>,
        ) -> #facade::__private::BoxFuture<'static, #facade::HubResult<()>> {
            ::std::boxed::Box::pin(async move {
                let done = Self::#ident(&self, &context, error)#wait;
                #done
            })
        }
    }
}

/// A hook may return nothing, or a result.
fn done(function: &ImplItemFn) -> TokenStream {
    match &function.sig.output {
        ReturnType::Type(_, of) if !is_unit(of) => {
            quote!(done.map_err(::std::convert::Into::into))
        }
        _ => quote!({
            let () = done;
            ::std::result::Result::Ok(())
        }),
    }
}
