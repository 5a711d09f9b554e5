//! Weighted max-min fair sharing of resources among flows. Knows resources and flows, and nothing of
//! PCIe, GPUs or time.

/// A flow: what it consumes of each resource per byte a second of its own rate, its weight, its own cap.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// `(resource index, consumption per unit of rate)`; consumption is positive.
    pub uses: Vec<(usize, f64)>,
    /// Share of a saturated resource relative to other flows; positive.
    pub weight: f64,
    /// The most it can go by itself; infinite where nothing else limits it.
    pub cap: f64,
}

/// What stops a flow from going faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// A saturated resource, by index.
    Resource(usize),
    /// Its own cap.
    Cap,
    /// Nothing: it uses no resource and has no cap.
    Nothing,
}

/// The allocation.
#[derive(Clone, Debug, PartialEq)]
pub struct Allocation {
    /// Rate of each flow.
    pub rates: Vec<f64>,
    /// What binds each flow.
    pub bindings: Vec<Binding>,
}

/// Why a problem has no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ShareError {
    /// A capacity is negative or no number.
    #[error("resource {0} has capacity {1}, which must be a number of at least 0")]
    Capacity(usize, f64),
    /// A flow's weight, cap or consumption is out of range, or it names a resource that is not there.
    #[error("flow {0}: {1}")]
    Flow(usize, &'static str),
}

/// Shares `capacities` among `flows`.
pub fn share(_capacities: &[f64], _flows: &[Flow]) -> Result<Allocation, ShareError> {
    Ok(Allocation { rates: Vec::new(), bindings: Vec::new() })
}
