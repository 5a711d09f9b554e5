//! Weak and strong scaling.

use std::fmt;
use std::str::FromStr;

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

/// What stays the same while nodes are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scaling {
    /// What each GPU has to do: ideally the time stays.
    Weak,
    /// What all of them have to do: ideally the time falls as nodes are added.
    Strong,
}

impl FromStr for Scaling {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "weak" => Ok(Scaling::Weak),
            "strong" => Ok(Scaling::Strong),
            _ => Err(format!("'{text}' is not a kind of scaling; write weak or strong")),
        }
    }
}

impl fmt::Display for Scaling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Scaling::Weak => "weak",
            Scaling::Strong => "strong",
        })
    }
}
