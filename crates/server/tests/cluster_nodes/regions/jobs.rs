//! Whom the jobs call: it keeps everything that it hears.
//!
//! Paths that begin with `/fail` are refused, those that begin with `/slow` take their
//! time, home gets no answer from those that begin with `/held`, and those that begin
//! with `/patient` get theirs when the test says so.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use super::{NAMES, now};

/// How long a slow path takes.
const SLOW: Duration = Duration::from_millis(500);

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pub(crate) path: String,
    pub(crate) region: String,
    pub(crate) epoch: u64,
    /// When it was due, in seconds.
    pub(crate) expected: i64,
    key: String,
    action: String,
    attempt: String,
    pub(crate) at: Instant,
}

impl Heard {
    /// What only a repetition shares.
    pub(crate) fn attempt(&self) -> String {
        format!("{} {} {}", self.key, self.action, self.attempt)
    }

    pub(crate) fn attempt_number(&self) -> u32 {
        self.attempt.parse().unwrap()
    }
}

/// Listens until the test ends.
pub(crate) struct Target {
    pub(crate) url: String,
    book: Arc<Book>,
}

/// What it has heard, and whether those that are patient get their answer.
#[derive(Default)]
struct Book {
    heard: Mutex<Vec<Heard>>,
    answers: Mutex<bool>,
    changed: Condvar,
}

impl Target {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let book: Arc<Book> = Arc::default();
        let all = Arc::clone(&book);
        let thread = std::thread::Builder::new().name("target".into());
        let accept = move || {
            for stream in listener.incoming().flatten() {
                let all = Arc::clone(&all);
                let thread = std::thread::Builder::new().name("target".into());
                thread.spawn(move || converse(&stream, &all)).unwrap();
            }
        };
        thread.spawn(accept).unwrap();
        Self { url, book }
    }

    pub(crate) fn heard(&self) -> Vec<Heard> {
        self.book.heard.lock().unwrap().clone()
    }

    /// Answers those that are patient, from now on at once.
    pub(crate) fn answer_the_patient(&self) {
        *self.book.answers.lock().unwrap() = true;
        self.book.changed.notify_all();
    }
}

/// Requests of one connection, one after the other.
fn converse(stream: &TcpStream, book: &Book) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut writer = stream.try_clone().ok()?;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let path = line.split(' ').nth(1)?.to_owned();
        let mut headers = std::collections::BTreeMap::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim().split_once(": ") else {
                break;
            };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        let length = headers.get("content-length");
        let length = length.and_then(|length| length.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let take = |name: &str| headers.get(name).cloned().unwrap_or_default();
        let expected = take("x-ms-scheduler-expected-execution-time");
        let heard = Heard {
            region: take("x-ms-scheduler-execution-region"),
            epoch: take("x-steadfast-epoch").parse().ok()?,
            expected: seconds(&expected),
            key: take("idempotency-key"),
            action: take("x-steadfast-action"),
            attempt: take("x-steadfast-attempt"),
            at: now(),
            path,
        };
        let status = if heard.path.starts_with("/fail") {
            "500 Internal Server Error"
        } else {
            "200 OK"
        };
        let is_slow = heard.path.starts_with("/slow");
        let is_patient = heard.path.starts_with("/patient");
        let is_held = heard.path.starts_with("/held") && heard.region == NAMES[0];
        book.heard.lock().unwrap().push(heard);
        if is_patient {
            let answers = book.answers.lock().unwrap();
            let _told = book.changed.wait_while(answers, |told| !*told).unwrap();
        }
        if is_slow {
            std::thread::sleep(SLOW);
        }
        if is_held {
            // Until the caller is gone.
            reader.read_to_end(&mut body).ok()?;
            return None;
        }
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
        writer.write_all(answer.as_bytes()).ok()?;
    }
}

/// `2015-09-10T00:00:00` as seconds; days are counted from 1970.
pub(crate) fn seconds(text: &str) -> i64 {
    let number = |from: usize, to: usize| text[from..to].parse::<i64>().unwrap();
    let (year, month, day) = (number(0, 4), number(5, 7), number(8, 10));
    let years = if month <= 2 { year - 1 } else { year };
    let era = years.div_euclid(400);
    let of_era = years - era * 400;
    let months = (month + 9) % 12;
    let days = of_era * 365 + of_era / 4 - of_era / 100 + (153 * months + 2) / 5 + day - 1;
    let days = era * 146_097 + days - 719_468;
    days * 86_400 + number(11, 13) * 3600 + number(14, 16) * 60 + number(17, 19)
}

/// A time from now on, as a job wants it.
#[expect(clippy::disallowed_methods, reason = "processes run in real time")]
pub(crate) fn in_seconds(seconds: i64) -> String {
    let now = std::time::SystemTime::now();
    let since = now.duration_since(std::time::UNIX_EPOCH).unwrap();
    let at = since.as_secs() as i64 + seconds;
    let (days, rest) = (at.div_euclid(86_400), at.rem_euclid(86_400));
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted - era * 146_097;
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}
