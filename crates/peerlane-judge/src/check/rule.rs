//! What a rule is: its name, how it looks, what it explains, and what to do with the part that it names.

use super::nodes;
use super::raised::Raised;
use super::view::View;
use crate::action::Action;
use crate::finding::{Certainty, FindingKind, Severity};

/// What rules look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One machine, with what was measured on it.
    Machine,
    /// Nodes that measured each other.
    Nodes,
    /// Records of many machines, or of one at several times.
    Fleet,
}

/// A rule.
pub(crate) struct Rule {
    /// Name in findings and in `docs/rules.md`.
    pub(crate) id: &'static str,
    /// Whether its faults are of no one machine, or as often the job's as the machine's.
    is_watched: bool,
    /// Whether what it reports is a fault on however many machines of a kind.
    is_never_usual: bool,
    /// Rules whose findings its faults explain, where they are about the same parts, with a space between names.
    explains: &'static str,
    look: Look,
    /// How a rule that looks at a machine looks at what the findings of others leave over.
    left: Option<LookAtLeft>,
    /// How a rule that looks at machines or fleets looks at nodes.
    nodes: Option<LookAtNodes>,
}

/// How a rule looks at nodes that measured each other.
type LookAtNodes = fn(&nodes::View) -> Vec<Raised>;

/// How a rule looks at a machine on which others found this.
type LookAtLeft = fn(&View, &[Raised]) -> Vec<Raised>;

/// How a rule looks.
pub(super) enum Look {
    /// At a machine, for one finding at most.
    One(fn(&View) -> Option<Raised>),
    /// At a machine, for any number of findings.
    Many(fn(&View) -> Vec<Raised>),
    /// At a machine, for what the findings of other rules leave over.
    Left(LookAtLeft),
    /// At nodes that measured each other.
    Nodes(LookAtNodes),
    /// At records of many machines, by what is usual among them ([`crate::fleet`]).
    Fleet,
}

impl Rule {
    /// A rule that explains nothing, and whose faults take the part that they name out of service.
    pub(super) const fn new(id: &'static str, look: Look) -> Self {
        Rule { id, is_watched: false, is_never_usual: false, explains: "", look, left: None, nodes: None }
    }

    /// With faults that are only watched: no one machine is to blame, or as often the job is.
    pub(super) const fn watched(self) -> Self {
        Rule { is_watched: true, ..self }
    }

    /// With faults that are no property of a kind, however many of its machines have them: what corrupts data, hangs or fails.
    pub(super) const fn never_usual(self) -> Self {
        Rule { is_never_usual: true, ..self }
    }

    /// With the rules whose findings it explains, with a space between names.
    pub(super) const fn explains(self, rules: &'static str) -> Self {
        Rule { explains: rules, ..self }
    }

    /// Looks at what the findings of others leave over, too.
    pub(super) const fn and_left(self, look: LookAtLeft) -> Self {
        Rule { left: Some(look), ..self }
    }

    /// Looks at nodes, too.
    pub(super) const fn and_nodes(self, look: LookAtNodes) -> Self {
        Rule { nodes: Some(look), ..self }
    }

    /// Whether it looks at these.
    pub(super) fn is_of(&self, scope: Scope) -> bool {
        match scope {
            Scope::Machine => matches!(self.look, Look::One(_) | Look::Many(_) | Look::Left(_)),
            Scope::Nodes => self.nodes.is_some() || matches!(self.look, Look::Nodes(_)),
            Scope::Fleet => matches!(self.look, Look::Fleet),
        }
    }

    /// What it finds on a machine.
    pub(super) fn machine(&self, view: &View) -> Vec<Raised> {
        match self.look {
            Look::One(look) => look(view).into_iter().collect(),
            Look::Many(look) => look(view),
            Look::Left(_) | Look::Nodes(_) | Look::Fleet => Vec::new(),
        }
    }

    /// What it finds on a machine where others found this.
    pub(super) fn left(&self, view: &View, known: &[Raised]) -> Vec<Raised> {
        let look = if let Look::Left(look) = self.look { Some(look) } else { self.left };
        look.map_or_else(Vec::new, |look| look(view, known))
    }

    /// What it finds between nodes.
    pub(super) fn nodes(&self, view: &nodes::View) -> Vec<Raised> {
        let look = if let Look::Nodes(look) = self.look { Some(look) } else { self.nodes };
        look.map_or_else(Vec::new, |look| look(view))
    }

    /// Whether what it reports is a fault on however many machines of a kind.
    pub(super) fn is_never_usual(&self) -> bool {
        self.is_never_usual
    }

    /// Whether it names causes of what others find.
    pub(super) fn is_cause(&self) -> bool {
        !self.explains.is_empty()
    }

    /// Whether its faults may be why another rule reports.
    pub(super) fn may_explain(&self, rule: &str) -> bool {
        self.explains.split(' ').any(|own| own == rule)
    }

    /// A finding of this rule, without texts and about the machine as a whole.
    pub(crate) fn raise(&self, kind: FindingKind, severity: Severity, certainty: Certainty) -> Raised {
        Raised::new(self.id, kind, severity, certainty)
    }

    /// What follows from a fault of this rule, which a reset may repair.
    pub(super) fn action(&self, reset: bool) -> Action {
        match (self.is_watched, reset) {
            (true, _) => Action::Monitor,
            (false, true) => Action::Reset,
            (false, false) => Action::Isolate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{RULES, rule_ids};
    use super::*;

    #[test]
    fn every_rule_has_a_name_of_its_own() {
        for (at, rule) in RULES.iter().enumerate() {
            let same = RULES.iter().position(|other| other.id == rule.id);
            assert_eq!(same, Some(at), "two rules are called {}", rule.id);
        }
    }

    #[test]
    fn a_rule_may_look_at_several_scopes() {
        let scopes = [Scope::Machine, Scope::Nodes, Scope::Fleet];
        let of = |id: &str| scopes.map(|scope| rule_ids(scope).any(|own| own == id));
        assert_eq!(of("narrow-link"), [true, false, false]);
        assert_eq!(of("corrupt-data"), [true, true, false]);
        assert_eq!(of("slow-node"), [false, true, false]);
        assert_eq!(of("worse-than-before"), [false, true, true]);
    }

    #[test]
    fn causes_come_before_what_they_explain() {
        let place = |id: &str| RULES.iter().position(|rule| rule.id == id);
        for (at, rule) in RULES.iter().enumerate() {
            for symptom in rule.explains.split_whitespace() {
                let later =
                    place(symptom).unwrap_or_else(|| panic!("{} explains {symptom}, which is no rule", rule.id));
                // the order counts where one cause leads to another
                assert!(later > at || !RULES[later].is_cause(), "{} stands after {symptom}", rule.id);
            }
        }
    }

    #[test]
    fn the_page_lists_the_rules_that_are_only_watched() {
        let page = include_str!("../../../../docs/rules.md");
        let (_, actions) = page.split_once("\n# Actions\n").unwrap();
        let (actions, _) = actions.split_once("\n# ").unwrap();
        for rule in RULES {
            let is_listed = actions.contains(&format!("`{}`", rule.id));
            assert_eq!(is_listed, rule.is_watched, "docs/rules.md, \"Actions\": {}", rule.id);
        }
    }
}
