//! What resources of one kind have in common in their names, and what of them is replaced as one.

/// What a person would replace to make a group of resources faster: both directions of a link and what they share; an
/// adapter with its link to the network. Takes the words of [`Router::group`](super::Router::group).
pub fn component(group: &str) -> String {
    const ADAPTERS: &str = "the adapters and their links to the network";
    if group.ends_with(" line, sending") || group.ends_with(" line, receiving") {
        return ADAPTERS.to_owned();
    }
    if let Some((from, to)) = group.split_once(" to ").filter(|_| !group.contains(',')) {
        let is_node = |end: &str| end.starts_with("node#");
        return match (is_node(from), is_node(to)) {
            (false, false) | (true, true) => format!("{} – {}", from.min(to), from.max(to)),
            _ => ADAPTERS.to_owned(),
        };
    }
    let ends = [", towards ", ", both ways", ", staged traffic both ways"];
    ends.iter().find_map(|end| group.split_once(end)).map_or(group, |(link, _)| link).to_owned()
}

/// `#` for every number that ends a word of letters, as the numbers of nodes and devices do.
pub(super) fn alike(name: &str) -> String {
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

    #[test]
    fn what_is_replaced_as_one_is_one_component() {
        let one =
            |groups: &[&str]| groups.iter().map(|g| component(g)).collect::<std::collections::BTreeSet<_>>().len();
        assert_eq!(one(&["GPU#–nvswitch, NVLink 4 x18, both ways", "GPU#–nvswitch, NVLink 4 x18, towards GPU#"]), 1);
        assert_eq!(one(&["node#/mlx#_# line, sending", "node# port# to leaf#", "leaf# to node# port#"]), 1);
        assert_eq!(one(&["leaf# to spine#", "spine# to leaf#"]), 1);
        assert_eq!(one(&["leaf# to spine#", "spine# to core#", "node# to node#", "node#/GPU#–plx#, PCIe 3.0 x16"]), 4);
    }
}
