//! What a site sets of the rules: thresholds, and findings that it knows and accepts. `docs/rules.md` shows the file.

use serde::Deserialize;

use super::{Finding, rule_ids};
use peerlane_machine::subject::Subject;

/// Settings of the rules.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Settings {
    /// Findings that are accepted.
    pub waive: Vec<Waiver>,
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
    /// Of machines among others of their kind, and against an earlier run.
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
    /// Thresholds of `slow-path`.
    SlowPath {
        /// Below this share of the expectation a rate is slow. The model meets published tables to 13 % at worst;
        /// run-to-run spread of staged copies comes on top.
        slow = 0.75,
        /// The same for copies through host memory, whose rate hangs on chunk sizes, memory and CPU: one published table
        /// spans a factor of two over alike pairs.
        staged = 0.5,
        /// Below this share it is an error.
        very_slow = 0.25,
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
        /// °C from which a GPU is about to slow down: NVIDIA's data-centre GPUs do so between 85 and 90.
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
        /// Below this share of what the model gives a set. Where memory lies takes up to a tenth, and placements of
        /// several GPUs add up.
        slow = 0.5,
    }
}

thresholds! {
    /// Thresholds of comparisons between runs.
    Fleet {
        /// A number must be this far on the bad side of its peers', or of the earlier run's.
        below = 0.08,
        /// And so many robust standard deviations of them.
        deviations = 6.0,
    }
}

/// Why settings cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The text is no such TOML.
    #[error("{0}")]
    Format(String),
    /// A waiver names no rule.
    #[error("[[waive]] names the rule '{rule}', which there is none of; the rules are: {}", known.join(", "))]
    Rule {
        /// As written.
        rule: String,
        /// All there are.
        known: Vec<String>,
    },
    /// A threshold is out of its range.
    #[error("{name} = {value} is out of its range: {range}")]
    Threshold {
        /// Its name.
        name: String,
        /// As written.
        value: String,
        /// What it may be.
        range: String,
    },
}

impl Settings {
    /// Reads the text of a settings file.
    pub fn read(text: &str) -> Result<Settings, SettingsError> {
        let settings: Settings = toml::from_str(text).map_err(|e| SettingsError::Format(e.to_string()))?;
        for waiver in &settings.waive {
            if !rule_ids().chain(super::RULES_OF_RUNS).any(|id| id == waiver.rule) {
                let known = rule_ids().chain(super::RULES_OF_RUNS).map(str::to_owned).collect();
                return Err(SettingsError::Rule { rule: waiver.rule.clone(), known });
            }
        }
        let shares = [
            settings.slow_path.all(),
            settings.uneven_path_class.all(),
            settings.asymmetric_cell.all(),
            settings.crosses_sockets.all(),
            settings.unsteady_rate.all(),
            settings.contended_slow.all(),
            settings.fleet.all().into_iter().filter(|(name, _)| *name == "below").collect(),
        ];
        let refused = |(name, value): &(&str, f64), range: &str| {
            let (name, value, range) = (name.replace('_', "-"), value.to_string(), range.to_owned());
            SettingsError::Threshold { name, value, range }
        };
        if let Some(odd) = shares.iter().flatten().find(|(_, value)| !(*value > 0.0 && *value < 1.0)) {
            return Err(refused(odd, "a share between 0 and 1"));
        }
        let counts = settings.hot_or_throttled.all().into_iter().chain([("deviations", settings.fleet.deviations)]);
        if let Some(odd) = counts.into_iter().find(|(_, value)| !(*value > 0.0 && *value < 1000.0)) {
            return Err(refused(&odd, "above 0 and below 1000"));
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

/// Whether a name is as a pattern says, in which `*` stands for any characters.
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
    use super::super::{Certainty, FindingKind, RULES, Severity};
    use super::*;

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
        for (wrong, says) in [
            ("[slow-path]\nslow = 1.5", "slow = 1.5 is out of its range: a share between 0 and 1"),
            ("[slow-path]\nfast = 1", "unknown field `fast`"),
            ("[hot-or-throttled]\ncelsius = -1", "celsius = -1 is out of its range"),
            ("[[waive]]\nrule = \"slowpath\"\nreason = \"\"", "names the rule 'slowpath'"),
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
