//! Addresses of AMQP nodes.

/// The node that an address names. Names keep their case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeAddress<'a> {
    Cbs,
    Management,
    Hub(&'a str),
    Partition {
        hub: &'a str,
        partition: &'a str,
    },
    Publisher {
        hub: &'a str,
        name: &'a str,
    },
    Reader {
        hub: &'a str,
        group: &'a str,
        partition: &'a str,
    },
}

/// Parses an address; a leading scheme and host are ignored.
pub fn parse(address: &str) -> Option<NodeAddress<'_>> {
    let path = path(address);
    let mut parts = [""; 6];
    let mut count = 0;
    for part in path.split('/') {
        *parts.get_mut(count)? = part;
        count += 1;
    }
    let is = |at: usize, word: &str| parts[at].eq_ignore_ascii_case(word);
    let node = match count {
        1 if is(0, "$cbs") => NodeAddress::Cbs,
        1 if is(0, "$management") => NodeAddress::Management,
        2 if is(1, "$management") => NodeAddress::Management,
        1 => NodeAddress::Hub(parts[0]),
        3 if is(1, "partitions") => NodeAddress::Partition {
            hub: parts[0],
            partition: parts[2],
        },
        3 if is(1, "publishers") => NodeAddress::Publisher {
            hub: parts[0],
            name: parts[2],
        },
        5 if is(1, "consumergroups") && is(3, "partitions") => NodeAddress::Reader {
            hub: parts[0],
            group: parts[2],
            partition: parts[4],
        },
        _ => return None,
    };
    parts[..count]
        .iter()
        .all(|part| !part.is_empty())
        .then_some(node)
}

/// The path of an address: no scheme, no host, no slash at either end.
pub fn path(address: &str) -> &str {
    let path = match address.split_once("://") {
        Some((_, rest)) => rest.split_once('/').map_or("", |(_, path)| path),
        None => address.strip_prefix('/').unwrap_or(address),
    };
    path.strip_suffix('/').unwrap_or(path)
}

/// The number of a partition; other text maps to a partition that no event hub has,
/// so that it is refused in the same way.
pub fn number(partition: &str) -> u32 {
    let is_decimal = partition.bytes().all(|byte| byte.is_ascii_digit());
    match partition.parse() {
        Ok(number) if is_decimal => number,
        _ => u32::MAX,
    }
}
