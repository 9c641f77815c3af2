//! Inputs that consist of records.
//!
//! A separator stands between two records, so that a byte more in one of them does not
//! shift the others, as it would with lengths.

/// Stands between two records.
const SEPARATOR: [u8; 2] = [0xF5, 0xFA];

/// The most records of one input.
const MOST: usize = 64;

/// Splits an input into its records.
pub(crate) fn split(input: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(input);
    let records = std::iter::from_fn(move || {
        let bytes = rest?;
        let mut pairs = bytes.windows(SEPARATOR.len());
        match pairs.position(|pair| pair == SEPARATOR) {
            Some(end) => {
                rest = Some(&bytes[end + SEPARATOR.len()..]);
                Some(&bytes[..end])
            }
            None => rest.take(),
        }
    });
    records.take(MOST)
}

/// Joins records to an input.
pub(crate) fn join(records: &[Vec<u8>]) -> Vec<u8> {
    records.join(&SEPARATOR[..])
}

/// Puts a mode in front of an input.
pub(crate) fn with_mode(mode: u8, input: &[u8]) -> Vec<u8> {
    [&[mode], input].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_split_where_they_were_joined() {
        let records = vec![b"one".to_vec(), Vec::new(), b"three".to_vec()];
        let joined = join(&records);
        let found: Vec<_> = split(&joined).map(<[u8]>::to_vec).collect();
        assert_eq!(found, records);
    }
}
