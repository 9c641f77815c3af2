//! Shared access signatures of blob storage.
//!
//! They are query parameters. An **account** SAS names services and resource types; a
//! **service** SAS is for one container or blob. Later versions of the service sign
//! more fields.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::path::BlobPath;
use crate::signature;

/// The oldest supported version.
const OLDEST: &str = "2015-04-05";
/// From this version on, the resource type and a snapshot are signed.
const WITH_RESOURCE: &str = "2018-11-09";
/// From this version on, an encryption scope is signed.
const WITH_SCOPE: &str = "2020-12-06";

/// The resources that a signature covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SasScope {
    /// Containers and blobs of the account, as far as its resource types allow.
    Account {
        has_containers: bool,
        has_objects: bool,
    },
    /// One container and its blobs.
    Container,
    /// One blob.
    Blob,
}

/// A parsed SAS, not yet verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobSas {
    pub scope: SasScope,
    /// One letter per permission.
    pub permissions: String,
    /// Times as received; `None` if absent.
    pub start: Option<String>,
    pub expiry: String,
    /// An address, or two with a hyphen between them.
    pub addresses: Option<String>,
    /// Whether it is valid for encrypted requests only.
    pub needs_encryption: bool,
    signed: String,
    signature: Vec<u8>,
}

/// The reason why a query holds no SAS that can be verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobSasError(pub &'static str);

impl BlobSas {
    /// Parses the SAS in a query; `None` if there is none. It is not verified yet.
    pub fn parse(
        parameters: &[(String, String)],
        place: &BlobPath,
    ) -> Result<Option<Self>, BlobSasError> {
        let find = |name: &str| {
            let mut pairs = parameters.iter();
            let found = pairs.find(|(own, _)| own.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.as_str())
        };
        let Some(signature) = find("sig") else {
            return Ok(None);
        };
        let bad = |why| Err(BlobSasError(why));
        let Ok(signature) = STANDARD.decode(signature) else {
            return bad("'sig' is not base64");
        };
        let (Some(version), Some(expiry)) = (find("sv"), find("se")) else {
            return bad("it names no version ('sv') or no end ('se')");
        };
        if version < OLDEST {
            return bad("its version ('sv') is too old");
        }
        if find("si").is_some() || find("skoid").is_some() {
            return bad("stored policies and user delegation are not offered here");
        }
        let text = |name: &str| find(name).unwrap_or("");
        let (scope, signed) = match find("srt") {
            Some(types) => {
                if !text("ss").contains(['b', 'B']) {
                    return bad("it is not for blobs ('ss')");
                }
                let scope = SasScope::Account {
                    has_containers: types.contains(['c', 'C']),
                    has_objects: types.contains(['o', 'O']),
                };
                (scope, of_account(&text, version, &place.account))
            }
            None => {
                let (scope, resource) = resource(text("sr"), place)?;
                (scope, of_service(&text, version, &resource))
            }
        };
        Ok(Some(Self {
            scope,
            permissions: text("sp").to_owned(),
            start: find("st").map(str::to_owned),
            expiry: expiry.to_owned(),
            addresses: find("sip").map(str::to_owned),
            needs_encryption: text("spr").eq_ignore_ascii_case("https"),
            signed,
            signature,
        }))
    }

    /// Whether it is signed with `key`, in base64; in constant time.
    pub fn is_signed_by(&self, key: &str) -> bool {
        let key = STANDARD.decode(key);
        key.is_ok_and(|key| signature::is_signed(&key, &self.signed, &self.signature))
    }

    /// Whether it grants one of these permissions.
    pub fn permits(&self, any: &str) -> bool {
        any.chars().any(|one| self.permissions.contains(one))
    }
}

/// The resource of a service SAS: its scope, and its name as signed.
fn resource(kind: &str, place: &BlobPath) -> Result<(SasScope, String), BlobSasError> {
    let BlobPath {
        account,
        container: Some(container),
        blob,
    } = place
    else {
        return Err(BlobSasError("it is for a container or blob"));
    };
    match (kind.to_ascii_lowercase().as_str(), blob) {
        ("c", _) => Ok((SasScope::Container, format!("/blob/{account}/{container}"))),
        ("b", Some(blob)) => Ok((
            SasScope::Blob,
            format!("/blob/{account}/{container}/{blob}"),
        )),
        ("b", None) => Err(BlobSasError(
            "it is for a blob, and the request for a container",
        )),
        _ => Err(BlobSasError("'sr' is neither 'c' nor 'b'")),
    }
}

fn of_account<'a>(text: &impl Fn(&str) -> &'a str, version: &str, account: &str) -> String {
    let mut signed = format!("{account}\n");
    let names = ["sp", "ss", "srt", "st", "se", "sip", "spr", "sv"];
    for value in names.map(text) {
        signed.extend([value, "\n"]);
    }
    if version >= WITH_SCOPE {
        signed.extend([text("ses"), "\n"]);
    }
    signed
}

fn of_service<'a>(text: &impl Fn(&str) -> &'a str, version: &str, resource: &str) -> String {
    let mut parts = vec![text("sp"), text("st"), text("se"), resource, ""];
    parts.extend(["sip", "spr", "sv"].map(text));
    if version >= WITH_RESOURCE {
        parts.extend([text("sr"), text("snapshot")]);
    }
    if version >= WITH_SCOPE {
        parts.push(text("ses"));
    }
    parts.extend(["rscc", "rscd", "rsce", "rscl", "rsct"].map(text));
    parts.join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::path::parameters;
    use super::*;

    const KEY: &str =
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

    fn sas(query: &str, path: &str) -> Result<Option<BlobSas>, BlobSasError> {
        BlobSas::parse(&parameters(query).unwrap(), &BlobPath::parse(path).unwrap())
    }

    /// Made by azure-storage-blob 12.31.1.
    #[test]
    fn signatures_of_the_python_client_are_verified() {
        let vectors = [
            (
                "se=2030-01-01T00%3A00%3A00Z&sp=rw&sv=2026-10-06&sr=b\
                 &sig=oz9JOTmeUMqEVWcr%2B5RCWZ/BlQ27OeFhOfE30Ap83zs%3D",
                "/dev/box/a/%C3%BC%20b",
                SasScope::Blob,
            ),
            (
                "st=2026-01-01T00%3A00%3A00Z&se=2030-01-01T00%3A00%3A00Z&sp=rl\
                 &sip=10.0.0.1-10.0.0.9&spr=https&sv=2026-10-06&sr=c\
                 &sig=scsWGy/5DMuoXuhcfWjlx4oyJ2L32sOrcqrAoolhZiI%3D",
                "/dev/box/whatever",
                SasScope::Container,
            ),
            (
                "se=2030-01-01T00%3A00%3A00Z&sp=rwdlc&sv=2026-10-06&ss=b&srt=co\
                 &sig=bmzeXGt/MxpsBwcVAGKyDAqB4%2BCbtzYdac8vxUsj7E4%3D",
                "/dev",
                SasScope::Account {
                    has_containers: true,
                    has_objects: true,
                },
            ),
        ];
        for (query, path, scope) in vectors {
            let found = sas(query, path).unwrap().unwrap();
            assert_eq!(found.scope, scope);
            assert!(found.is_signed_by(KEY), "{query}");
            assert!(!found.is_signed_by("Zm9v"));
            assert!(found.permits("xr") && !found.permits("x"));
            let more = query.replacen("sp=r", "sp=dr", 1);
            assert!(!sas(&more, path).unwrap().unwrap().is_signed_by(KEY));
        }
        let elsewhere = sas(vectors[0].0, "/dev/box/b").unwrap().unwrap();
        assert!(!elsewhere.is_signed_by(KEY));
        let limited = sas(vectors[1].0, vectors[1].1).unwrap().unwrap();
        assert!(limited.needs_encryption);
        assert_eq!(limited.addresses.as_deref(), Some("10.0.0.1-10.0.0.9"));
    }

    #[test]
    fn what_cannot_be_verified_is_refused() {
        let rest = "sv=2020-12-06&se=2030-01-01&sp=r";
        assert_eq!(sas(rest, "/a/c/b"), Ok(None));
        for query in [
            "sig=%3F&sv=2020-12-06&se=2030-01-01&sr=c",
            "sig=YQ%3D%3D&sv=2020-12-06&sr=c",
            "sig=YQ%3D%3D&se=2030-01-01&sr=c",
            "sig=YQ%3D%3D&sv=2014-02-14&se=2030-01-01&sr=c",
            "sig=YQ%3D%3D&sv=2020-12-06&se=2030-01-01&sr=c&si=policy",
            "sig=YQ%3D%3D&sv=2020-12-06&se=2030-01-01&sr=c&skoid=x",
            "sig=YQ%3D%3D&sv=2020-12-06&se=2030-01-01&sr=s",
            "sig=YQ%3D%3D&sv=2020-12-06&se=2030-01-01&ss=q&srt=sco",
        ] {
            assert!(sas(query, "/a/c/b").is_err(), "{query}");
        }
        let blob = "sig=YQ%3D%3D&sv=2020-12-06&se=2030-01-01&sr=b";
        assert!(sas(blob, "/a/c").is_err());
        assert!(sas(blob, "/a/c/b").unwrap().is_some());
    }

    #[test]
    fn enumerated_parameters_are_read_without_case() {
        let rest = "sig=YQ%3D%3D&sv=2020-12-06&se=2030-01-01";
        let found = sas(&format!("{rest}&sr=B&spr=HTTPS"), "/a/c/b");
        let found = found.unwrap().unwrap();
        assert_eq!(
            (found.scope, found.needs_encryption),
            (SasScope::Blob, true)
        );
        let account = sas(&format!("{rest}&ss=B&srt=CO"), "/a").unwrap().unwrap();
        let all = SasScope::Account {
            has_containers: true,
            has_objects: true,
        };
        assert_eq!(account.scope, all);
    }

    #[test]
    fn an_account_s_signature_is_for_the_types_that_it_names() {
        for (types, has_containers, has_objects) in
            [("s", false, false), ("c", true, false), ("o", false, true)]
        {
            let query = format!("sig=YQ%3D%3D&sv=2020-12-06&se=2030-01-01&ss=b&srt={types}");
            let scope = sas(&query, "/a/c/b").unwrap().unwrap().scope;
            let expected = SasScope::Account {
                has_containers,
                has_objects,
            };
            assert_eq!(scope, expected, "{types}");
        }
    }
}
