//! `NodeId`: the index of a node in its cluster, never reused.

use std::fmt;

use crate::limits::NODES_MAX;

/// The index of a node in its cluster, from 0. It is never reused.
///
/// Its order is the order in which two tokens are taken, and the order of the nodes' names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(u16);

impl NodeId {
    /// The id with this index, or nothing when the index is not below
    /// [`NODES_MAX`].
    pub fn new(index: usize) -> Option<Self> {
        if index < NODES_MAX { u16::try_from(index).ok().map(Self) } else { None }
    }

    /// The index, from 0.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The 40-digit hexadecimal name, as Redis shows nodes.
    ///
    /// It starts with the index, so that names sort as ids do; `seed` tells clusters apart.
    pub fn name(self, seed: u128) -> String {
        format!("{:04x}{:032x}{:04x}", self.0, seed, !self.0)
    }

    /// The word of this id in packed form, in which 0 means nobody.
    pub(crate) const fn packed(self) -> u64 {
        self.0 as u64 + 1
    }

    /// The id behind the low 16 bits of a packed word.
    pub(crate) const fn unpacked(word: u64) -> Option<Self> {
        match (word & 0xffff) as u16 {
            0 => None,
            plus_one => Some(Self(plus_one - 1)),
        }
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_forty_digits_and_sort_as_ids() {
        let ids: Vec<_> = [0, 1, 9, 10, 255, 256, NODES_MAX - 1]
            .into_iter()
            .map(|index| NodeId::new(index).unwrap())
            .collect();
        let names: Vec<_> = ids.iter().map(|id| id.name(7)).collect();
        assert!(names.iter().all(|name| name.len() == 40));
        assert!(names.is_sorted());
        assert_eq!(NodeId::new(NODES_MAX), None);
    }

    #[test]
    fn packing_keeps_every_id_and_nobody() {
        for index in 0..NODES_MAX {
            let id = NodeId::new(index).unwrap();
            assert_eq!(NodeId::unpacked(id.packed()), Some(id));
        }
        assert_eq!(NodeId::unpacked(0), None);
    }
}
