//! Arguments without names that no tool has: a mistyped one is refused, since the answer without it would be to another question.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// Arguments that have no other names than their schema.
#[derive(Debug)]
pub(crate) struct Strict<T>(pub(crate) T);

impl<T: JsonSchema> JsonSchema for Strict<T> {
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = T::json_schema(generator);
        schema.insert("additionalProperties".to_owned(), false.into());
        schema
    }
}

impl<'de, T: DeserializeOwned + JsonSchema> Deserialize<'de> for Strict<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let given: Map<String, Value> = Map::deserialize(deserializer)?;
        let schema = schemars::schema_for!(T);
        let known: Vec<&String> =
            schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys).collect();
        if let Some(unknown) = given.keys().find(|name| !known.contains(name)) {
            let shown: String = unknown.chars().take(40).collect();
            let known: Vec<&str> = known.into_iter().map(String::as_str).collect();
            return Err(D::Error::custom(format!("no argument '{shown}'; there are: {}", known.join(", "))));
        }
        serde_json::from_value(Value::Object(given)).map(Strict).map_err(D::Error::custom)
    }
}
