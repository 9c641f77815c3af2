//! Responses of `$management` about event hubs.

use super::write;

/// The type of a request about an event hub.
pub const HUB: &str = "com.microsoft:eventhub";
/// The type of a request about a partition.
pub const PARTITION: &str = "com.microsoft:partition";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventHubDescription<'a> {
    pub name: &'a str,
    pub created_ms: i64,
    pub partitions: u32,
}

impl EventHubDescription<'_> {
    pub fn write(&self, out: &mut Vec<u8>) {
        let ids: Vec<String> = (0..self.partitions).map(|id| id.to_string()).collect();
        write::map(out, 6, |out| {
            write::string(out, "name");
            write::string(out, self.name);
            write::string(out, "type");
            write::string(out, HUB);
            write::string(out, "created_at");
            write::timestamp(out, self.created_ms);
            write::string(out, "partition_count");
            write::int(out, self.partitions.try_into().unwrap_or(i32::MAX));
            write::string(out, "partition_ids");
            write::array_of_strings(out, ids.iter().map(String::as_str));
            write::string(out, "georeplication_factor");
            write::int(out, 1);
        });
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartitionDescription<'a> {
    pub hub: &'a str,
    pub partition: &'a str,
    pub first_sequence: i64,
    pub last_sequence: i64,
    /// A decimal number; -1 if the partition never had an event.
    pub last_offset: &'a str,
    pub last_enqueued_ms: i64,
    pub empty: bool,
}

impl PartitionDescription<'_> {
    pub fn write(&self, out: &mut Vec<u8>) {
        write::map(out, 10, |out| {
            write::string(out, "name");
            write::string(out, self.hub);
            write::string(out, "type");
            write::string(out, PARTITION);
            write::string(out, "partition");
            write::string(out, self.partition);
            write::string(out, "begin_sequence_number");
            write::long(out, self.first_sequence);
            write::string(out, "begin_sequence_number_epoch");
            write::long(out, -1);
            write::string(out, "last_enqueued_sequence_number");
            write::long(out, self.last_sequence);
            // One of the clients refuses a reply without it.
            write::string(out, "last_enqueued_sequence_number_epoch");
            write::long(out, -1);
            write::string(out, "last_enqueued_offset");
            write::string(out, self.last_offset);
            write::string(out, "last_enqueued_time_utc");
            write::timestamp(out, self.last_enqueued_ms);
            write::string(out, "is_partition_empty");
            write::boolean(out, self.empty);
        });
    }
}
