//! Names of containers.

/// Letters in lower case, digits, and single hyphens between them.
pub fn is_container_name(name: &str) -> bool {
    let is_word = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit();
    (3..=63).contains(&name.len())
        && name
            .split('-')
            .all(|part| !part.is_empty() && part.chars().all(is_word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_containers_are_those_of_the_service() {
        for name in ["checkpoints", "a-1", "123"] {
            assert!(is_container_name(name), "{name}");
        }
        let long = "a".repeat(64);
        for name in ["", "ab", "Box", "a--b", "-ab", "ab-", "a_b", "$web", &long] {
            assert!(!is_container_name(name), "{name}");
        }
    }
}
