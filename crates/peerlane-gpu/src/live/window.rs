//! From the times at which copies ended to rates while all of them ran.
//!
//! Streams are released together, but a fast one ends first and leaves the rest to run faster. So only the time until
//! the first stream ends counts, cut into windows of equal length; a copy that lies across an edge counts in parts, as
//! if its rate were even.

use peerlane::measure::Sample;

/// One stream's progress: seconds since its release at which each of its marks passed, ascending, and the bytes
/// between two marks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Progress {
    /// When each mark passed.
    pub(crate) marks: Vec<f64>,
    /// Bytes from one mark to the next, and from the release to the first.
    pub(crate) bytes: f64,
}

impl Progress {
    /// Bytes moved until `time`.
    fn moved(&self, time: f64) -> f64 {
        let whole = self.marks.partition_point(|mark| *mark <= time);
        let since = if whole == 0 { 0.0 } else { self.marks[whole - 1] };
        let part = match self.marks.get(whole) {
            Some(next) if *next > since => (time - since) / (next - since),
            _ => 0.0,
        };
        (whole as f64 + part) * self.bytes
    }

    fn end(&self) -> f64 {
        self.marks.last().copied().unwrap_or(0.0)
    }
}

/// Rates of all streams, in bytes a second, in `n` windows; of a lone stream, from mark to mark.
///
/// Empty where a stream has no mark or no time passed.
pub(crate) fn rates(streams: &[Progress], n: usize) -> Vec<Sample> {
    if let [lone] = streams {
        let starts = std::iter::once(0.0).chain(lone.marks.iter().copied());
        let spans = starts.zip(&lone.marks).map(|(start, end)| end - start);
        return spans.filter(|span| *span > 0.0).map(|span| vec![lone.bytes / span]).collect();
    }
    let end = streams.iter().map(Progress::end).fold(f64::INFINITY, f64::min);
    if !end.is_finite() || end <= 0.0 || n == 0 {
        return Vec::new();
    }
    let span = end / n as f64;
    let edge = |i: usize| if i == n { end } else { i as f64 * span };
    let window = |i: usize| streams.iter().map(|s| (s.moved(edge(i + 1)) - s.moved(edge(i))) / span).collect();
    (0..n).map(window).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(marks: &[f64], bytes: f64) -> Progress {
        Progress { marks: marks.to_vec(), bytes }
    }

    fn close(a: &[Sample], b: &[&[f64]]) -> bool {
        a.len() == b.len()
            && a.iter().zip(b).all(|(a, b)| a.iter().zip(*b).all(|(x, y)| (x - y).abs() < 1e-9 * y.abs()))
    }

    #[test]
    fn a_lone_stream_is_read_from_mark_to_mark() {
        assert!(close(&rates(&[progress(&[1.0, 3.0], 10.0)], 7), &[&[10.0], &[5.0]]));
    }

    #[test]
    fn what_the_slower_does_alone_does_not_count() {
        // the second speeds up once the first is gone, at time 2
        let together = [progress(&[1.0, 2.0], 10.0), progress(&[2.0, 3.0, 4.0], 10.0)];
        assert!(close(&rates(&together, 2), &[&[10.0, 5.0], &[10.0, 5.0]]));
    }

    #[test]
    fn windows_conserve_bytes() {
        let streams = [progress(&[0.3, 0.5, 1.7], 4.0), progress(&[0.9, 2.0], 3.0)];
        for n in 1..6 {
            let sum: f64 = rates(&streams, n).iter().map(|s| s[0]).sum::<f64>() * 1.7 / n as f64;
            assert!((sum - 12.0).abs() < 1e-9, "{n}: {sum}");
        }
    }

    #[test]
    fn nothing_comes_of_nothing() {
        assert!(rates(&[progress(&[], 1.0), progress(&[1.0], 1.0)], 3).is_empty());
        assert!(rates(&[progress(&[0.0], 1.0)], 3).is_empty());
        assert!(rates(&[progress(&[1.0], 1.0), progress(&[1.0], 1.0)], 0).is_empty());
    }
}
