//! Bytes as hexadecimal digits, and back.

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE, HEXUPPER};

/// Two digits per byte, in lower case.
pub fn encode(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

/// Two digits per byte, in upper case.
pub fn encode_upper(bytes: &[u8]) -> String {
    HEXUPPER.encode(bytes)
}

/// The bytes of digits in either case; nothing if the text is anything else.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_become_the_same_bytes_in_either_case() {
        let bytes = [0x00, 0x7f, 0xab, 0xff];
        assert_eq!(encode(&bytes), "007fabff");
        assert_eq!(encode_upper(&bytes), "007FABFF");
        assert_eq!(decode("007fabff"), Some(bytes.to_vec()));
        assert_eq!(decode("007FAbff"), Some(bytes.to_vec()));
        assert_eq!(decode(""), Some(Vec::new()));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["0", "zz", "+f", "é0", "0 ", " 00", "00\n"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
