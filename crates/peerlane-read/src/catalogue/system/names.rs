//! Names that a system file uses: looked up, or refused with what may have been meant.

use toml::Spanned;

use super::problems::SystemError;
use super::source::Source;
use peerlane_machine::fabric::{Fabric, NodeId};
use peerlane_machine::names::closest;

/// What to write instead of a name that is not there.
pub(super) fn meant<'n>(asked: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    match closest(asked, names.iter().copied()).as_slice() {
        [] => format!("there are: {}", listed(names)),
        near => did_you_mean(near),
    }
}

/// `did you mean a, b or c?`
pub(super) fn did_you_mean<S: AsRef<str>>(names: &[S]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.split_last() {
        Some((last, first)) if !first.is_empty() => format!("did you mean {} or {last}?", first.join(", ")),
        _ => format!("did you mean {}?", names.join("")),
    }
}

/// Names in a list, for errors.
pub(super) fn listed<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let mut names: Vec<&str> = names.into_iter().collect();
    names.sort_unstable();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// The error for an unknown node, with the known names.
pub(super) fn unknown_node<'n>(
    source: &Source,
    name: &Spanned<String>,
    known: impl IntoIterator<Item = &'n String>,
) -> SystemError {
    let hint = meant(name.get_ref(), known.into_iter().map(String::as_str));
    source.error(name.span(), format!("no node '{}'; {hint}", name.get_ref()))
}

/// The node of that name or alias.
pub(super) fn find_node(source: &Source, fabric: &Fabric, name: &Spanned<String>) -> Result<NodeId, SystemError> {
    let names = || fabric.nodes().iter().flat_map(|n| std::iter::once(&n.name).chain(&n.aliases));
    fabric.find(name.get_ref()).ok_or_else(|| unknown_node(source, name, names()))
}
