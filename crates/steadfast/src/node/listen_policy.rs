//! The policy for listening beyond loopback.

use steadfast_net::access::KeyRing;

use crate::config::{Config, Error, ErrorKind};

/// Refuses to listen beyond loopback without keys, or without TLS unless plain is allowed.
pub(super) fn check(config: &Config, ring: &KeyRing, is_development: bool) -> Result<(), Error> {
    let listen = config.listen;
    if listen.is_loopback() {
        return Ok(());
    }
    let refuse = |why: &str, cure: &str| {
        Err(Error::new(ErrorKind::Exposed {
            why: format!("listening on {listen} is refused, {why}"),
            cure: cure.to_owned(),
        }))
    };
    if is_development {
        return refuse(
            "because everybody knows the development keys",
            "use `steadfast serve` with keys of your own",
        );
    }
    if ring.is_empty() {
        return refuse(
            "because there is no key",
            "make one with `steadfast key create`, or declare one in the file",
        );
    }
    if config.tls.is_none() && !config.allow_plain {
        return refuse(
            "because nothing would be encrypted",
            "set tls.certificate and tls.key, or tls.allow_plain = true if a proxy encrypts",
        );
    }
    Ok(())
}

/// Refuses a cluster port beyond loopback without TLS, unless plain is allowed.
pub(super) fn check_nodes(config: &Config) -> Result<(), Error> {
    let listen = config.listen;
    if listen.is_loopback() || config.tls.is_some() || config.allow_plain {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Exposed {
        why: format!("a cluster port on {listen} is refused, because nothing would be encrypted"),
        cure: "set tls.certificate and tls.key, or tls.allow_plain = true on a network of your own"
            .to_owned(),
    }))
}

#[cfg(test)]
mod tests {
    use steadfast_net::access::{Grant, Key, Secret};

    use super::*;
    use crate::config::Layers;

    fn refusal(flags: &[&str], has_key: bool, is_development: bool) -> Option<String> {
        let layers = flags
            .iter()
            .try_fold(Layers::new(), |layers, flag| layers.flag(flag));
        let config = Config::new(&layers.unwrap()).unwrap();
        let mut ring = KeyRing::new();
        if has_key {
            ring.add(Key {
                name: "a".to_owned(),
                grants: vec![Grant::everything()],
                primary: Secret::new("b"),
                secondary: None,
            });
        }
        let checked = check(&config, &ring, is_development);
        checked.err().map(|error| error.to_string())
    }

    #[test]
    fn loopback_needs_nothing() {
        assert_eq!(refusal(&[], false, true), None);
        assert_eq!(refusal(&["listen=::1"], false, false), None);
    }

    #[test]
    fn beyond_loopback_needs_keys_and_tls() {
        let open = "listen=0.0.0.0";
        let without_key = refusal(&[open], false, false).unwrap();
        assert!(without_key.starts_with("STF-7004") && without_key.contains("no key"));
        let plain = refusal(&[open], true, false).unwrap();
        assert!(plain.contains("nothing would be encrypted"), "{plain}");
        assert_eq!(refusal(&[open, "tls.allow_plain=true"], true, false), None);
        assert_eq!(
            refusal(&[open, "tls.certificate=a", "tls.key=b"], true, false),
            None
        );
        assert!(
            refusal(&[open], true, true)
                .unwrap()
                .contains("development keys")
        );
    }
}
