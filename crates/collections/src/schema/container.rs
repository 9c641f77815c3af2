//! Records that hold other records: options, lists, maps.
//!
//! A map is written in the order of its keys, whatever its type, so that equal
//! maps have equal bytes; a key that comes twice is refused on reading.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::BuildHasher;
use std::sync::Arc;

use crate::schema::cbor::{CborReader, CborWriter};
use crate::schema::error::{Error, Result};
use crate::schema::key::Key;
use crate::schema::record::{Record, Seal};

impl<T: Record> Record for Option<T> {
    const VERSION: u32 = T::VERSION;
    const NULLABLE: bool = true;

    fn __seal() -> Seal {
        const {
            assert!(
                !T::NULLABLE,
                "an option of an option cannot be stored: use a record or an enum"
            );
        }
        Seal::by_derive()
    }

    fn type_name() -> String {
        format!("option<{}>", T::type_name())
    }

    fn encode(&self, to: &mut CborWriter) {
        let Seal { .. } = Self::__seal();
        match self {
            Some(value) => value.encode(to),
            None => to.null(),
        }
    }

    fn decode(from: &mut CborReader<'_>) -> Result<Self> {
        if from.take_null()? {
            return Ok(None);
        }
        T::decode(from).map(Some)
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }

    fn missing() -> Option<Self> {
        Some(None)
    }

    fn inherit(&mut self, old: &Self) {
        if let (Some(new), Some(old)) = (self, old) {
            new.inherit(old);
        }
    }
}

impl<T: Record> Record for Vec<T> {
    const VERSION: u32 = T::VERSION;

    fn __seal() -> Seal {
        Seal::by_derive()
    }

    fn type_name() -> String {
        T::list_name()
    }

    fn encode(&self, to: &mut CborWriter) {
        T::encode_list(self, to);
    }

    fn decode(from: &mut CborReader<'_>) -> Result<Self> {
        T::decode_list(from)
    }
}

macro_rules! pointers {
    ($($pointer:ident, $inherit:expr;)*) => {$(
        impl<T: Record> Record for $pointer<T> {
            const NULLABLE: bool = T::NULLABLE;

            fn __seal() -> Seal {
                Seal::by_derive()
            }

            fn type_name() -> String {
                T::type_name()
            }

            fn encode(&self, to: &mut CborWriter) {
                T::encode(self, to);
            }

            fn decode(from: &mut CborReader<'_>) -> Result<Self> {
                T::decode(from).map($pointer::new)
            }

            fn is_absent(&self) -> bool {
                T::is_absent(self)
            }

            fn missing() -> Option<Self> {
                T::missing().map($pointer::new)
            }

            fn inherit(&mut self, old: &Self) {
                let inherit: fn(&mut Self, &Self) = $inherit;
                inherit(self, old);
            }
        }
    )*};
}

pointers! {
    Box, |new, old| T::inherit(new, old);
    // A shared value cannot be changed; it was read or built as a whole.
    Arc, |new, old| {
        if let Some(new) = Arc::get_mut(new) {
            T::inherit(new, old);
        }
    };
}

impl<K: Key> Record for BTreeSet<K> {
    fn __seal() -> Seal {
        Seal::by_derive()
    }

    fn type_name() -> String {
        format!("set<{}>", K::type_name())
    }

    fn encode(&self, to: &mut CborWriter) {
        if !to.enter() {
            return;
        }
        to.array(self.len());
        for key in self {
            key.encode(to);
        }
        to.leave();
    }

    fn decode(from: &mut CborReader<'_>) -> Result<Self> {
        from.nested(|from| {
            let mut set = Self::new();
            for _ in 0..from.array()? {
                if !set.insert(K::decode(from)?) {
                    return Err(Error::malformed("an element of a set comes twice"));
                }
            }
            Ok(set)
        })
    }
}

fn map_name<K: Key, V: Record>() -> String {
    format!("map<{}, {}>", K::type_name(), V::type_name())
}

fn encode_map<'a, K: Key, V: Record>(
    pairs: impl ExactSizeIterator<Item = (&'a K, &'a V)>,
    to: &mut CborWriter,
) {
    if !to.enter() {
        return;
    }
    to.map(pairs.len());
    for (key, value) in pairs {
        key.encode(to);
        value.encode(to);
    }
    to.leave();
}

fn decode_map<K: Key, V: Record>(
    from: &mut CborReader<'_>,
    mut insert: impl FnMut(K, V) -> Option<V>,
) -> Result<()> {
    from.nested(|from| {
        for _ in 0..from.map()? {
            let key = K::decode(from)?;
            if insert(key, V::decode(from)?).is_some() {
                return Err(Error::malformed("a key of a map comes twice"));
            }
        }
        Ok(())
    })
}

impl<K: Key, V: Record> Record for BTreeMap<K, V> {
    fn __seal() -> Seal {
        Seal::by_derive()
    }

    fn type_name() -> String {
        map_name::<K, V>()
    }

    fn encode(&self, to: &mut CborWriter) {
        encode_map(self.iter(), to);
    }

    fn decode(from: &mut CborReader<'_>) -> Result<Self> {
        let mut map = Self::new();
        decode_map(from, |key, value| map.insert(key, value))?;
        Ok(map)
    }

    fn inherit(&mut self, old: &Self) {
        for (key, value) in self {
            if let Some(old) = old.get(key) {
                value.inherit(old);
            }
        }
    }
}

impl<K: Key, V: Record, S: BuildHasher + Default + Send + Sync + 'static> Record
    for HashMap<K, V, S>
{
    fn __seal() -> Seal {
        Seal::by_derive()
    }

    fn type_name() -> String {
        map_name::<K, V>()
    }

    fn encode(&self, to: &mut CborWriter) {
        let mut pairs: Vec<_> = self.iter().collect();
        pairs.sort_unstable_by_key(|&(key, _)| key);
        encode_map(pairs.into_iter(), to);
    }

    fn decode(from: &mut CborReader<'_>) -> Result<Self> {
        let mut map = Self::default();
        decode_map(from, |key, value| map.insert(key, value))?;
        Ok(map)
    }

    fn inherit(&mut self, old: &Self) {
        for (key, value) in self {
            if let Some(old) = old.get(key) {
                value.inherit(old);
            }
        }
    }
}
