//! An inference that was written down.

use super::document::{Inference, SCHEMA};
use super::flows::FlowKind;
use peerlane_read::evidence::from_json;

/// The first version, which had two other names for fields; aliases read them.
const FIRST_SCHEMA: &str = "peerlane/inference/1";

/// Why a record is of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// It is no such record.
    #[error("not a {SCHEMA}: {0}")]
    Format(String),
    /// It is of another machine.
    #[error("it is of {of} and names {missing}, which {machine} has not")]
    OtherMachine {
        /// The machine that it names as its own.
        of: String,
        /// A GPU that it names.
        missing: String,
        /// The machine that it should join.
        machine: String,
    },
}

/// Whether a text is a written inference, or means to be.
pub fn looks_like_inference(text: &str) -> bool {
    let start = text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']);
    start.starts_with('{') && text.contains("\"schema\"") && text.contains("\"peerlane/inference/")
}

impl Inference {
    /// Reads a record.
    pub fn from_json(text: &str) -> Result<Self, RecordError> {
        let mut found: Inference = from_json(text).map_err(|e| RecordError::Format(e.to_string()))?;
        if found.schema == FIRST_SCHEMA {
            found.schema = SCHEMA.to_owned();
        }
        if found.schema != SCHEMA {
            return Err(RecordError::Format(format!("its schema is {}", found.schema)));
        }
        let sound = |g: &super::InferredGroup| {
            let numbers = [g.capacity, g.low, g.high, g.confidence];
            numbers.iter().all(|x| x.is_finite()) && g.capacity > 0.0 && g.low <= g.high && !g.members.is_empty()
        };
        match found.groups.iter().find(|g| !sound(g)) {
            Some(group) => Err(RecordError::Format(format!("the group of {} is none", group.members.join(", ")))),
            None => Ok(found),
        }
    }

    /// The GPUs that it names.
    pub(crate) fn gpus(&self) -> impl Iterator<Item = &str> {
        let flows = self.coverage.iter().flat_map(|a| a.alone.iter().map(|rate| rate.flow.as_str()));
        let members = self.groups.iter().flat_map(|g| g.members.iter().map(String::as_str));
        flows.chain(members).flat_map(|name| name.split('→'))
    }
}

impl FlowKind {
    /// Whether a flow of it is one GPU with host memory.
    pub fn with_host(self) -> bool {
        self != FlowKind::GpuToGpu
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::infer::recorded;
    use peerlane_read::catalogue;

    #[test]
    fn a_record_comes_back() {
        let machine = |name| catalogue::system(name).unwrap().unwrap();
        let found = recorded(&machine("exxact-txr550"), None, "what is on record");
        let text = serde_json::to_string(&found).unwrap();
        assert!(looks_like_inference(&text) && !looks_like_inference("{}"));
        assert_eq!(Inference::from_json(&text).unwrap(), found);
        let first = text
            .replace(SCHEMA, FIRST_SCHEMA)
            .replace("\"coverage\"", "\"asked\"")
            .replace("\"interference\"", "\"beside\"");
        assert!(first != text && Inference::from_json(&first).unwrap() == found);
        let mut found = found;
        found.groups.push(crate::infer::InferredGroup {
            members: vec!["GPU6".to_owned(), "GPU7".to_owned()],
            direction: FlowKind::Both,
            capacity: 20.0,
            low: 19.0,
            high: 21.0,
            confidence: 0.9,
            sets: Vec::new(),
        });
        found.groups[0].low = 30.0;
        let broken = Inference::from_json(&serde_json::to_string(&found).unwrap()).unwrap_err();
        assert_eq!(broken.to_string(), "not a peerlane/inference/2: the group of GPU6, GPU7 is none");
    }
}
