//! Unified memory between a GPU and host memory.

use std::io::{self, Write};

use peerlane::model::{UnifiedMemory, UnifiedMethod, UnifiedPass};

use super::style::{self, paint};
use super::text::{hang, number};

/// Writes the rates, what a pass over too much data costs, and remarks.
pub(crate) fn show(out: &mut dyn Write, found: &UnifiedMemory) -> io::Result<()> {
    let UnifiedMemory { gpu, host, rates, passes, remarks } = found;
    writeln!(out, "\n{}", paint(style::HEADING, &format!("Unified memory of {host} and {gpu}")))?;
    for rate in rates {
        let (from, to) = if rate.method == UnifiedMethod::PrefetchBack { (gpu, host) } else { (host, gpu) };
        let label = format!("  {:<15} {:>8} GB/s  ", rate.method.name(), number(rate.rate));
        hang(out, &label, &format!("{} to {}; {from} → {to}, {}", number(rate.low), number(rate.high), rate.why))?;
    }
    if let Some(first) = passes.first() {
        let heading = "Passes in order over data that exceeds GPU memory, GB/s of all data";
        writeln!(out, "\n{}", paint(style::HEADING, heading))?;
        let heads: String =
            first.rates.iter().map(|[by, _]| format!(" {:>7}", format!("+{:.0} %", by * 100.0))).collect();
        writeln!(out, "  {:15}{heads}", "")?;
    }
    for UnifiedPass { method, rates, why } in passes {
        let shown: String = rates.iter().map(|[_, rate]| format!(" {:>7}", number(*rate))).collect();
        hang(out, &format!("  {:<15}{shown}  ", method.name()), why)?;
    }
    remarks.iter().try_for_each(|remark| hang(out, "  · ", remark))
}
