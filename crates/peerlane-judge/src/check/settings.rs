//! A site's settings of the rules: thresholds, and findings that it knows and accepts. `docs/rules.md` shows the file.

use serde::Deserialize;

use super::{OUTLIER, RULES};
use crate::finding::Finding;
use peerlane_machine::one_line;
use peerlane_machine::subject::Subject;
use peerlane_read::knowledge::entry;

/// What the rule `outlier` was called; waivers may still use the name.
const OLD_OUTLIER: &str = "odd-one-out";

/// Settings of the rules.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Settings {
    /// Findings that are accepted.
    pub waive: Vec<Waiver>,
    /// From which loss on a fault is an error.
    pub severity: Severity,
    /// Of `slow-path`.
    pub slow_path: SlowPath,
    /// Of `uneven-path-class`.
    pub uneven_path_class: UnevenPathClass,
    /// Of `asymmetric-cell`.
    pub asymmetric_cell: AsymmetricCell,
    /// Of `hot-or-throttled`.
    pub hot_or_throttled: HotOrThrottled,
    /// Of `crosses-sockets`.
    pub crosses_sockets: CrossesSockets,
    /// Of `unsteady-rate`.
    pub unsteady_rate: UnsteadyRate,
    /// Of `contended-slow`.
    pub contended_slow: ContendedSlow,
    /// Of comparisons between machines of one kind, and with an earlier run.
    pub fleet: Fleet,
}

/// A finding that is known and accepted: it is listed separately, and counts neither in the verdict nor in the exit status.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waiver {
    /// The rule.
    pub rule: String,
    /// Nodes and pairs, either end first; a finding is waived if all of its subjects are among them, or are pairs of nodes
    /// that are. Empty: all.
    #[serde(default)]
    pub subjects: Vec<String>,
    /// Machines by name; `*` stands for any characters. Empty: all.
    #[serde(default)]
    pub machines: Vec<String>,
    /// Why.
    pub reason: String,
}

macro_rules! thresholds {
    ($(#[$of:meta])* $name:ident { $($(#[$doc:meta])* $field:ident = $value:expr,)+ }) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
        pub struct $name {
            $($(#[$doc])* pub $field: f64,)+
        }

        impl Default for $name {
            fn default() -> Self {
                $name { $($field: $value,)+ }
            }
        }

        impl $name {
            /// Each threshold with its name.
            fn all(&self) -> Vec<(&'static str, f64)> {
                vec![$((stringify!($field), self.$field),)+]
            }
        }
    };
}

thresholds! {
    /// From which loss on a fault of any rule is an error: shares of what a path or a collective should give. One that loses no more
    /// is a warning, and leaves the machine UNEXPLAINED. By default every fault is an error.
    Severity {
        /// Lost by more than this.
        error = 0.0,
        /// The same where a source states the cause, as it does of a GPU that throttles.
        certain = 0.0,
    }
}

thresholds! {
    /// Thresholds of `slow-path`.
    SlowPath {
        /// Below this share of the expectation a rate is slow. The model meets published tables to 13 % at worst;
        /// run-to-run spread of staged copies comes on top.
        slow = 0.75,
        /// The same for copies through host memory, whose rate depends on chunk sizes, memory and CPU: one published table
        /// spans a factor of two over similar pairs.
        staged = 0.5,
    }
}

thresholds! {
    /// Thresholds of `uneven-path-class`.
    UnevenPathClass {
        /// A pair must be this far below its class's median.
        below = 0.05,
        /// From this shortfall on it is a warning.
        much = 0.25,
    }
}

thresholds! {
    /// Thresholds of `asymmetric-cell`.
    AsymmetricCell {
        /// Mirrored cells that sum the same two directions may differ by this much.
        both_ways = 0.10,
        /// Mirrored cells of one direction each may differ by this much.
        one_way = 0.20,
    }
}

thresholds! {
    /// Thresholds of `hot-or-throttled`.
    HotOrThrottled {
        /// °C from which a GPU is close to throttling: NVIDIA's data-centre GPUs do so between 85 and 90.
        celsius = 85.0,
    }
}

thresholds! {
    /// Thresholds of `crosses-sockets`.
    CrossesSockets {
        /// Below this share of the best class's rate, crossing costs enough for a warning.
        costly = 0.5,
    }
}

thresholds! {
    /// Thresholds of `unsteady-rate`.
    UnsteadyRate {
        /// Levels must be this far apart, as a share of the higher.
        apart = 0.05,
    }
}

thresholds! {
    /// Thresholds of `contended-slow`.
    ContendedSlow {
        /// Below this share of what the model gives a set. The location of buffers costs up to a tenth, and that of several
        /// GPUs adds up.
        slow = 0.5,
    }
}

thresholds! {
    /// Thresholds of comparisons between runs.
    Fleet {
        /// A number must be this far on the bad side of its peers', or of the earlier run's.
        below = 0.08,
        /// And this many robust standard deviations away from them.
        deviations = 6.0,
    }
}

/// Why settings cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The text is not valid TOML, or not of this form.
    #[error("{0}")]
    Format(String),
    /// A waiver names an unknown rule.
    #[error("[[waive]] names the unknown rule '{0}'; the rules are: {rules}", rules = all_rules().join(", "))]
    Rule(String),
    /// A threshold is out of its range.
    #[error("{name} = {value} is out of its range: {range}")]
    Threshold {
        /// Its name.
        name: String,
        /// As written.
        value: String,
        /// What is allowed.
        range: &'static str,
    },
}

fn all_rules() -> Vec<&'static str> {
    RULES.iter().map(|rule| rule.id).collect()
}

impl Settings {
    /// Reads the text of a settings file.
    pub fn read(text: &str) -> Result<Settings, SettingsError> {
        let mut settings: Settings = toml::Deserializer::parse(text)
            .and_then(one_line::read)
            .map_err(|e| SettingsError::Format(e.to_string()))?;
        for waiver in &mut settings.waive {
            if waiver.rule == OLD_OUTLIER {
                OUTLIER.id.clone_into(&mut waiver.rule);
            }
            if !all_rules().contains(&waiver.rule.as_str()) && entry(&waiver.rule).is_none() {
                return Err(SettingsError::Rule(waiver.rule.clone()));
            }
        }
        let shares = [
            settings.severity.all(),
            settings.slow_path.all(),
            settings.uneven_path_class.all(),
            settings.asymmetric_cell.all(),
            settings.crosses_sockets.all(),
            settings.unsteady_rate.all(),
            settings.contended_slow.all(),
            settings.fleet.all().into_iter().filter(|(name, _)| *name == "below").collect(),
        ];
        let counts = settings.hot_or_throttled.all().into_iter().chain([("deviations", settings.fleet.deviations)]);
        let shares = shares.into_iter().flatten().map(|share| (share, 1.0, "a share between 0 and 1"));
        for ((name, value), most, range) in shares.chain(counts.map(|count| (count, 1000.0, "above 0 and below 1000")))
        {
            let is_default = value == 0.0 && ["error", "certain"].contains(&name);
            if !(is_default || value > 0.0 && value < most) {
                return Err(SettingsError::Threshold { name: name.replace('_', "-"), value: value.to_string(), range });
            }
        }
        Ok(settings)
    }

    /// The waiver that covers a finding of a machine, if one does.
    pub fn waiver(&self, machine: &str, finding: &Finding) -> Option<&Waiver> {
        self.waive.iter().find(|w| w.covers(machine, finding))
    }
}

impl Waiver {
    fn covers(&self, machine: &str, finding: &Finding) -> bool {
        let written = |name: &str| self.subjects.iter().any(|own| own == name);
        let named = |subject: &Subject| {
            self.subjects.iter().any(|own| subject.is_written(own))
                || subject.ends().is_some_and(|(a, b)| written(a) || written(b))
        };
        self.rule == finding.rule
            && (self.machines.is_empty() || self.machines.iter().any(|pattern| matches(pattern, machine)))
            && (self.subjects.is_empty() || finding.subjects.iter().all(named))
    }
}

/// Whether a name matches a pattern, in which `*` stands for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(head) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let tail = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = left.find(part) else { return false };
        left = left.get(at + part.len()..).unwrap_or_default();
    }
    left.ends_with(tail)
}

#[cfg(test)]
mod tests {
    use super::super::RULES;
    use super::*;
    use crate::finding::{Certainty, FindingKind, Severity};

    fn finding(pairs: &[(&str, &str)]) -> Finding {
        let rule = RULES.iter().find(|r| r.id == "p2p-refused").unwrap();
        let subjects = pairs.iter().map(|(a, b)| Subject::Pair((*a).to_owned(), (*b).to_owned())).collect();
        rule.raise(FindingKind::Design, Severity::Warning, Certainty::Certain).about(subjects).finding
    }

    #[test]
    fn thresholds_and_waivers_are_read_and_the_rest_is_refused() {
        let settings = Settings::read("[slow-path]\nslow = 0.9\n[fleet]\ndeviations = 4\n").unwrap();
        assert_eq!((settings.slow_path.slow, settings.slow_path.staged), (0.9, 0.5));
        assert_eq!(Settings::read("").unwrap(), Settings::default());
        let old = Settings::read("[[waive]]\nrule = \"odd-one-out\"\nreason = \"\"").unwrap();
        assert_eq!(old.waive[0].rule, OUTLIER.id);
        for (wrong, says) in [
            ("[slow-path]\nslow = 1.5", "slow = 1.5 is out of its range: a share between 0 and 1"),
            ("[slow-path]\nfast = 1", "unknown field `fast`"),
            ("[hot-or-throttled]\ncelsius = -1", "celsius = -1 is out of its range"),
            ("[[waive]]\nrule = \"slowpath\"\nreason = \"\"", "names the unknown rule 'slowpath'"),
            ("[[waive]]\nrule = \"slow-path\"", "missing field `reason`"),
        ] {
            let error = Settings::read(wrong).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn a_waiver_covers_what_it_names() {
        let text = "[[waive]]\nrule = \"p2p-refused\"\nsubjects = [\"GPU1-GPU0\", \"GPU7\"]\nmachines = [\"node*\"]\n\
                    reason = \"as bought\"";
        let settings = Settings::read(text).unwrap();
        let waived = |machine: &str, pairs: &[(&str, &str)]| settings.waiver(machine, &finding(pairs)).is_some();
        let one = ("GPU0", "GPU1");
        assert!(waived("node3", &[one]) && waived("node3", &[("GPU7", "GPU2"), one]));
        assert!(!waived("other", &[one]) && !waived("node3", &[("GPU0", "GPU2")]));
    }

    #[test]
    fn stars_stand_for_anything() {
        assert!(matches("a*c", "abc") && matches("*", "") && matches("a*b*c", "a1b2c") && matches("ab", "ab"));
        assert!(!matches("a*c", "abd") && !matches("a*b*c", "acb") && !matches("a*a", "a"));
    }
}
