//! How a NIC accesses memory, as commands and system files write it.

use std::fmt;
use std::str::FromStr;

use crate::schema::JsonSchema;
use serde::{Serialize, Serializer};

use crate::units::Bytes;

/// How a NIC accesses memory. Read from `nvp2p`, `bar1`, `staged` or `staged:chunk=256K,depth=4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// NVIDIA's own peer-to-peer protocol (GPUDirect v2), which the NIC must support.
    Nvp2p,
    /// PCIe reads and writes of the window that the GPU opens on its memory (GPUDirect RDMA).
    Bar1,
    /// The GPU copies to or from host memory, and the NIC reads or writes there.
    Staged(Pipeline),
    /// No GPU: the data is in host memory.
    Host,
}

/// How a staged message is divided, so that copies and the network work at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub struct Pipeline {
    /// Bytes of a chunk.
    pub chunk: Bytes,
    /// Chunks in flight at most: buffers in host memory. Null for as many as it takes.
    pub depth: Option<u32>,
}

impl Pipeline {
    /// The default block of MVAPICH2 (`MV2_CUDA_BLOCK_SIZE`, 262,144 bytes), with as many in flight as it takes.
    pub const DEFAULT: Pipeline = Pipeline { chunk: Bytes(256 << 10), depth: None };
}

impl Method {
    /// Staged in chunks of the default size.
    pub const STAGED: Method = Method::Staged(Pipeline::DEFAULT);

    /// Whether it goes through host memory.
    pub const fn is_staged(self) -> bool {
        matches!(self, Method::Staged(_))
    }

    /// As it is read: `bar1`, `staged:chunk=64K,depth=4`.
    pub fn written(self) -> String {
        let Method::Staged(Pipeline { chunk, depth }) = self else {
            return match self {
                Method::Nvp2p => "nvp2p",
                Method::Bar1 => "bar1",
                _ => "host",
            }
            .to_owned();
        };
        let size = if chunk.0.is_multiple_of(1 << 10) { format!("{}K", chunk.0 >> 10) } else { chunk.0.to_string() };
        let chunk = (chunk != Pipeline::DEFAULT.chunk).then(|| format!("chunk={size}"));
        let depth = depth.map(|depth| format!("depth={depth}"));
        let given: Vec<String> = chunk.into_iter().chain(depth).collect();
        if given.is_empty() { "staged".to_owned() } else { format!("staged:{}", given.join(",")) }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Method::Nvp2p => "NVP2P",
            Method::Bar1 => "BAR1",
            Method::Staged(_) => "staged",
            Method::Host => "host memory",
        })
    }
}

/// A text that names no method.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no method; write nvp2p, bar1, staged or staged:chunk=256K,depth=4")]
pub struct NoMethod(String);

impl FromStr for Method {
    type Err = NoMethod;

    fn from_str(text: &str) -> Result<Self, NoMethod> {
        let refused = || NoMethod(text.to_owned());
        let (name, given) = text.split_once(':').map_or((text, None), |(name, given)| (name, Some(given)));
        match (name.trim().to_ascii_lowercase().as_str(), given) {
            ("nvp2p", None) => Ok(Method::Nvp2p),
            ("bar1", None) => Ok(Method::Bar1),
            ("staged", None) => Ok(Method::STAGED),
            ("staged", Some(given)) => {
                let (mut chunk, mut depth) = (None, None);
                for part in given.split(',') {
                    let (key, value) = part.split_once('=').ok_or_else(refused)?;
                    match key.trim() {
                        "chunk" if chunk.is_none() => {
                            let bytes = value.trim().parse::<Bytes>().ok().filter(|bytes| bytes.0 > 0);
                            chunk = Some(bytes.ok_or_else(refused)?);
                        }
                        "depth" if depth.is_none() => {
                            let count = value.trim().parse::<u32>().ok().filter(|count| *count > 0);
                            depth = Some(count.ok_or_else(refused)?);
                        }
                        _ => return Err(refused()),
                    }
                }
                Ok(Method::Staged(Pipeline { chunk: chunk.unwrap_or(Pipeline::DEFAULT.chunk), depth }))
            }
            _ => Err(refused()),
        }
    }
}

// JSON has methods without their parameters
/// How a NIC accesses memory.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Name {
    /// NVIDIA's own peer-to-peer protocol (GPUDirect v2), which the NIC must support.
    Nvp2p,
    /// PCIe reads and writes of the window that the GPU opens on its memory (GPUDirect RDMA).
    Bar1,
    /// The GPU copies to or from host memory, and the NIC reads or writes there.
    Staged,
    /// No GPU: the data is in host memory.
    Host,
}

impl Serialize for Method {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = match self {
            Method::Nvp2p => Name::Nvp2p,
            Method::Bar1 => Name::Bar1,
            Method::Staged(_) => Name::Staged,
            Method::Host => Name::Host,
        };
        name.serialize(serializer)
    }
}

#[cfg(feature = "schema")]
impl JsonSchema for Method {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Method".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Name::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_written_as_it_was_read() {
        for text in ["nvp2p", "bar1", "staged", "staged:chunk=64K", "staged:depth=1", "staged:chunk=100,depth=4"] {
            assert_eq!(text.parse::<Method>().unwrap().written(), text);
        }
        let all = "staged:depth=4, chunk=1MiB".parse::<Method>();
        assert_eq!(all, Ok(Method::Staged(Pipeline { chunk: Bytes(1 << 20), depth: Some(4) })));
        assert_eq!("staged:chunk=256K".parse::<Method>(), Ok(Method::STAGED));
    }

    #[test]
    fn what_is_no_method_is_refused() {
        let wrong = [
            "",
            "host",
            "bar1:chunk=4K",
            "staged:",
            "staged:4",
            "staged:chunk=0",
            "staged:depth=0",
            "staged:depth=-1",
            "staged:chunk=4K,chunk=8K",
            "staged:width=3",
            "staged:depth=99999999999",
        ];
        for text in wrong {
            let error = text.parse::<Method>().unwrap_err().to_string();
            assert!(error.contains(&format!("'{text}'")) && error.contains("chunk=256K"), "{error}");
        }
    }
}
