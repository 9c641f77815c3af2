//! Unmodified SDKs against the server, and their page.

mod counterparts;
mod dotnet;
mod group;
mod page;
mod scenarios;
mod sdks;
mod versions;

pub(crate) use counterparts::check as check_counterparts;
pub(crate) use group::{TESTS, check, install};
pub(crate) use page::{check as check_page, write as write_page};
