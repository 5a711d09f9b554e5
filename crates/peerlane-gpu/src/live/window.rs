//! From the times at which copies ended to rates while all of them ran.
//!
//! Streams are released together, but a fast one ends first and leaves the rest to run faster; and where an engine serves
//! several in turns, a stream's first copy includes the wait for its turn. So only the time from which all have passed a
//! mark until the first ends counts, cut into windows of equal length; a copy that lies across an edge counts in parts, as
//! if its rate were even. That errs alike at both edges.

use peerlane_measure::measure::Sample;

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

    /// Seconds from mark to mark; to the first where there is no other.
    pub(crate) fn pace(&self) -> Option<f64> {
        match self.marks.as_slice() {
            [] => None,
            [only] => Some(*only),
            [first, .., last] => Some((last - first) / (self.marks.len() - 1) as f64),
        }
    }
}

/// The least part of the whole time for which several must run at once, where they do.
const AT_ONCE: f64 = 0.15;

/// From when to when several streams' progress counts: while all of them run. Where they hardly ever do, an engine serves
/// one after the other (an H200's for writes to several peers), and the whole counts: each has then waited for the rest.
fn span(streams: &[Progress]) -> Option<(f64, f64)> {
    let whole = streams.iter().filter_map(|s| s.marks.last()).fold(0.0, |a: f64, b| a.max(*b));
    match all_at_once(streams)? {
        (begin, end) if end - begin >= AT_ONCE * whole => Some((begin, end)),
        _ => (whole > 0.0).then_some((0.0, whole)),
    }
}

/// Whether an engine served streams one after the other.
pub(crate) fn one_by_one(streams: &[Progress]) -> bool {
    streams.len() > 1 && span(streams).is_some_and(|(begin, _)| begin == 0.0)
}

/// From the last first mark to the first last mark; in this order where an engine serves streams one by one.
fn all_at_once(streams: &[Progress]) -> Option<(f64, f64)> {
    let first = |s: &Progress| s.marks.first().copied();
    let last = |s: &Progress| s.marks.last().copied();
    let begin = streams.iter().map(first).try_fold(0.0, |a: f64, b| b.map(|b| a.max(b)))?;
    let end = streams.iter().map(last).try_fold(f64::INFINITY, |a: f64, b| b.map(|b| a.min(b)))?;
    end.is_finite().then_some((begin, end))
}

/// Seconds for which all streams run, as far as [`rates`] counts them.
pub(crate) fn overlap(streams: &[Progress]) -> f64 {
    match streams {
        [lone] => lone.marks.last().copied().unwrap_or(0.0),
        several => span(several).map_or(0.0, |(begin, end)| end - begin),
    }
}

/// Rates of all streams, in bytes a second, in `n` windows; of a lone stream, from mark to mark.
///
/// One window where an engine serves streams one after the other. Empty where a stream has no mark.
pub(crate) fn rates(streams: &[Progress], n: usize) -> Vec<Sample> {
    if let [lone] = streams {
        let starts = std::iter::once(0.0).chain(lone.marks.iter().copied());
        let spans = starts.zip(&lone.marks).map(|(start, end)| end - start);
        return spans.filter(|span| *span > 0.0).map(|span| vec![lone.bytes / span]).collect();
    }
    let Some((begin, end)) = span(streams) else { return Vec::new() };
    let n = if one_by_one(streams) { n.min(1) } else { n };
    let each = (end - begin) / n as f64;
    let edge = |i: usize| if i == n { end } else { begin + i as f64 * each };
    let window = |i: usize| streams.iter().map(|s| (s.moved(edge(i + 1)) - s.moved(edge(i))) / each).collect();
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
        // the second speeds up once the first is gone, at time 4; both have passed a mark at time 2
        let together = [progress(&[1.0, 2.0, 3.0, 4.0], 10.0), progress(&[2.0, 4.0, 5.0, 6.0], 10.0)];
        assert!(close(&rates(&together, 2), &[&[10.0, 5.0], &[10.0, 5.0]]));
        assert!((overlap(&together) - 2.0).abs() < 1e-12);
    }

    #[test]
    fn an_engine_that_serves_three_in_turns_gives_each_a_third() {
        let lane = |i: usize| progress(&[0, 1, 2, 3].map(|turn: usize| (3 * turn + i + 1) as f64), 12.0);
        let sample = rates(&[lane(0), lane(1), lane(2)], 1);
        assert!(close(&sample, &[&[4.0, 4.0, 4.0]]), "{sample:?}");
    }

    #[test]
    fn streams_that_are_served_one_after_the_other_share_the_whole_time() {
        let lanes = [progress(&[1.0, 2.0], 6.0), progress(&[3.0, 4.0], 6.0), progress(&[5.0, 6.0], 6.0)];
        assert!(one_by_one(&lanes));
        assert!(close(&rates(&lanes, 5), &[&[2.0, 2.0, 2.0]]));
        assert!((overlap(&lanes) - 6.0).abs() < 1e-12);
        assert!(!one_by_one(&[progress(&[1.0, 2.0], 6.0), progress(&[1.0, 2.0], 6.0)]));
    }

    #[test]
    fn windows_conserve_bytes() {
        let streams = [progress(&[0.3, 0.5, 1.7], 4.0), progress(&[0.2, 2.0], 3.0)];
        let (begin, end) = (0.3, 1.7);
        let moved: f64 = streams.iter().map(|s| s.moved(end) - s.moved(begin)).sum();
        for n in 1..6 {
            let sum: f64 = rates(&streams, n).iter().flatten().sum::<f64>() * (end - begin) / n as f64;
            assert!((sum - moved).abs() < 1e-9, "{n}: {sum}");
        }
    }

    #[test]
    fn the_pace_leaves_out_the_wait_for_the_first_turn() {
        assert_eq!(progress(&[5.0, 6.0, 7.0], 1.0).pace(), Some(1.0));
        assert_eq!(progress(&[5.0], 1.0).pace(), Some(5.0));
        assert_eq!(progress(&[], 1.0).pace(), None);
    }

    #[test]
    fn nothing_comes_of_nothing() {
        assert!(rates(&[progress(&[], 1.0), progress(&[1.0], 1.0)], 3).is_empty());
        assert!(rates(&[progress(&[0.0], 1.0)], 3).is_empty());
        assert!(rates(&[progress(&[1.0, 2.0], 1.0), progress(&[1.0, 2.0], 1.0)], 0).is_empty());
    }
}
