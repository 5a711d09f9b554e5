//! Pieces of perftest's output: heads whose table is cut off or did not come, and rows whose head is cut off.

use std::collections::BTreeMap;

use super::super::{Curve, Fact, Found, RdmaPort, Series, Text, Unit};
use super::{HEAD_LINES, TOOL, command, setting, title};
use peerlane_machine::units::Bytes;

/// Heads of tests whose table is cut off, or did not come: the adapter is all that they show.
pub(super) fn heads(text: &Text, found: &mut Found) {
    if !text.holds(&["BW Test", "Latency Test"]) {
        return;
    }
    text.walk(|first| {
        title(text.line(first).trim_end()).filter(|_| text.line(first).trim_end().ends_with(" Test"))?;
        let (mut ports, mut last) = (Vec::new(), first);
        for i in first + 1..text.len().min(first + HEAD_LINES) {
            let line = text.line(i);
            if line.contains("#bytes") || title(line).is_some() && line.trim_end().ends_with(" Test") {
                // a table follows, or another test
                last = i;
                if line.contains("#bytes") {
                    return Some(i);
                }
                break;
            }
            if let Some(device) = setting(line, "Device").filter(|device| ports.is_empty() && device.len() <= 32) {
                ports.push(RdmaPort { device, ..RdmaPort::default() });
                last = i;
            }
        }
        if !ports.is_empty() {
            let lines = text.numbers(first, last);
            found.warn(
                text,
                TOOL,
                lines,
                "the head of a test without its table; the text may be cut, or the test failed",
            );
            found.push(text, TOOL, lines, Fact::RdmaPorts(ports));
        }
        Some(last.max(first + 1))
    });
}

/// How far a row's own message rate may be from what its rate and size make, by rounding.
const ROUNDED: f64 = 0.01;

/// Rows of bandwidths whose header is cut off: size, iterations, peak, average and messages per microsecond, which fit each other in one
/// unit only.
pub(super) fn rows(text: &Text, found: &mut Found) {
    if text.holds(&["#bytes", "bytes "]) || !text.holds(&["_bw", "perftest"]) {
        return;
    }
    text.walk(|first| {
        let unit = row(text.line(first))?.3;
        let (mut sizes, mut values) = (Vec::new(), [Vec::new(), Vec::new()]);
        let mut i = first;
        while i < text.len() {
            let Some((size, peak, average, _)) = row(text.line(i)).filter(|row| row.3 == unit) else { break };
            sizes.push(Bytes(size));
            values[0].push(Some(peak));
            values[1].push(Some(average));
            i += 1;
        }
        let above = (first.saturating_sub(HEAD_LINES)..first).rev().find_map(|i| command(text.line(i)));
        let what = above.map_or_else(|| TOOL.to_owned(), str::to_owned);
        let series = ["BW peak", "BW average"].into_iter().zip(values);
        let series = series.map(|(name, values)| Series { name: name.to_owned(), unit: Some(unit), values }).collect();
        let curve = Curve { what, ends: Vec::new(), sizes, series, settings: BTreeMap::new() };
        found.push(text, TOOL, text.numbers(first, i - 1), Fact::Curve(curve));
        Some(i)
    });
}

/// Size, peak, average and unit of `65536   5000   92.41   92.40   0.176241`.
fn row(line: &str) -> Option<(u64, f64, f64, Unit)> {
    let cells: Vec<&str> = line.split_whitespace().collect();
    let [size, iterations, peak, average, messages] = cells.as_slice() else { return None };
    let (size, _): (u64, u64) = (size.parse().ok()?, iterations.parse().ok()?);
    let number = |cell: &str| cell.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0 && cell.contains('.'));
    let (peak, average, messages) = (number(peak)?, number(average)?, number(messages)?);
    let fits = |bytes: f64| {
        let made = average * bytes / size as f64 / 1e6;
        size > 0 && messages > 0.0 && (made / messages - 1.0).abs() < ROUNDED
    };
    let units = [(Unit::GigabitsPerSecond, 1e9 / 8.0), (Unit::MebibytesPerSecond, 1_048_576.0)];
    units.into_iter().find(|(_, bytes)| fits(*bytes)).map(|(unit, _)| (size, peak, average, unit))
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::scanned;
    use super::super::scan;
    use super::*;

    fn curves(found: &Found) -> Vec<&Curve> {
        found.evidence.iter().filter_map(|e| if let Fact::Curve(c) = &e.fact { Some(c) } else { None }).collect()
    }

    #[test]
    fn rows_without_their_header() {
        let rows = "I ran ib_write_bw -d mlx5_0 --report_gbits:\n 65536      5000    92.41    92.40    0.176241\n 131072     5000    92.42    92.42    0.088139\n";
        let found = scanned(scan, rows);
        let [curve] = curves(&found)[..] else { panic!("{found:#?}") };
        assert_eq!((curve.what.as_str(), curve.sizes.len()), ("ib_write_bw", 2));
        assert_eq!(curve.series[1].unit, Some(Unit::GigabitsPerSecond));
        assert_eq!(
            scanned(scan, "ib_write_bw\n 65536   5000   92.41   92.40   3.5\n"),
            Found::default(),
            "other numbers"
        );
    }

    #[test]
    fn a_head_without_its_table() {
        let head = "                    RDMA_Write Bidirectional BW Test\n Dual-port       : OFF\t\tDevice         : mlx5_7\n Number of qps   : 2\n Mtu             : 1024[B\n";
        let found = scanned(scan, head);
        let [one] = found.evidence.as_slice() else { panic!("{found:#?}") };
        assert!(matches!(&one.fact, Fact::RdmaPorts(ports) if ports[0].device == "mlx5_7"));
        assert_eq!((one.origin.lines, found.warnings.len()), (Some((1, 2)), 1));
        let whole = format!(
            "{head} #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]\n 65536      1000   11500.37            11484.76\n"
        );
        assert!(scanned(scan, &whole).evidence.iter().all(|e| !matches!(e.fact, Fact::RdmaPorts(_))));
    }
}
