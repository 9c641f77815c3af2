//! Constructor bytes and descriptors.

pub(crate) const DESCRIBED: u8 = 0x00;
pub(crate) const NULL: u8 = 0x40;
pub(crate) const TRUE: u8 = 0x41;
pub(crate) const FALSE: u8 = 0x42;
pub(crate) const UINT_0: u8 = 0x43;
pub(crate) const ULONG_0: u8 = 0x44;
pub(crate) const LIST_0: u8 = 0x45;
pub(crate) const UBYTE: u8 = 0x50;
pub(crate) const BYTE: u8 = 0x51;
pub(crate) const UINT_SMALL: u8 = 0x52;
pub(crate) const ULONG_SMALL: u8 = 0x53;
pub(crate) const INT_SMALL: u8 = 0x54;
pub(crate) const LONG_SMALL: u8 = 0x55;
pub(crate) const BOOL: u8 = 0x56;
pub(crate) const USHORT: u8 = 0x60;
pub(crate) const SHORT: u8 = 0x61;
pub(crate) const UINT: u8 = 0x70;
pub(crate) const INT: u8 = 0x71;
pub(crate) const FLOAT: u8 = 0x72;
pub(crate) const CHAR: u8 = 0x73;
pub(crate) const DECIMAL_32: u8 = 0x74;
pub(crate) const ULONG: u8 = 0x80;
pub(crate) const LONG: u8 = 0x81;
pub(crate) const DOUBLE: u8 = 0x82;
pub(crate) const TIMESTAMP: u8 = 0x83;
pub(crate) const DECIMAL_64: u8 = 0x84;
pub(crate) const DECIMAL_128: u8 = 0x94;
pub(crate) const UUID: u8 = 0x98;
pub(crate) const BINARY_8: u8 = 0xa0;
pub(crate) const STRING_8: u8 = 0xa1;
pub(crate) const SYMBOL_8: u8 = 0xa3;
pub(crate) const BINARY_32: u8 = 0xb0;
pub(crate) const STRING_32: u8 = 0xb1;
pub(crate) const SYMBOL_32: u8 = 0xb3;
pub(crate) const LIST_8: u8 = 0xc0;
pub(crate) const MAP_8: u8 = 0xc1;
pub(crate) const LIST_32: u8 = 0xd0;
pub(crate) const MAP_32: u8 = 0xd1;
pub(crate) const ARRAY_8: u8 = 0xe0;
pub(crate) const ARRAY_32: u8 = 0xf0;

/// Numeric descriptors of the types that this crate reads and writes.
pub mod descriptor {
    pub const OPEN: u64 = 0x10;
    pub const BEGIN: u64 = 0x11;
    pub const ATTACH: u64 = 0x12;
    pub const FLOW: u64 = 0x13;
    pub const TRANSFER: u64 = 0x14;
    pub const DISPOSITION: u64 = 0x15;
    pub const DETACH: u64 = 0x16;
    pub const END: u64 = 0x17;
    pub const CLOSE: u64 = 0x18;
    pub const ERROR: u64 = 0x1d;
    pub const RECEIVED: u64 = 0x23;
    pub const ACCEPTED: u64 = 0x24;
    pub const REJECTED: u64 = 0x25;
    pub const RELEASED: u64 = 0x26;
    pub const MODIFIED: u64 = 0x27;
    pub const SOURCE: u64 = 0x28;
    pub const TARGET: u64 = 0x29;
    pub const MECHANISMS: u64 = 0x40;
    pub const INIT: u64 = 0x41;
    pub const OUTCOME: u64 = 0x44;
    pub const HEADER: u64 = 0x70;
    pub const DELIVERY_ANNOTATIONS: u64 = 0x71;
    pub const MESSAGE_ANNOTATIONS: u64 = 0x72;
    pub const PROPERTIES: u64 = 0x73;
    pub const APPLICATION_PROPERTIES: u64 = 0x74;
    pub const DATA: u64 = 0x75;
    pub const SEQUENCE: u64 = 0x76;
    pub const VALUE: u64 = 0x77;
    pub const FOOTER: u64 = 0x78;
    /// The selector of a source's filter.
    pub const SELECTOR: u64 = 0x0000_468c_0000_0004;

    /// The numeric descriptor that a symbolic one stands for.
    pub(crate) fn of_symbol(symbol: &str) -> Option<u64> {
        Some(match symbol {
            "amqp:open:list" => OPEN,
            "amqp:begin:list" => BEGIN,
            "amqp:attach:list" => ATTACH,
            "amqp:flow:list" => FLOW,
            "amqp:transfer:list" => TRANSFER,
            "amqp:disposition:list" => DISPOSITION,
            "amqp:detach:list" => DETACH,
            "amqp:end:list" => END,
            "amqp:close:list" => CLOSE,
            "amqp:error:list" => ERROR,
            "amqp:received:list" => RECEIVED,
            "amqp:accepted:list" => ACCEPTED,
            "amqp:rejected:list" => REJECTED,
            "amqp:released:list" => RELEASED,
            "amqp:modified:list" => MODIFIED,
            "amqp:source:list" => SOURCE,
            "amqp:target:list" => TARGET,
            "amqp:sasl-mechanisms:list" => MECHANISMS,
            "amqp:sasl-init:list" => INIT,
            "amqp:sasl-outcome:list" => OUTCOME,
            "amqp:header:list" => HEADER,
            "amqp:delivery-annotations:map" => DELIVERY_ANNOTATIONS,
            "amqp:message-annotations:map" => MESSAGE_ANNOTATIONS,
            "amqp:properties:list" => PROPERTIES,
            "amqp:application-properties:map" => APPLICATION_PROPERTIES,
            "amqp:data:binary" => DATA,
            "amqp:amqp-sequence:list" => SEQUENCE,
            "amqp:amqp-value:*" => VALUE,
            "amqp:footer:map" => FOOTER,
            "apache.org:selector-filter:string" => SELECTOR,
            _ => return None,
        })
    }
}
