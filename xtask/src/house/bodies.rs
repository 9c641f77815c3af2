//! No handler of a route reads a body outside of the frame.
//!
//! The frame asks for the key first, then looks at the length, and then reads in time
//! and within the room of all bodies. An extractor of axum that takes the body would do
//! so before the key. Handlers of the REST interface may take JSON: the interface has
//! read it by then, and is the only file there that makes routes.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};
use syn::visit::{self, Visit};
use syn::{
    Attribute, Expr, ExprCall, ExprClosure, ExprMethodCall, FnArg, GenericArgument, Item, Pat,
    PatType, PathArguments, Signature, Type,
};

use super::tree::Tree;

/// Types that are a body, wherever a function takes them beside other parts of a request.
const TEXTS: [&str; 2] = ["Bytes", "String"];

/// Types that are always a body.
const FORMS: [&str; 4] = ["Json", "Form", "Multipart", "RawForm"];

/// What handlers take apart in their parameters.
const PARTS: [&str; 8] = [
    "State",
    "Path",
    "Query",
    "RawQuery",
    "Extension",
    "ConnectInfo",
    "OriginalUri",
    "MatchedPath",
];

/// Calls whose argument is a handler.
const ROUTES: [&str; 10] = [
    "get", "post", "put", "patch", "delete", "head", "options", "any", "on", "fallback",
];

const REST: &str = "crates/admin/src";

/// The handlers that take a body.
pub(crate) fn check(tree: &Tree) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        let is_source = file.components().any(|part| part.as_os_str() == "src");
        let text = tree.text(file)?.filter(|text| text.contains("axum"));
        let Some(text) = text.filter(|_| is_source && file.starts_with("crates")) else {
            continue;
        };
        let syntax = syn::parse_file(&text);
        let syntax = syntax.with_context(|| format!("cannot read {}", file.display()))?;
        findings.extend(found(file, &syntax));
    }
    Ok(findings)
}

fn found(file: &Path, syntax: &syn::File) -> Vec<String> {
    let mut names = Handlers::default();
    names.visit_file(syntax);
    let is_rest = file.starts_with(REST);
    let mut finder = Finder {
        handlers: names.0,
        is_rest,
        makes_routes: false,
        found: Vec::new(),
    };
    finder.visit_file(syntax);
    let mut found = finder.found;
    if is_rest && finder.makes_routes && !file.ends_with("interface.rs") {
        found.push("makes a route beside the interface".to_owned());
    }
    let name = |what: String| format!("{}: {what}", file.display());
    found.into_iter().map(name).collect()
}

/// The names of functions that are given to routes.
#[derive(Default)]
struct Handlers(BTreeSet<String>);

impl Handlers {
    fn add<'a>(&mut self, name: &str, arguments: impl Iterator<Item = &'a Expr>) {
        if !ROUTES.contains(&name) {
            return;
        }
        for argument in arguments {
            if let Expr::Path(path) = argument {
                self.0.extend(last(&path.path));
            }
        }
    }
}

impl<'ast> Visit<'ast> for Handlers {
    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        if let Expr::Path(path) = &*call.func {
            let name = last(&path.path).unwrap_or_default();
            self.add(&name, call.args.iter());
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        self.add(&call.method.to_string(), call.args.iter());
        visit::visit_expr_method_call(self, call);
    }
}

struct Finder {
    handlers: BTreeSet<String>,
    is_rest: bool,
    makes_routes: bool,
    found: Vec<String>,
}

impl Finder {
    fn look(&mut self, name: &str, is_handler: bool, parameters: &[&PatType]) {
        let is_handler = is_handler || parameters.iter().any(|own| is_part(&own.pat));
        for parameter in parameters {
            let (inner, is_result) = inner(&parameter.ty);
            let is_form = FORMS.contains(&inner.as_str());
            let is_text = is_handler && TEXTS.contains(&inner.as_str());
            let is_read = self.is_rest && is_result && inner == "Json";
            if (is_form || is_text) && !is_read {
                self.found.push(format!("{name} takes a body as {inner}"));
            }
        }
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes: &[Attribute] = match item {
            Item::Fn(own) => &own.attrs,
            Item::Mod(own) => &own.attrs,
            _ => &[],
        };
        if !attributes.iter().any(is_for_tests) {
            visit::visit_item(self, item);
        }
    }

    fn visit_signature(&mut self, signature: &'ast Signature) {
        let name = signature.ident.to_string();
        let typed = |argument: &'ast FnArg| match argument {
            FnArg::Typed(typed) => Some(typed),
            FnArg::Receiver(_) => None,
        };
        let parameters: Vec<_> = signature.inputs.iter().filter_map(typed).collect();
        let is_handler = self.handlers.contains(&name);
        self.look(&name, is_handler, &parameters);
    }

    fn visit_expr_closure(&mut self, closure: &'ast ExprClosure) {
        let typed = |pattern: &'ast Pat| match pattern {
            Pat::Type(typed) => Some(typed),
            _ => None,
        };
        let parameters: Vec<_> = closure.inputs.iter().filter_map(typed).collect();
        self.look("a closure", false, &parameters);
        visit::visit_expr_closure(self, closure);
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        self.makes_routes |= call.method == "route";
        visit::visit_expr_method_call(self, call);
    }
}

fn last(path: &syn::Path) -> Option<String> {
    path.segments.last().map(|own| own.ident.to_string())
}

/// Whether a parameter takes a part of a request apart.
fn is_part(pattern: &Pat) -> bool {
    let Pat::TupleStruct(pattern) = pattern else {
        return false;
    };
    last(&pattern.path).is_some_and(|own| PARTS.contains(&own.as_str()))
}

/// The name of a type, or of what a result or an option of it holds; and whether it is
/// a result.
fn inner(own: &Type) -> (String, bool) {
    let Type::Path(own) = own else {
        return (String::new(), false);
    };
    let Some(segment) = own.path.segments.last() else {
        return (String::new(), false);
    };
    let name = segment.ident.to_string();
    let is_result = name == "Result";
    if let PathArguments::AngleBracketed(arguments) = &segment.arguments
        && (is_result || name == "Option")
        && let Some(GenericArgument::Type(held)) = arguments.args.first()
    {
        return (inner(held).0, is_result);
    }
    (name, false)
}

fn is_for_tests(attribute: &Attribute) -> bool {
    let syn::Meta::List(list) = &attribute.meta else {
        return attribute.path().is_ident("test");
    };
    list.path.is_ident("cfg") && list.tokens.to_string() == "test"
}

#[cfg(test)]
mod tests {
    use super::super::tree::planted;
    use super::*;

    fn findings(file: &str, text: &str) -> Vec<String> {
        let text = format!("use axum::Router;\n{text}");
        let (_folder, tree) = planted(&[(file, &text)]);
        check(&tree).unwrap()
    }

    const ROUTES: &str = "crates/eventhubs/src/publish/routes.rs";
    const STATE: &str = "crates/admin/src/state.rs";

    #[test]
    fn each_extractor_of_a_body_is_found() {
        for (text, expected) in [
            (
                "async fn put(State(s): State<S>, body: Bytes) {}",
                "put takes a body as Bytes",
            ),
            (
                "async fn put(Json(a): Json<A>) {}",
                "put takes a body as Json",
            ),
            (
                "async fn put(a: axum::Json<A>) {}",
                "put takes a body as Json",
            ),
            (
                "async fn put(a: Option<Form<A>>) {}",
                "put takes a body as Form",
            ),
            (
                "async fn put(a: Result<Json<A>, JsonRejection>) {}",
                "put takes a body as Json",
            ),
            (
                "fn r() { Router::new().route(\"/\", post(put)); }\nasync fn put(text: String) {}",
                "put takes a body as String",
            ),
            (
                "fn r() { on(m, async move |Path(p): Path<String>, b: Bytes| {}); }",
                "a closure takes a body as Bytes",
            ),
        ] {
            let expected = format!("{ROUTES}: {expected}");
            assert_eq!(findings(ROUTES, text), [expected], "{text}");
        }
    }

    #[test]
    fn the_interface_reads_json_for_its_handlers_and_makes_all_routes() {
        let taken = "async fn put(Path(a): Path<A>, b: Result<Json<B>, JsonRejection>) {}";
        assert_eq!(findings(STATE, taken), [""; 0]);
        let early = "async fn put(Path(a): Path<A>, Json(b): Json<B>) {}";
        assert_eq!(findings(STATE, early).len(), 1);
        let beside = "fn r() { Router::new().route(\"/x\", post(put)); }";
        let expected = format!("{STATE}: makes a route beside the interface");
        assert_eq!(findings(STATE, beside), [expected]);
        let own = "crates/admin/src/interface.rs";
        assert_eq!(findings(own, beside), [""; 0]);
    }

    #[test]
    fn what_is_no_handler_or_takes_no_body_is_left_alone() {
        for text in [
            "async fn get(State(s): State<S>, Path(name): Path<String>, r: Request) {}",
            "fn part(text: String, bytes: Bytes) -> Json<A> { Json(text) }",
            "#[cfg(test)] mod tests { async fn put(Json(a): Json<A>) {} }",
        ] {
            assert_eq!(findings(ROUTES, text), [""; 0], "{text}");
        }
        let test = "async fn put(Json(a): Json<A>) {}";
        assert_eq!(findings("crates/net/tests/a.rs", test), [""; 0]);
    }
}
