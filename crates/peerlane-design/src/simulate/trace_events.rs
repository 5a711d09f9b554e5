//! Events of the Trace Event Format, of which pictures for Perfetto and `chrome://tracing` are made.

use serde::Serialize;
use serde_json::{Value, json};

/// What a row of a process is called.
pub(super) fn row_name(process: impl Serialize, row: impl Serialize, name: impl Serialize) -> Value {
    json!({"ph": "M", "name": "thread_name", "pid": process, "tid": row, "args": {"name": name}})
}

/// A span on a row of a process, with its name and kind; times are in seconds.
pub(super) fn row_span(
    (process, row): (usize, usize),
    (name, kind): (&str, &str),
    [start, end]: [f64; 2],
    arguments: Value,
) -> Value {
    // the format has µs
    json!({
        "ph": "X", "name": name, "cat": kind, "ts": start * 1e6, "dur": (end - start) * 1e6, "pid": process, "tid": row,
        "args": arguments,
    })
}
