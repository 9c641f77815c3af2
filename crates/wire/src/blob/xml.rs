//! Responses in XML: errors and lists of blobs.

use std::fmt::Write as _;

pub(super) const HEAD: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>";

/// One blob in a list.
#[derive(Clone, Copy, Debug)]
pub struct BlobItem<'a> {
    pub name: &'a str,
    /// Elements and their values, in the order in which they are shown.
    pub properties: &'a [(&'a str, String)],
    /// `None` if metadata was not requested.
    pub metadata: Option<&'a [(String, String)]>,
}

/// The parameters of a list request.
#[derive(Clone, Copy, Debug)]
pub struct ListBlobsRequest<'a> {
    pub endpoint: &'a str,
    pub container: &'a str,
    pub prefix: &'a str,
    pub marker: &'a str,
    /// Empty if all blobs are listed.
    pub delimiter: &'a str,
    pub most: usize,
}

/// A list of blobs, built item by item.
#[derive(Debug)]
pub struct BlobListing {
    text: String,
}

impl BlobListing {
    /// An empty list.
    pub fn new(asked: &ListBlobsRequest<'_>) -> Self {
        let mut text = String::from(HEAD);
        text.push_str("<EnumerationResults ServiceEndpoint=\"");
        escape(&mut text, asked.endpoint);
        text.push_str("\" ContainerName=\"");
        escape(&mut text, asked.container);
        text.push_str("\">");
        element(&mut text, "Prefix", asked.prefix);
        element(&mut text, "Marker", asked.marker);
        // Writing to a string cannot fail.
        let _ = write!(text, "<MaxResults>{}</MaxResults>", asked.most);
        if !asked.delimiter.is_empty() {
            element(&mut text, "Delimiter", asked.delimiter);
        }
        text.push_str("<Blobs>");
        Self { text }
    }

    /// Adds a blob.
    pub fn push(&mut self, item: &BlobItem<'_>) {
        let text = &mut self.text;
        text.push_str("<Blob>");
        element(text, "Name", item.name);
        text.push_str("<Properties>");
        for (name, value) in item.properties {
            element(text, name, value);
        }
        text.push_str("</Properties>");
        if let Some(metadata) = item.metadata {
            text.push_str("<Metadata>");
            for (name, value) in metadata {
                element(text, name, value);
            }
            text.push_str("</Metadata>");
        }
        text.push_str("</Blob>");
    }

    /// Adds a common prefix of several names.
    pub fn push_prefix(&mut self, name: &str) {
        self.text.push_str("<BlobPrefix>");
        element(&mut self.text, "Name", name);
        self.text.push_str("</BlobPrefix>");
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    /// Ends the list with the marker of the next page; empty if this is the last.
    pub fn end(mut self, next: &str) -> String {
        self.text.push_str("</Blobs>");
        element(&mut self.text, "NextMarker", next);
        self.text.push_str("</EnumerationResults>");
        self.text
    }
}

/// An error as clients read it.
pub fn error(code: &str, message: &str) -> String {
    let mut text = format!("{HEAD}<Error>");
    element(&mut text, "Code", code);
    element(&mut text, "Message", message);
    text + "</Error>"
}

/// Whether XML can represent the text.
pub fn carries(text: &str) -> bool {
    let is_bad = |one: char| one.is_control() || matches!(one, '\u{fffe}' | '\u{ffff}');
    !text.chars().any(is_bad)
}

/// Writes an element, even without a value, because clients fail on a missing one.
pub(super) fn element(text: &mut String, name: &str, value: &str) {
    text.extend(["<", name]);
    if value.is_empty() {
        text.push_str(" />");
        return;
    }
    text.push('>');
    escape(text, value);
    text.extend(["</", name, ">"]);
}

fn escape(text: &mut String, value: &str) {
    for one in value.chars() {
        match one {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '"' => text.push_str("&quot;"),
            one => text.push(one),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_values_are_empty_elements_and_texts_are_escaped() {
        let mut listing = BlobListing::new(&ListBlobsRequest {
            endpoint: "http://h/a",
            container: "c",
            prefix: "",
            marker: "",
            delimiter: "/",
            most: 2,
        });
        listing.push_prefix("a/");
        let metadata = [
            ("ownerid".to_owned(), String::new()),
            ("x".to_owned(), "<&>".to_owned()),
        ];
        listing.push(&BlobItem {
            name: "a\"b",
            properties: &[("Etag", "0x1".to_owned())],
            metadata: Some(&metadata),
        });
        assert_eq!(
            listing.end(""),
            "<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults \
             ServiceEndpoint=\"http://h/a\" ContainerName=\"c\"><Prefix /><Marker />\
             <MaxResults>2</MaxResults><Delimiter>/</Delimiter><Blobs><BlobPrefix>\
             <Name>a/</Name></BlobPrefix><Blob><Name>a&quot;b</Name><Properties>\
             <Etag>0x1</Etag></Properties><Metadata><ownerid /><x>&lt;&amp;&gt;</x></Metadata>\
             </Blob></Blobs><NextMarker /></EnumerationResults>"
        );
        assert!(error("BlobNotFound", "no <blob>").ends_with(
            "<Error><Code>BlobNotFound</Code><Message>no &lt;blob&gt;</Message></Error>"
        ));
    }

    #[test]
    fn what_no_xml_can_carry_is_known() {
        assert!(carries("Straße 💡"));
        assert!(!carries("a\u{1}") && !carries("a\r") && !carries("\u{ffff}"));
    }
}
