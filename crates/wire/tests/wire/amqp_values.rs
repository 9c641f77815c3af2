//! Values of the AMQP type system survive writing.

use proptest::prelude::*;
use steadfast_core::limits;
use steadfast_wire::amqp::scan::EncodedValue;
use steadfast_wire::amqp::value::{self, AmqpValue, ItemReader};
use steadfast_wire::amqp::write;

/// A value that owns what it holds.
#[derive(Clone, Debug, PartialEq)]
enum Tree {
    Null,
    Bool(bool),
    Ubyte(u8),
    Ushort(u16),
    Uint(u32),
    Ulong(u64),
    Byte(i8),
    Short(i16),
    Int(i32),
    Long(i64),
    Float(u32),
    Double(u64),
    Char(u32),
    Timestamp(i64),
    Uuid([u8; 16]),
    Binary(Vec<u8>),
    String(String),
    Symbol(String),
    Strings(Vec<String>),
    List(Vec<Tree>),
    Map(Vec<(Tree, Tree)>),
    Described(u64, Box<Tree>),
}

fn any_tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        Just(Tree::Null),
        any::<bool>().prop_map(Tree::Bool),
        any::<u8>().prop_map(Tree::Ubyte),
        any::<u16>().prop_map(Tree::Ushort),
        prop_oneof![any::<u32>(), 0..300u32].prop_map(Tree::Uint),
        prop_oneof![any::<u64>(), 0..300u64].prop_map(Tree::Ulong),
        any::<i8>().prop_map(Tree::Byte),
        any::<i16>().prop_map(Tree::Short),
        prop_oneof![any::<i32>(), -200..200i32].prop_map(Tree::Int),
        prop_oneof![any::<i64>(), -200..200i64].prop_map(Tree::Long),
        any::<u32>().prop_map(Tree::Float),
        any::<u64>().prop_map(Tree::Double),
        any::<u32>().prop_map(Tree::Char),
        any::<i64>().prop_map(Tree::Timestamp),
        any::<[u8; 16]>().prop_map(Tree::Uuid),
        proptest::collection::vec(any::<u8>(), 0..400).prop_map(Tree::Binary),
        ".{0,90}".prop_map(Tree::String),
        "[a-z:.-]{0,300}".prop_map(Tree::Symbol),
        proptest::collection::vec(".{0,8}", 0..9).prop_map(Tree::Strings),
    ];
    leaf.prop_recursive(4, 64, 8, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..8).prop_map(Tree::List),
            proptest::collection::vec((inner.clone(), inner.clone()), 0..5).prop_map(Tree::Map),
            (any::<u64>(), inner).prop_map(|(code, tree)| Tree::Described(code, Box::new(tree))),
        ]
    })
}

fn put(out: &mut Vec<u8>, tree: &Tree) {
    match tree {
        Tree::Null => write::null(out),
        Tree::Bool(value) => write::boolean(out, *value),
        Tree::Ubyte(value) => write::ubyte(out, *value),
        Tree::Ushort(value) => write::ushort(out, *value),
        Tree::Uint(value) => write::uint(out, *value),
        Tree::Ulong(value) => write::ulong(out, *value),
        Tree::Byte(value) => write::byte(out, *value),
        Tree::Short(value) => write::short(out, *value),
        Tree::Int(value) => write::int(out, *value),
        Tree::Long(value) => write::long(out, *value),
        Tree::Float(bits) => write::float(out, *bits),
        Tree::Double(bits) => write::double(out, *bits),
        Tree::Char(value) => write::char(out, *value),
        Tree::Timestamp(ms) => write::timestamp(out, *ms),
        Tree::Uuid(bytes) => write::uuid(out, bytes),
        Tree::Binary(bytes) => write::binary(out, bytes),
        Tree::String(text) => write::string(out, text),
        Tree::Symbol(text) => write::symbol(out, text),
        Tree::Strings(texts) => write::array_of_strings(out, texts.iter().map(String::as_str)),
        Tree::List(items) => write::list(out, items.len() as u32, |out| {
            items.iter().for_each(|item| put(out, item));
        }),
        Tree::Map(pairs) => write::map(out, pairs.len() as u32, |out| {
            for (key, item) in pairs {
                put(out, key);
                put(out, item);
            }
        }),
        Tree::Described(code, tree) => {
            write::descriptor(out, *code);
            put(out, tree);
        }
    }
}

fn all(mut items: ItemReader<'_>) -> Vec<Tree> {
    let trees = (0..items.count())
        .map(|_| get(items.next().expect("an item")))
        .collect();
    items.end().expect("nothing behind the items");
    trees
}

fn get(value: AmqpValue<'_>) -> Tree {
    match value {
        AmqpValue::Null => Tree::Null,
        AmqpValue::Bool(value) => Tree::Bool(value),
        AmqpValue::Ubyte(value) => Tree::Ubyte(value),
        AmqpValue::Ushort(value) => Tree::Ushort(value),
        AmqpValue::Uint(value) => Tree::Uint(value),
        AmqpValue::Ulong(value) => Tree::Ulong(value),
        AmqpValue::Byte(value) => Tree::Byte(value),
        AmqpValue::Short(value) => Tree::Short(value),
        AmqpValue::Int(value) => Tree::Int(value),
        AmqpValue::Long(value) => Tree::Long(value),
        AmqpValue::Float(bits) => Tree::Float(bits),
        AmqpValue::Double(bits) => Tree::Double(bits),
        AmqpValue::Decimal(_) => panic!("none was written"),
        AmqpValue::Char(value) => Tree::Char(value),
        AmqpValue::Timestamp(ms) => Tree::Timestamp(ms),
        AmqpValue::Uuid(bytes) => Tree::Uuid(bytes),
        AmqpValue::Binary(bytes) => Tree::Binary(bytes.to_vec()),
        AmqpValue::String(text) => Tree::String(text.to_owned()),
        AmqpValue::Symbol(text) => Tree::Symbol(text.to_owned()),
        AmqpValue::List(items) => Tree::List(all(items)),
        AmqpValue::Map(items) => {
            let flat = all(items);
            let pairs = flat
                .chunks(2)
                .map(|pair| (pair[0].clone(), pair[1].clone()));
            Tree::Map(pairs.collect())
        }
        AmqpValue::Array(array) => Tree::Strings(
            array
                .map(|item| {
                    item.expect("an element")
                        .as_text()
                        .expect("a text")
                        .to_owned()
                })
                .collect(),
        ),
        AmqpValue::Described(descriptor, raw) => Tree::Described(
            descriptor.number().expect("a number"),
            Box::new(get(raw.value().expect("a value"))),
        ),
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(tree in any_tree()) {
        let mut bytes = Vec::new();
        put(&mut bytes, &tree);
        let raw = EncodedValue::new(&bytes).expect("one value");
        prop_assert_eq!(raw.bytes().len(), bytes.len());
        prop_assert_eq!(get(raw.value().expect("a value")), tree);
        value::check(raw).expect("well formed");
    }

    #[test]
    fn a_value_that_is_cut_short_is_refused(tree in any_tree(), cut in any::<prop::sample::Index>()) {
        let mut bytes = Vec::new();
        put(&mut bytes, &tree);
        let shorter = &bytes[..cut.index(bytes.len())];
        prop_assert!(EncodedValue::new(shorter).is_err());
    }
}

/// Every width in which the specification lets a value be written.
#[test]
fn all_encodings_of_a_value_are_read() {
    let cases: [(&[u8], AmqpValue<'_>); 14] = [
        (&[0x56, 0x01], AmqpValue::Bool(true)),
        (&[0x43], AmqpValue::Uint(0)),
        (&[0x52, 7], AmqpValue::Uint(7)),
        (&[0x70, 0, 0, 0, 7], AmqpValue::Uint(7)),
        (&[0x44], AmqpValue::Ulong(0)),
        (&[0x80, 0, 0, 0, 0, 0, 0, 0, 7], AmqpValue::Ulong(7)),
        (&[0x55, 0xff], AmqpValue::Long(-1)),
        (&[0x81, 0, 0, 0, 0, 0, 0, 0, 7], AmqpValue::Long(7)),
        (&[0x71, 0xff, 0xff, 0xff, 0xff], AmqpValue::Int(-1)),
        (&[0xb1, 0, 0, 0, 2, b'a', b'b'], AmqpValue::String("ab")),
        (&[0xb3, 0, 0, 0, 1, b'a'], AmqpValue::Symbol("a")),
        (&[0xb0, 0, 0, 0, 1, 9], AmqpValue::Binary(&[9])),
        (&[0x74, 1, 2, 3, 4], AmqpValue::Decimal(&[1, 2, 3, 4])),
        (&[0x45], AmqpValue::List(ItemReader::EMPTY)),
    ];
    for (bytes, expected) in cases {
        let raw = EncodedValue::new(bytes).expect("one value");
        assert_eq!(raw.value().expect("a value"), expected);
    }
}

#[test]
fn nesting_without_end_is_refused() {
    let mut lists = vec![0x45];
    for _ in 0..100 {
        let mut outer = Vec::new();
        write::list(&mut outer, 1, |out| out.extend_from_slice(&lists));
        lists = outer;
    }
    let raw = EncodedValue::new(&lists).expect("sizes fit");
    assert!(value::check(raw).is_err());

    // Descriptors in a row before a value.
    let described =
        |count: usize| [&[[0x00, 0x53, 0x01]].repeat(count).concat()[..], &[0x40]].concat();
    assert!(EncodedValue::new(&described(limits::AMQP_DEPTH)).is_ok());
    assert!(EncodedValue::new(&described(limits::AMQP_DEPTH + 1)).is_err());
    assert!(EncodedValue::new(&described(1000)).is_err());
}

#[test]
fn bytes_behind_a_value_are_refused() {
    assert!(EncodedValue::new(&[0x43]).is_ok());
    assert!(EncodedValue::new(&[0x43, 0x43]).is_err());
}

#[test]
fn a_claimed_count_costs_nothing() {
    // A billion elements without bytes, and a list of four billion items in five bytes.
    let nulls = [0xf0, 0, 0, 0, 5, 0x40, 0, 0, 0, 0x40];
    assert!(
        EncodedValue::new(&nulls)
            .expect("sizes fit")
            .value()
            .is_err()
    );
    let list = [0xd0, 0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff, 0x40];
    let raw = EncodedValue::new(&list).expect("sizes fit");
    assert!(value::check(raw).is_err());
}
