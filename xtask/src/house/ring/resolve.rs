//! Turns imports into arrows between files, looks for rings.
//!
//! A root that only declares and re-exports has no arrows of its own: who imports a name through
//! it gets an arrow to the file that the name comes from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use syn::Item;

use super::cycle::{self, Graph};
use super::imports::{self, Export, Import};
use super::modules::{ModulePath, Modules, Source, is_for_tests};
use crate::workspace::Workspace;

/// How many re-exports in a row are followed.
const DEPTH: usize = 16;

/// The rings in every library and binary of the workspace.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    let targets = workspace.packages.iter().flat_map(|found| &found.targets);
    for target in targets.filter(|target| target.is("lib") || target.is("bin")) {
        for ring in rings(&target.src_path)? {
            findings.push(show(&workspace.root, &ring));
        }
    }
    Ok(findings)
}

/// The rings of the crate with this root file.
fn rings(root: &Path) -> Result<Vec<Vec<PathBuf>>> {
    let modules = Modules::load(root)?;
    Ok(cycle::rings(&graph(&modules)))
}

fn show(root: &Path, ring: &[PathBuf]) -> String {
    ring.iter()
        .chain(ring.first())
        .map(|file| file.strip_prefix(root).unwrap_or(file).to_string_lossy())
        .collect::<Vec<_>>()
        .join(" -> ")
}

fn graph(modules: &Modules) -> Graph {
    let collected: Vec<_> = modules
        .sources
        .iter()
        .map(|source| (source, imports::collect(&source.syntax, &source.path)))
        .collect();
    let resolver = Resolver::new(modules, collected.iter().flat_map(|(_, imports)| imports));
    let mut graph = Graph::new();
    for (source, imports) in &collected {
        let targets = graph.entry(source.file.clone()).or_default();
        let pure = only_declares(source);
        for import in imports
            .iter()
            .filter(|import| !pure || import.export.is_none())
        {
            targets.extend(resolver.files(import));
        }
        targets.remove(&source.file);
    }
    graph
}

/// Whether a file holds nothing but `mod` and `use` lines.
fn only_declares(source: &Source) -> bool {
    source.syntax.items.iter().all(|item| match item {
        Item::Mod(module) => module.content.is_none() || is_for_tests(&module.attrs),
        Item::Use(_) | Item::ExternCrate(_) => true,
        _ => false,
    })
}

/// Knows which file a path leads to.
struct Resolver<'a> {
    modules: &'a Modules,
    /// Per module, the names it re-exports and where they come from.
    exports: BTreeMap<ModulePath, Vec<(Export, ModulePath)>>,
}

impl<'a> Resolver<'a> {
    fn new(modules: &'a Modules, imports: impl Iterator<Item = &'a Import>) -> Self {
        let mut exports: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for import in imports {
            let (Some(export), Some(path)) = (&import.export, absolute(modules, import)) else {
                continue;
            };
            let exported = exports.entry(import.scope.clone()).or_default();
            exported.push((export.clone(), path));
        }
        Self { modules, exports }
    }

    /// The files that an import leads to; none if it leaves the crate.
    fn files(&self, import: &Import) -> Vec<PathBuf> {
        match absolute(self.modules, import) {
            Some(path) => self.follow(&path, DEPTH),
            None => Vec::new(),
        }
    }

    fn follow(&self, path: &[String], depth: usize) -> Vec<PathBuf> {
        let Some((module, rest)) = self.split(path) else {
            return Vec::new();
        };
        let origins = match rest.first() {
            Some(name) if depth > 0 => self.origins(module, name),
            _ => Vec::new(),
        };
        if origins.is_empty() {
            return vec![self.modules.files[module].clone()];
        }
        origins
            .into_iter()
            .flat_map(|origin| self.follow(&[origin, &rest[1..]].concat(), depth - 1))
            .collect()
    }

    /// The deepest module on a path, and what is left.
    fn split<'p>(&self, path: &'p [String]) -> Option<(&'p [String], &'p [String])> {
        (0..=path.len())
            .rev()
            .map(|length| path.split_at(length))
            .find(|(module, _)| self.modules.files.contains_key(*module))
    }

    /// Where a module has a name from; without a line for the name, each `*` may be it.
    fn origins(&self, module: &[String], name: &str) -> Vec<&[String]> {
        let exports = self.exports.get(module).map_or(&[][..], Vec::as_slice);
        let matching = |wanted: &Export| {
            let found = exports.iter().filter(|(export, _)| export == wanted);
            found.map(|(_, path)| path.as_slice()).collect::<Vec<_>>()
        };
        let named = matching(&Export::Name(name.to_owned()));
        if named.is_empty() {
            return matching(&Export::Everything);
        }
        named
    }
}

/// A path from the root of the crate; nothing if it leads outside.
fn absolute(modules: &Modules, import: &Import) -> Option<ModulePath> {
    let mut base = import.scope.clone();
    let mut rest = import.segments.as_slice();
    match rest.first()?.as_str() {
        "crate" => {
            base.clear();
            rest = &rest[1..];
        }
        "self" => rest = &rest[1..],
        "super" => {}
        child => {
            let path = [base.as_slice(), &[child.to_owned()]].concat();
            modules.files.get(&path)?;
        }
    }
    while rest.first().is_some_and(|part| part == "super") {
        base.pop()?;
        rest = &rest[1..];
    }
    base.extend_from_slice(rest);
    Some(base)
}

#[cfg(test)]
mod tests;
