//! Lock modes and their compatibility.
//!
//! Shared, update and exclusive. The table is not symmetric: an update lock joins shared
//! holders, but once it is granted no new shared one enters, so a later upgrade to
//! exclusive waits only for existing readers, and two upgraders cannot block each other.

/// How strongly a row is locked; later ones include earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockStrength {
    /// Others may read; no transaction may write.
    Shared,
    /// A read that a write may follow: at most one at a time.
    Update,
    /// Excludes all others.
    Exclusive,
}

impl LockStrength {
    /// Whether a request for this mode may join a holder with `granted`.
    pub fn joins(self, granted: Self) -> bool {
        match self {
            Self::Shared | Self::Update => granted == Self::Shared,
            Self::Exclusive => false,
        }
    }

    /// Whether a holder of this mode needs nothing more to do `wanted`.
    pub fn includes(self, wanted: Self) -> bool {
        self >= wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use LockStrength::{Exclusive, Shared, Update};

    #[test]
    fn c21_the_matrix_is_asymmetric() {
        let expected = [
            (Shared, [true, false, false]),
            (Update, [true, false, false]),
            (Exclusive, [false, false, false]),
        ];
        for (request, row) in expected {
            let found = [Shared, Update, Exclusive].map(|granted| request.joins(granted));
            assert_eq!(found, row, "{request:?}");
        }
    }
}
