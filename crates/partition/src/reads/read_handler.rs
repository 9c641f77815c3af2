//! Executes read requests through a mailbox.

use steadfast_core::limits;

use crate::error::{Error, ErrorKind, Result};
use crate::ingress::mailbox::Mailbox;
use crate::reads::durable_reads::TableRow;
use crate::reads::read_request::{ReadRequest, ReadResponse};

/// The approximate size limit of a response with many rows.
const ANSWER_BYTES: usize = limits::NODE_MESSAGE_BYTES / 8;

impl ReadRequest {
    /// Reads at the owner.
    pub(crate) async fn execute(self, door: &Mailbox) -> Result<ReadResponse> {
        Ok(match self {
            Self::Row(table, key) => ReadResponse::Row(door.row(table, &key).await?),
            Self::Rows {
                table,
                from,
                to,
                limit,
            } => {
                let mut rows = door.rows(table, from, to, limit).await?;
                let fits = fitting(&rows);
                let is_cut = fits < rows.len();
                rows.truncate(fits);
                ReadResponse::Rows(rows, is_cut)
            }
            Self::Head(stream) => ReadResponse::Head(door.stream(stream)?),
            Self::Batches {
                stream,
                from,
                max_bytes,
            } => {
                let most = max_bytes.min(limits::NODE_MESSAGE_BYTES / 4);
                ReadResponse::Batches(door.batches(stream, from, most).await?)
            }
            Self::Follow { stream, after } => {
                let mut end = door.follow(stream)?;
                let next = end.wait_for(|end| *end > after);
                if let Ok(Err(_)) = tokio::time::timeout(limits::FOLLOW_TIME, next).await {
                    let partition = door.partition();
                    return Err(Error::new(ErrorKind::NotOwner { partition }));
                }
                ReadResponse::Head(door.stream(stream)?)
            }
        })
    }
}

/// How many of these rows fit into one response; one at least.
fn fitting(rows: &[TableRow]) -> usize {
    let mut bytes = 0;
    let fits = rows.iter().take_while(|row| {
        let is_first = bytes == 0;
        bytes += row.key.len() + row.value.len() + 8;
        is_first || bytes <= ANSWER_BYTES
    });
    fits.count()
}
