//! The example that is shown where there is no GPU and no TARGET: the texts of `examples/slow-node/`.

use peerlane_read::evidence::{self, Found, ReadError};

/// Its name as a TARGET.
pub const NAME: &str = "slow-node";

const TEXTS: [(&str, &str); 3] = [
    ("slow-node/all_reduce_perf.txt", include_str!("../../slow-node/all_reduce_perf.txt")),
    ("slow-node/nvlink.txt", include_str!("../../slow-node/nvlink.txt")),
    ("slow-node/topo.txt", include_str!("../../slow-node/topo.txt")),
];

/// What the texts state.
pub(crate) fn read() -> Result<Found, ReadError> {
    let mut found = Found::default();
    for (name, text) in TEXTS {
        found.append(evidence::read_stream(name, text.as_bytes())?);
    }
    Ok(found)
}
