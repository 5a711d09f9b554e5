//! What resources of one kind have in common in their names, and what of them is replaced as one.

use std::fmt;

/// What a person would replace to make resources of one kind faster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Component {
    /// Adapters with their links to the network.
    Adapters,
    /// Links of one kind, both directions and what they share, or another resource; `#` for the numbers of nodes and devices.
    Named(String),
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Component::Adapters => f.write_str("the adapters and their links to the network"),
            Component::Named(name) => f.write_str(name),
        }
    }
}

/// `#` for every number that ends a word of letters, as the numbers of nodes and devices do.
pub fn alike(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut in_name = false;
    for c in name.chars() {
        if c.is_ascii_digit() && in_name {
            if !out.ends_with('#') {
                out.push('#');
            }
            continue;
        }
        // versions and widths are numbers of their own: 3.0, x16, 400
        in_name = (c.is_alphabetic() && (in_name || c != 'x')) || (in_name && matches!(c, '_' | '.' | '-'));
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_name_things_are_alike() {
        assert_eq!(
            alike("node3/GPU0–plx12, PCIe 3.0 x16, towards plx12"),
            "node#/GPU#–plx#, PCIe 3.0 x16, towards plx#"
        );
        assert_eq!(alike("leaf3 to spine17"), "leaf# to spine#");
        assert_eq!(alike("node3/mlx5_0 line, sending"), "node#/mlx#_# line, sending");
        assert_eq!(alike("node3 port1 to leaf0"), "node# port# to leaf#");
        assert_eq!(alike("GPU0–nvswitch, NVLink 4 x18"), "GPU#–nvswitch, NVLink 4 x18");
    }
}
