//! What NCCL's logs show of its settings, for other commands than `tune`.

use std::collections::BTreeMap;

use peerlane_machine::fact::Fact;
use peerlane_machine::machine::Machine;
use peerlane_machine::transfer::Collective;
use peerlane_machine::units::Bytes;
use peerlane_read::catalogue::Parts;

use super::candidates::{Request, tune};
use super::document::{Action, Setting};

/// The variables that NCCL's logs show, with where they do.
pub fn logged(machine: &Machine) -> Vec<Setting> {
    let mut found: BTreeMap<String, Setting> = BTreeMap::new();
    for evidence in &machine.evidence {
        let Fact::NcclLog(log) = &evidence.fact else { continue };
        for (name, value) in log.variables.iter().filter(|(name, _)| name.starts_with("NCCL_")) {
            let source = evidence.origin.to_string();
            found.insert(name.clone(), Setting { name: name.clone(), value: value.clone(), source });
        }
    }
    found.into_values().collect()
}

/// Of the variables that NCCL's logs show, those to remove, with the predicted gain for messages of this size: `Without
/// NCCL_PROTO=LL it is predicted to be 2.5 times as fast.` `None` where none is predicted to cost speed.
pub fn advice(machine: &Machine, parts: &Parts, collective: Collective, size: Bytes) -> Option<String> {
    let environment = logged(machine);
    if environment.is_empty() {
        return None;
    }
    let request = Request { collective, gpus: Vec::new(), sizes: vec![size], environment };
    let document = tune(machine, parts, &request).ok()?;
    let sentence = |(action, gain): (&Action, f64)| match action {
        Action::Unset { name, value } => {
            Some(format!("Without {name}={value} it is predicted to be {gain:.1} times as fast."))
        }
        _ => None,
    };
    let gains = document.suggestions.iter().filter_map(|s| Some((&s.action, s.best()?.gain)));
    let sentences: Vec<String> = gains.filter_map(sentence).collect();
    (!sentences.is_empty()).then(|| sentences.join(" "))
}
