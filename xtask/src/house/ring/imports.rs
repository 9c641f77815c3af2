//! Collects the paths that a file names.

use syn::visit::{self, Visit};
use syn::{
    Attribute, ImplItem, Item, ItemMod, ItemUse, Macro, Path, UseTree, VisRestricted, Visibility,
};

use super::modules::{ModulePath, is_for_tests};

/// A path as written, and the module where it stands.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Import {
    pub(crate) scope: ModulePath,
    pub(crate) segments: Vec<String>,
    /// What a `pub use` makes of it.
    pub(crate) export: Option<Export>,
}

/// How a re-exported path is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Export {
    Name(String),
    Everything,
}

/// Every path with two names or more, outside of tests.
pub(crate) fn collect(syntax: &syn::File, path: &[String]) -> Vec<Import> {
    let mut collector = Collector {
        scope: path.to_vec(),
        imports: Vec::new(),
    };
    collector.visit_file(syntax);
    collector.imports
}

struct Collector {
    scope: ModulePath,
    imports: Vec<Import>,
}

impl Collector {
    fn add(&mut self, segments: Vec<String>, export: Option<Export>) {
        self.imports.push(Import {
            scope: self.scope.clone(),
            segments,
            export,
        });
    }

    fn add_use(&mut self, item: &ItemUse) {
        let is_export = !matches!(item.vis, Visibility::Inherited);
        for (segments, name) in flatten(&item.tree, &[]) {
            self.add(segments, is_export.then_some(name));
        }
    }

    fn enter(&mut self, module: &ItemMod) {
        self.scope.push(module.ident.to_string());
        visit::visit_item_mod(self, module);
        self.scope.pop();
    }
}

impl<'ast> Visit<'ast> for Collector {
    fn visit_item(&mut self, item: &'ast Item) {
        if is_for_tests(attributes(item)) {
            return;
        }
        match item {
            Item::Use(item) => self.add_use(item),
            Item::Mod(item) => self.enter(item),
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        if !matches!(item, ImplItem::Fn(function) if is_for_tests(&function.attrs)) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast Path) {
        if path.leading_colon.is_none() && path.segments.len() > 1 {
            let names = path.segments.iter().map(|part| part.ident.to_string());
            self.add(names.collect(), None);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        for segments in paths_in_tokens(&call.tokens.to_string()) {
            self.add(segments, None);
        }
        visit::visit_macro(self, call);
    }

    fn visit_vis_restricted(&mut self, _: &'ast VisRestricted) {}
}

/// The paths below a `use`, each with the name it gets.
fn flatten(tree: &UseTree, before: &[String]) -> Vec<(Vec<String>, Export)> {
    let with = |name: String| [before, &[name]].concat();
    match tree {
        UseTree::Path(path) => flatten(&path.tree, &with(path.ident.to_string())),
        UseTree::Group(group) => {
            let paths = group.items.iter().flat_map(|item| flatten(item, before));
            paths.collect()
        }
        UseTree::Glob(_) => vec![(before.to_vec(), Export::Everything)],
        UseTree::Name(name) if name.ident == "self" => {
            let last = before.last().cloned().unwrap_or_default();
            vec![(before.to_vec(), Export::Name(last))]
        }
        UseTree::Name(name) => {
            let name = name.ident.to_string();
            vec![(with(name.clone()), Export::Name(name))]
        }
        UseTree::Rename(rename) => {
            let name = Export::Name(rename.rename.to_string());
            vec![(with(rename.ident.to_string()), name)]
        }
    }
}

/// The paths in the arguments of a macro that begin with `crate` or `super`.
fn paths_in_tokens(tokens: &str) -> Vec<Vec<String>> {
    let words = words(tokens);
    let begins = |at: usize| {
        matches!(words[at].as_str(), "crate" | "super") && (at == 0 || words[at - 1] != "::")
    };
    (0..words.len())
        .filter(|at| begins(*at))
        .map(|at| path_at(&words[at..]))
        .filter(|path| path.len() > 1)
        .collect()
}

/// The names joined by `::` at the beginning of a list of words.
fn path_at(words: &[String]) -> Vec<String> {
    let mut path = vec![words[0].clone()];
    for pair in words[1..].chunks(2) {
        match pair {
            [joint, name] if joint == "::" && is_name(name) => path.push(name.clone()),
            _ => break,
        }
    }
    path
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Names, `::` and single other characters; text in quotes is left out.
fn words(tokens: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = tokens.trim_start();
    while let Some(first) = rest.chars().next() {
        let in_name = |c: char| c.is_alphanumeric() || c == '_';
        let length = if first == '"' {
            quoted_length(rest)
        } else if rest.starts_with("::") {
            2
        } else if in_name(first) {
            rest.find(|c| !in_name(c)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        if first != '"' {
            words.push(rest[..length].to_owned());
        }
        rest = rest[length..].trim_start();
    }
    words
}

/// The length of a string literal with both quotes.
fn quoted_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '"' if !escaped => return at + 1,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let syntax = syn::parse_file(text).unwrap();
        let imports = collect(&syntax, &["here".to_owned()]);
        let show = |import: &Import| {
            let scope = import.scope.join("::");
            format!("{scope}: {}", import.segments.join("::"))
        };
        imports.iter().map(show).collect()
    }

    #[test]
    fn groups_and_globs_are_flattened() {
        let text = "use crate::a::{self, b::C as D, e::*}; mod inner { use super::f; }";
        let expected = [
            "here: crate::a",
            "here: crate::a::b::C",
            "here: crate::a::e",
            "here::inner: super::f",
        ];
        assert_eq!(found(text), expected);
    }

    #[test]
    fn paths_in_types_code_and_macros() {
        let text = r#"
            pub(in crate::hidden) fn f(x: crate::a::A) -> u8 {
                println!("crate::no {} \" crate::no", crate::b::C::new(super::d));
                crate::e::f()
            }
        "#;
        let expected = [
            "here: crate::a::A",
            "here: crate::b::C::new",
            "here: super::d",
            "here: crate::e::f",
        ];
        assert_eq!(found(text), expected);
    }

    #[test]
    fn tests_are_left_out() {
        let text = "
            #[cfg(test)] use crate::a::A;
            #[cfg(test)] mod tests { use crate::b::B; }
            #[cfg(all(test, unix))] fn f() { crate::c::d() }
            struct S; impl S { #[cfg(test)] fn f() { crate::d::e() } }
        ";
        assert!(found(text).is_empty());
    }
}
