//! Loads the module files of a crate from its root.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use syn::{Attribute, Item, ItemMod};

/// The names from the root of the crate to a module; empty for the root.
pub(crate) type ModulePath = Vec<String>;

/// A parsed file.
pub(crate) struct Source {
    pub(crate) file: PathBuf,
    pub(crate) path: ModulePath,
    pub(crate) syntax: syn::File,
}

/// The files of a crate, and which file holds each module.
#[derive(Default)]
pub(crate) struct Modules {
    pub(crate) sources: Vec<Source>,
    pub(crate) files: BTreeMap<ModulePath, PathBuf>,
}

impl Modules {
    /// Follows the `mod` lines from `lib.rs` or `main.rs`; modules for tests are left out.
    pub(crate) fn load(root: &Path) -> Result<Self> {
        let mut modules = Self::default();
        let folder = root.parent().unwrap_or(root).to_owned();
        modules.add_file(root.to_owned(), ModulePath::new(), &folder)?;
        Ok(modules)
    }

    fn add_file(&mut self, file: PathBuf, path: ModulePath, folder: &Path) -> Result<()> {
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("cannot read {}", file.display()))?;
        let syntax =
            syn::parse_file(&text).with_context(|| format!("cannot parse {}", file.display()))?;
        self.add_children(&syntax.items, &file, &path, folder)?;
        self.files.insert(path.clone(), file.clone());
        self.sources.push(Source { file, path, syntax });
        Ok(())
    }

    fn add_children(
        &mut self,
        items: &[Item],
        file: &Path,
        path: &[String],
        folder: &Path,
    ) -> Result<()> {
        for item in items {
            if let Item::Mod(module) = item
                && !is_for_tests(&module.attrs)
            {
                self.add_module(module, file, path, folder)?;
            }
        }
        Ok(())
    }

    fn add_module(
        &mut self,
        module: &ItemMod,
        file: &Path,
        parent: &[String],
        folder: &Path,
    ) -> Result<()> {
        let name = module.ident.to_string();
        let inner = folder.join(&name);
        let path = [parent, std::slice::from_ref(&name)].concat();
        if let Some((_, items)) = &module.content {
            self.files.insert(path.clone(), file.to_owned());
            return self.add_children(items, file, &path, &inner);
        }
        let candidates = [folder.join(format!("{name}.rs")), inner.join("mod.rs")];
        match candidates.into_iter().find(|found| found.is_file()) {
            Some(found) => self.add_file(found, path, &inner),
            None => bail!("{}: no file for `mod {name};`", file.display()),
        }
    }
}

/// Whether an item exists in tests only.
pub(crate) fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else {
            return attribute.path().is_ident("test");
        };
        let tokens = list.tokens.to_string();
        let all = tokens.replace(' ', "");
        list.path.is_ident("cfg") && (all == "test" || all.starts_with("all(test,"))
    })
}
