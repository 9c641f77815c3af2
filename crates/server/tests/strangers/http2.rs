//! A client of HTTP/2 that writes frames as it likes.

use std::io::Write as _;
use std::net::TcpStream;

use super::{connect_from, push};

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RESET: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;

/// The end of the headers, and of the stream.
const END_HEADERS: u8 = 4;
const END_STREAM: u8 = 1;

/// A frame of HTTP/2.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// What a connection begins with, by which no stream has a window for its answer.
pub(crate) fn unreading() -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    // SETTINGS_INITIAL_WINDOW_SIZE
    bytes.extend(frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]));
    bytes
}

/// The head of a request without a key; `has_body` if data follow it.
pub(crate) fn head(stream: u32, method: &str, path: &str, has_body: bool) -> Vec<u8> {
    let text = |out: &mut Vec<u8>, text: &str| {
        assert!(text.len() < 127);
        out.push(text.len() as u8);
        out.extend(text.as_bytes());
    };
    // Literals with names of the table: method, path, authority; and the scheme.
    let mut block = vec![0x02];
    text(&mut block, method);
    block.extend([0x86, 0x04]);
    text(&mut block, path);
    block.push(0x01);
    text(&mut block, "localhost");
    let end = if has_body { 0 } else { END_STREAM };
    frame(HEADERS, END_HEADERS | end, stream, &block)
}

/// Asks for something on many streams of each connection, and reads no answer.
pub(crate) fn unread(port: u16, connections: usize, requests: u32, path: &str) -> Vec<TcpStream> {
    let mut bytes = unreading();
    for number in 0..requests {
        bytes.extend(head(2 * number + 1, "GET", path, false));
    }
    let open = |number| {
        let mut stream = connect_from(number, port);
        push(&mut stream, &bytes);
        stream
    };
    (0..connections).map(open).collect()
}

/// Sends bodies without a key on many streams of each connection: as much as the server
/// takes.
pub(crate) fn bodies(port: u16, connections: usize, streams: u32, path: &str) -> Vec<TcpStream> {
    let chunk = vec![b'x'; 16 * 1024];
    let mut bytes = unreading();
    for number in 0..streams {
        bytes.extend(head(2 * number + 1, "PUT", path, true));
    }
    for round in 0..4 * streams {
        bytes.extend(frame(DATA, 0, 2 * (round % streams) + 1, &chunk));
    }
    let open = |number| {
        let mut stream = connect_from(number, port);
        push(&mut stream, &bytes);
        stream
    };
    (0..connections).map(open).collect()
}

/// Begins requests and resets them, as fast as the server takes them.
pub(crate) fn resets(port: u16, connections: usize, requests: u32, path: &str) {
    let mut bytes = unreading();
    for number in 0..requests {
        let stream = 2 * number + 1;
        bytes.extend(head(stream, "GET", path, false));
        // CANCEL
        bytes.extend(frame(RESET, 0, stream, &[0, 0, 0, 8]));
    }
    for number in 0..connections {
        let mut stream = connect_from(number, port);
        // The server ends a connection that resets too much.
        let _ = stream.write_all(&bytes);
    }
}
