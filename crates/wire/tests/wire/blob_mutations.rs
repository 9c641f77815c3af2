//! Requests about blobs, as clients sent them and mutated.
//!
//! Seeds are what azure-eventhub-checkpointstoreblob 1.2.0, azure-storage-blob
//! 12.31.1 and @azure/eventhubs-checkpointstore-blob 2.0.0 really sent
//! (`tests/corpus/blob`), with another name of the client.

use steadfast_wire::blob::block_list;
use steadfast_wire::blob::path::{BlobPath, parameters};
use steadfast_wire::blob::sas::BlobSas;
use steadfast_wire::blob::shared_key::{Request, SharedKey};
use steadfast_wire::blob::xml;

use crate::mutated::{corpus, survive};

const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// Whether the head of a request is signed by the key, by a header or in its query.
fn is_signed(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.split("\r\n");
    let mut first = lines.next().unwrap_or("").split(' ');
    let (verb, address) = (first.next().unwrap_or(""), first.next().unwrap_or(""));
    let (path, query) = address.split_once('?').unwrap_or((address, ""));
    let headers: Vec<_> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        .collect();
    let (Ok(place), Ok(parameters)) = (BlobPath::parse(path), parameters(query)) else {
        return false;
    };
    let _ = place.blob.as_deref().map(xml::carries);
    if let Ok(Some(sas)) = BlobSas::parse(&parameters, &place) {
        return sas.is_signed_by(KEY);
    }
    let request = Request {
        verb,
        path,
        parameters: &parameters,
        headers: &headers,
    };
    let claim = headers.iter().find(|(name, _)| name == "authorization");
    let claim = claim.map(|(_, value)| SharedKey::parse(value));
    matches!(claim, Some(Ok(claim)) if claim.is_signed_by(KEY, &request))
}

#[test]
fn what_clients_sent_is_signed_and_nothing_else_with_that_signature() {
    let seeds = corpus("blob");
    assert!(seeds.len() >= 14, "only {}", seeds.len());
    for seed in &seeds {
        let text = String::from_utf8_lossy(seed);
        assert!(is_signed(seed), "{text}");
        let elsewhere = text.replacen("/devstoreaccount1/", "/devstoreaccount1/x", 1);
        let is_account = text.contains("&srt=") || text.contains("?srt=");
        assert_eq!(is_signed(elsewhere.as_bytes()), is_account, "{elsewhere}");
    }
}

#[test]
fn mutated_requests_are_read_or_refused() {
    survive(&corpus("blob"), (64 * 1024, 32), |bytes| {
        is_signed(bytes);
    });
}

#[test]
fn mutated_block_lists_are_read_or_refused() {
    let seeds = [
        "\u{feff}<BlockList><Latest>AAA=</Latest><Latest>AQA=</Latest></BlockList>",
        "<?xml version='1.0' encoding='utf-8'?>\n<BlockList><Committed>YQ==</Committed>\
         <Uncommitted>Yg==</Uncommitted><!-- end --></BlockList>",
        "<BlockList />",
    ];
    let seeds = seeds.map(|seed| seed.as_bytes().to_vec());
    survive(&seeds, (64 * 1024, 32), |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let _ = block_list::parse(&text);
    });
}
