//! Names of claims, as .NET knows them.
//!
//! Token issuers shorten well-known names; app servers look for the long ones.

const LONG: [(&str, &str); 8] = [
    (
        "nameid",
        "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/nameidentifier",
    ),
    (
        "unique_name",
        "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/name",
    ),
    (
        "role",
        "http://schemas.microsoft.com/ws/2008/06/identity/claims/role",
    ),
    (
        "email",
        "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/emailaddress",
    ),
    (
        "given_name",
        "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/givenname",
    ),
    (
        "family_name",
        "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/surname",
    ),
    (
        "upn",
        "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/upn",
    ),
    (
        "actort",
        "http://schemas.xmlsoap.org/ws/2009/09/identity/claims/actor",
    ),
];

/// The long form of a name, if it has one.
pub(crate) fn long(name: &str) -> &str {
    let found = LONG.iter().find(|(short, _)| *short == name);
    found.map_or(name, |(_, long)| long)
}

/// The short form of a name, if it has one.
pub(crate) fn short(name: &str) -> &str {
    let found = LONG.iter().find(|(_, long)| *long == name);
    found.map_or(name, |(short, _)| short)
}
