//! Rings and trees in planted crates.

use crate::house::tree::planted;

/// The rings of a crate with these files, `lib.rs` first.
fn found(files: &[(&str, &str)]) -> Vec<String> {
    let (folder, _) = planted(files);
    let rings = super::rings(&folder.path().join(files[0].0)).unwrap();
    let show = |ring: &Vec<_>| super::show(folder.path(), ring);
    rings.iter().map(show).collect()
}

#[test]
fn two_files_in_a_ring() {
    let rings = found(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use crate::b::B; pub struct A(B);"),
        ("b.rs", "pub struct B; impl B { fn f(_: super::a::A) {} }"),
    ]);
    assert_eq!(rings, ["a.rs -> b.rs -> a.rs"]);
}

#[test]
fn a_tree_is_fine() {
    let rings = found(&[
        (
            "lib.rs",
            "mod a; mod b; pub mod c; pub use a::A; pub use c::*;",
        ),
        (
            "a.rs",
            "use crate::b::B; use crate::c::d::D; pub struct A(B, D);",
        ),
        (
            "b.rs",
            "use std::fs; pub struct B; #[cfg(test)] mod tests { use crate::a::A; }",
        ),
        ("c/mod.rs", "pub mod d; mod e; pub use d::D;"),
        (
            "c/d.rs",
            "use crate::b::B; use super::e::E; pub struct D(B, E);",
        ),
        ("c/e.rs", "pub struct E;"),
    ]);
    assert!(rings.is_empty(), "{rings:?}");
}

#[test]
fn a_ring_through_a_root_that_only_re_exports() {
    let rings = found(&[
        ("lib.rs", "mod a; mod b; pub use a::A; pub use b::*;"),
        ("a.rs", "use crate::B; pub struct A(B);"),
        ("b.rs", "pub struct B; fn f(_: crate::A) {}"),
    ]);
    assert_eq!(rings, ["a.rs -> b.rs -> a.rs"]);
}

#[test]
fn a_root_with_code_is_a_file_like_others() {
    let rings = found(&[
        ("lib.rs", "mod a; pub use a::A; pub const LIMIT: u8 = 1;"),
        ("a.rs", "pub struct A([u8; crate::LIMIT as usize]);"),
    ]);
    assert_eq!(rings, ["a.rs -> lib.rs -> a.rs"]);
}

#[test]
fn a_parent_and_its_child() {
    let parent = "mod inner; use inner::I; pub struct P(I);";
    let child = "pub struct I; fn f(_: super::P) {}";
    let files = [
        ("lib.rs", "mod p;"),
        ("p.rs", parent),
        ("p/inner.rs", child),
    ];
    assert_eq!(found(&files), ["p/inner.rs -> p.rs -> p/inner.rs"]);
}

#[test]
fn paths_to_children_without_crate_count() {
    let rings = found(&[
        ("main.rs", "mod a; fn main() { a::run(); } pub fn help() {}"),
        ("a.rs", "pub fn run() { vec![crate::help()]; }"),
    ]);
    assert_eq!(rings, ["a.rs -> main.rs -> a.rs"]);
}

#[test]
fn a_missing_file_is_an_error() {
    let (folder, _) = planted(&[("lib.rs", "mod a;")]);
    let error = super::rings(&folder.path().join("lib.rs")).unwrap_err();
    assert!(error.to_string().ends_with("no file for `mod a;`"));
}
