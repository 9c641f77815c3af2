//! Enumerating and counting a dictionary.
//!
//! All reads here see the transaction's one snapshot and its own changes, in ascending
//! order of the keys. A cursor does not borrow the transaction: other operations may come
//! between two pages, and later pages contain their changes.

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use bytes::Bytes;
use steadfast_core::id::{Lsn, TableId};

use crate::dictionary::Dictionary;
use crate::error::{Error, Result};
use crate::lock::resident::DecodedValue;
use crate::notice::{NoticeSubscription, RowChange, RowNotice, SubscriptionEvent};
use crate::rows;
use crate::scan::{PageContent, ScanPosition, ScannedRow, beginning_with, value_ranges};
use crate::schema::key::{Key, decode_key, encode_key};
use crate::schema::record::Record;
use crate::stored_value::StoredValue;
use crate::transaction::Tx;

/// Rows in one page unless the query says otherwise.
const PAGE: usize = 1_000;

/// A selection of the keys of a dictionary.
pub struct DictionaryQuery<K> {
    range: Result<(Bound<Bytes>, Bound<Bytes>)>,
    filter: Option<KeyFilter<K>>,
    page: usize,
}

type KeyFilter<K> = Arc<dyn Fn(&K) -> bool + Send + Sync>;

impl<K: Key> DictionaryQuery<K> {
    /// All keys.
    pub fn all() -> Self {
        Self::of(Ok((Bound::Unbounded, Bound::Unbounded)))
    }

    /// The keys in a range.
    pub fn range(range: impl RangeBounds<K>) -> Self {
        let from = encoded(range.start_bound());
        let to = encoded(range.end_bound());
        Self::of(from.and_then(|from| Ok((from, to?))))
    }

    /// The keys whose first parts are `prefix`: all `(street, house)` of a street.
    pub fn under(prefix: &impl Key) -> Self {
        let bytes = encode_key(prefix);
        let bytes = bytes.map_err(|error| Error::schema(error, "the query"));
        Self::of(bytes.map(|bytes| beginning_with(&bytes)))
    }

    /// Only keys that match. Values of other keys are not read.
    #[must_use]
    pub fn filter(mut self, fits: impl Fn(&K) -> bool + Send + Sync + 'static) -> Self {
        self.filter = Some(Arc::new(fits));
        self
    }

    /// Sets the number of rows per page.
    #[must_use]
    pub fn page(mut self, rows: usize) -> Self {
        self.page = rows;
        self
    }

    fn of(range: Result<(Bound<Bytes>, Bound<Bytes>)>) -> Self {
        Self {
            range,
            filter: None,
            page: PAGE,
        }
    }
}

impl DictionaryQuery<String> {
    /// The keys that begin with a text.
    pub fn starting_with(text: &str) -> Self {
        let bytes = encode_key(&text.to_owned());
        let bytes = bytes.map_err(|error| Error::schema(error, "the query"));
        // Without its end mark, the encoding of a text is a prefix of that of all longer
        // ones.
        Self::of(bytes.map(|bytes| beginning_with(&bytes[..bytes.len() - 1])))
    }
}

/// A position in an enumeration.
pub struct Cursor<K, V> {
    dictionary: Dictionary<K, V>,
    position: ScanPosition,
    filter: Option<KeyFilter<K>>,
}

/// One row of a page, as a cursor reads it.
struct PageRow<K> {
    bytes: Bytes,
    /// `None` if the filter leaves it out.
    key: Option<K>,
    found: ScannedRow,
}

impl<K: Key, V: Record> Cursor<K, V> {
    /// The next page, possibly empty; `None` at the end.
    pub async fn next(&mut self, tx: &mut Tx) -> Result<Option<Vec<(K, StoredValue<V>)>>> {
        let want = match self.filter {
            Some(_) => PageContent::Keys,
            None => PageContent::Rows,
        };
        let Some(mut page) = self.page(tx, want).await? else {
            return Ok(None);
        };
        let collection = &self.dictionary.part.collection;
        if want == PageContent::Keys {
            read_values(tx, collection.table, &mut page).await?;
        }
        let mut found = Vec::with_capacity(page.len());
        for item in page {
            let Some(key) = item.key else {
                continue;
            };
            let value = match item.found {
                ScannedRow::Stored(bytes) => Some(StoredValue(Arc::new(rows::decode::<V>(
                    collection, &bytes,
                )?))),
                ScannedRow::Own(change) => rows::own_value(collection, &change)?,
                ScannedRow::Key => None,
            };
            found.extend(value.map(|value| (key, value)));
        }
        Ok(Some(found))
    }

    /// The keys of the next page; values are not read.
    pub async fn next_keys(&mut self, tx: &mut Tx) -> Result<Option<Vec<K>>> {
        let Some(mut page) = self.page(tx, PageContent::Keys).await? else {
            return Ok(None);
        };
        page.retain(|item| !item.found.is_deleted());
        Ok(Some(page.into_iter().filter_map(|item| item.key).collect()))
    }

    async fn page(&mut self, tx: &mut Tx, want: PageContent) -> Result<Option<Vec<PageRow<K>>>> {
        let part = &self.dictionary.part;
        part.check(tx)?;
        tx.check_visible(&part.collection)?;
        let table = part.collection.table;
        let Some(page) = self.position.next(tx, table, want).await? else {
            return Ok(None);
        };
        let mut items = Vec::with_capacity(page.len());
        for (bytes, found) in page {
            let key: K = decode_key(&bytes).map_err(|e| Error::schema(e, &part.collection.name))?;
            let fits = self.filter.as_ref().is_none_or(|fits| fits(&key));
            let key = fits.then_some(key);
            items.push(PageRow { bytes, key, found });
        }
        Ok(Some(items))
    }
}

/// Reads the values of rows that passed the filter, and no others.
async fn read_values<K>(tx: &mut Tx, table: TableId, page: &mut [PageRow<K>]) -> Result<()> {
    let wanted = |item: &PageRow<K>| item.key.is_some();
    let ranges = value_ranges(
        page.iter()
            .map(|item| (&item.bytes, &item.found, wanted(item))),
    );
    let mut rows = tx
        .snapshot_ranges(table, &ranges)
        .await?
        .into_iter()
        .peekable();
    for item in page.iter_mut().filter(|item| wanted(item)) {
        if let Some(row) = rows.next_if(|row| row.key == item.bytes) {
            item.found = ScannedRow::Stored(row.value);
        }
    }
    Ok(())
}

impl<K: Key, V: Record> Dictionary<K, V> {
    /// Begins an enumeration; pages are then read in a transaction.
    pub fn enumerate(&self, query: DictionaryQuery<K>) -> Result<Cursor<K, V>> {
        let (from, to) = query.range?;
        Ok(Cursor {
            dictionary: self.clone(),
            position: ScanPosition::new(from, to, query.page),
            filter: query.filter,
        })
    }

    /// All rows of a query at once; meant for few rows.
    pub async fn entries(
        &self,
        tx: &mut Tx,
        query: DictionaryQuery<K>,
    ) -> Result<Vec<(K, StoredValue<V>)>> {
        let mut cursor = self.enumerate(query)?;
        let mut all = Vec::new();
        while let Some(page) = cursor.next(tx).await? {
            all.extend(page);
        }
        Ok(all)
    }

    /// The exact number of keys that the transaction sees. Reads all of them.
    pub async fn count(&self, tx: &mut Tx) -> Result<u64> {
        let part = &self.part;
        part.check(tx)?;
        tx.check_visible(&part.collection)?;
        let all = (Bound::Unbounded, Bound::Unbounded);
        let mut position = ScanPosition::new(all.0, all.1, usize::MAX);
        position.count(tx, part.collection.table).await
    }

    /// Follows the dictionary's changes.
    pub fn notices(&self) -> DictionaryNotices<K, V> {
        DictionaryNotices {
            listener: NoticeSubscription::new(&self.part.collection.feed),
            dictionary: self.clone(),
        }
    }
}

/// A change of a dictionary.
#[derive(Clone, Debug, PartialEq)]
pub enum DictionaryNotice<K, V> {
    /// A key was added.
    Add {
        key: K,
        value: StoredValue<V>,
        lsn: Lsn,
    },
    /// The value of a key was changed.
    Update {
        key: K,
        value: StoredValue<V>,
        lsn: Lsn,
    },
    /// A key was removed.
    Remove { key: K, lsn: Lsn },
    /// All keys were removed.
    Clear { lsn: Lsn },
    /// Enumerate again: this is the state to start from.
    Rebuild { lsn: Lsn },
}

/// A subscription to a dictionary's changes, in log order.
pub struct DictionaryNotices<K, V> {
    listener: NoticeSubscription<RowNotice>,
    dictionary: Dictionary<K, V>,
}

impl<K: Key, V: Record> DictionaryNotices<K, V> {
    /// The next notice; `None` when the dictionary was removed.
    pub async fn next(&mut self) -> Result<Option<DictionaryNotice<K, V>>> {
        let notice = match self.listener.next().await {
            SubscriptionEvent::Notice(notice) => notice,
            SubscriptionEvent::Rebuild => {
                let lsn = self.dictionary.part.inner.durable_lsn();
                return Ok(Some(DictionaryNotice::Rebuild { lsn }));
            }
            SubscriptionEvent::End => return Ok(None),
        };
        let lsn = notice.lsn;
        Ok(Some(match notice.what {
            RowChange::Add(key, value) => DictionaryNotice::Add {
                key: self.key(&key)?,
                value: self.value(value)?,
                lsn,
            },
            RowChange::Update(key, value) => DictionaryNotice::Update {
                key: self.key(&key)?,
                value: self.value(value)?,
                lsn,
            },
            RowChange::Remove(key) => DictionaryNotice::Remove {
                key: self.key(&key)?,
                lsn,
            },
            RowChange::Clear => DictionaryNotice::Clear { lsn },
        }))
    }

    fn key(&self, bytes: &[u8]) -> Result<K> {
        let name = self.dictionary.name();
        decode_key(bytes).map_err(|error| Error::schema(error, name))
    }

    fn value(&self, value: DecodedValue) -> Result<StoredValue<V>> {
        let collection = &self.dictionary.part.collection;
        rows::typed(collection, value)
    }
}

fn encoded<K: Key>(bound: Bound<&K>) -> Result<Bound<Bytes>> {
    let encode = |key: &K| {
        let bytes = encode_key(key).map(Bytes::from);
        bytes.map_err(|error| Error::schema(error, "the query"))
    };
    Ok(match bound {
        Bound::Included(key) => Bound::Included(encode(key)?),
        Bound::Excluded(key) => Bound::Excluded(encode(key)?),
        Bound::Unbounded => Bound::Unbounded,
    })
}
