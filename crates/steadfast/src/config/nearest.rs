//! Suggests the known name for a misspelled one.

/// The known key most similar to `key`, if one is similar enough.
pub(super) fn nearest(key: &str, known: impl Iterator<Item = &'static str>) -> Option<String> {
    let likeness = |name: &&str| strsim::jaro_winkler(name, key);
    // Short names score low by that measure: one typing error is accepted too.
    let is_slip = |name: &str| strsim::damerau_levenshtein(name, key) <= 1;
    let rank = |name: &&str| (is_slip(name), likeness(name));
    let best = known.max_by(|a, b| {
        let (a, b) = (rank(a), rank(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    })?;
    (is_slip(best) || likeness(&best) > 0.75).then(|| best.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::setting::SETTINGS;
    use super::*;

    #[test]
    fn the_nearest_name_is_found_and_nonsense_has_none() {
        let known = || SETTINGS.iter().map(|setting| setting.key);
        assert_eq!(nearest("http.prot", known()).as_deref(), Some("http.port"));
        assert_eq!(
            nearest("tls.cert", known()).as_deref(),
            Some("tls.certificate")
        );
        assert_eq!(nearest("zzz", known()), None);
    }
}
