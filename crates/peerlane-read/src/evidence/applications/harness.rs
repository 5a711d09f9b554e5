//! Results of test harnesses, which run many tests and count them: ReFrame, pytest, Google Test, CTest, bats, and any line that counts both.

use super::super::Text;
use super::super::health::Health;
use peerlane_machine::fact::{Area, Grade};

/// Longer lines are no result.
const LONGEST: usize = 200;

/// Of so many tests one may fail as a result of a measurement.
const MANY: u64 = 100;

/// Words of which a text holds one if it has such a result.
const HALLMARKS: [&str; 13] = [
    " test case(s) from ",
    "assed",
    "erification",
    "PASSED",
    "PASS:",
    "PASS=",
    " failures",
    " failure,",
    "FAILED (",
    "Ran ",
    "check(s)",
    "\nok 1",
    "\nnot ok ",
];

pub(super) fn scan(text: &Text, health: &mut Health) {
    if !text.holds_one_of(&HALLMARKS) {
        return;
    }
    let mut plan = Plan::default();
    // `Ran 14 tests in 0.3s`, with its result two lines below
    let mut ran: Option<(u64, usize)> = None;
    for (i, line) in text.iter().filter(|(_, line)| line.len() <= LONGEST) {
        let line = line.trim();
        let result = counted(line).or_else(|| of_unittest(line, ran.filter(|(_, at)| i <= at + 3)));
        if let Some((passed, failed)) = result {
            let all = passed.saturating_add(failed);
            let bad = (failed > 0 && failed.saturating_mul(MANY) > passed).then_some(Grade::Fault);
            health.judge(Area::Test, bad, None, "tests that failed:", &format!("{failed} of {all}"), i);
        } else if let Some(passed) = verified(line) {
            health.judge(Area::Test, (!passed).then_some(Grade::Fault), None, "", line, i);
        } else if line.ends_with("Found 0 check(s).") || line.ends_with("Found 0 check(s)") {
            health.trouble(Area::Program, Grade::Note, None, "ReFrame found", "no checks to run", i);
        }
        ran = of_run(line).map(|count| (count, i)).or(ran);
        plan.read(line, i);
    }
    plan.push(health);
}

/// Lines of the Test Anything Protocol, as bats prints them: `1..3`, `ok 1 [mpi] runs`, `not ok 2 hello`.
#[derive(Default)]
struct Plan {
    planned: u64,
    passed: u64,
    failed: Vec<(String, usize)>,
    last: usize,
}

impl Plan {
    fn read(&mut self, line: &str, i: usize) {
        if let Some(planned) = line.strip_prefix("1..").and_then(|count| count.parse().ok()) {
            self.planned = planned;
        } else if self.planned > 0 {
            let numbered = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
            // what is skipped or not done yet fails nothing
            let is_open = line.contains("# TODO") || line.contains("# skip") || line.contains("# SKIP");
            if let Some(rest) = line.strip_prefix("not ok ").filter(|rest| numbered(rest)) {
                if !is_open && self.failed.len() < NAMED {
                    self.failed.push((rest.to_owned(), i));
                }
            } else if line.strip_prefix("ok ").is_some_and(numbered) {
                self.passed += 1;
                self.last = i;
            }
        }
    }

    fn push(self, health: &mut Health) {
        if self.passed > 0 {
            health.sound(Area::Test, self.last);
        }
        for (name, i) in self.failed {
            health.trouble(Area::Test, Grade::Fault, None, "a test failed:", &name, i);
        }
    }
}

/// Tests that failed are named up to so many.
const NAMED: usize = 32;

/// How many tests passed, and how many failed.
fn counted(line: &str) -> Option<(u64, u64)> {
    // `[  PASSED  ] Ran 4/4 test case(s) from 4 check(s) (1 failure(s), 0 skipped)`
    if let Some((_, rest)) = line.split_once("] Ran ")
        && let Some((count, rest)) = rest.split_once(" test case(s) from ")
    {
        let all: u64 = count.split('/').next()?.parse().ok()?;
        let failed = rest.split_once(" failure(s)")?.0.rsplit('(').next()?.parse().ok()?;
        return Some((all.saturating_sub(failed), failed));
    }
    // `[  PASSED  ] 12 tests.`, `[  FAILED  ] 2 tests, listed below:`
    if let Some(rest) = line.strip_prefix("[  PASSED  ] ") {
        return Some((rest.strip_suffix(" tests.").or(rest.strip_suffix(" test."))?.parse().ok()?, 0));
    }
    if let Some(rest) = line.strip_prefix("[  FAILED  ] ") {
        return Some((0, rest.split_once(" test")?.0.parse().ok().filter(|_| rest.ends_with("listed below:"))?));
    }
    // `4 tests, 1 failure, 1 skipped`
    if let Some((all, rest)) = line.split_once(" tests, ").or_else(|| line.split_once(" test, ")) {
        let all: u64 = all.parse().ok()?;
        let (failed, word) = rest.split_once(' ')?;
        let failed = failed.parse().ok().filter(|_| word.starts_with("failure"))?;
        return Some((all.saturating_sub(failed), failed));
    }
    // a sentence counts nothing, and gdrcopy's sanity test has a reader of its own
    if line.ends_with('.') || line.contains("Waived:") {
        return None;
    }
    let lower = line.to_ascii_lowercase();
    // `100% tests passed, 0 tests failed out of 12`
    if let Some((_, rest)) = lower.split_once("% tests passed, ") {
        let (failed, all) = rest.split_once(" tests failed out of ")?;
        let (failed, all): (u64, u64) = (failed.parse().ok()?, all.trim().parse().ok()?);
        return Some((all.saturating_sub(failed), failed));
    }
    let passed = count(&lower, &["passed", "pass"]);
    let failed = count(&lower, &["failed", "fail", "failures"]);
    // `===== 5 passed in 3.2s =====`, where pytest names what is not zero
    let is_ruled = line.starts_with('=') && (lower.contains(" in ") || lower.contains(" of "));
    match (passed, failed) {
        (Some(passed), Some(failed)) => Some((passed, failed)),
        (Some(passed), None) if is_ruled && !lower.contains("error") => Some((passed, 0)),
        (None, Some(failed)) if is_ruled => Some((0, failed)),
        _ => None,
    }
}

/// How a program's check of its own results ended: `Verification of GPU results: Passed`, `Validation: FAILED`.
fn verified(line: &str) -> Option<bool> {
    const STARTS: [&str; 6] =
        ["Verification", "Validation", "Correctness", "Result check", "Results check", "Residual check"];
    let rest = STARTS.iter().find_map(|start| line.strip_prefix(start))?;
    let (what, word) = rest.rsplit_once([':', '=', ' '])?;
    let plain = what.len() <= 60 && !what.contains(['"', '(', '{', ';']);
    match word.trim_end_matches(['.', '!']).to_ascii_lowercase().as_str() {
        "passed" | "pass" | "ok" | "successful" | "success" | "succeeded" if plain => Some(true),
        "failed" | "fail" | "unsuccessful" | "failure" if plain => Some(false),
        _ => None,
    }
}

/// The number that goes with one of these words: `12 passed`, `Passed: 12`, `PASS=12`.
fn count(line: &str, names: &[&str]) -> Option<u64> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut words =
        line.split(|c: char| !is_part(c) && !matches!(c, ':' | '=')).filter(|word| !word.is_empty()).peekable();
    let mut before: Option<u64> = None;
    while let Some(word) = words.next() {
        if let Some((name, value)) = word.split_once([':', '=']) {
            if names.contains(&name) {
                let value = if value.is_empty() { words.peek().copied().unwrap_or_default() } else { value };
                return value.trim_matches([':', '=']).parse().ok();
            }
        } else if names.contains(&word) {
            return before;
        }
        before = word.parse().ok();
    }
    None
}

/// `Ran 14 tests in 0.312s`.
fn of_run(line: &str) -> Option<u64> {
    let (count, time) = line.strip_prefix("Ran ")?.split_once(" test")?;
    count.parse().ok().filter(|_| time.contains(" in "))
}

/// `OK`, `FAILED (failures=1, errors=2)`, below the count of tests.
fn of_unittest(line: &str, ran: Option<(u64, usize)>) -> Option<(u64, u64)> {
    let (all, _) = ran?;
    if line == "OK" || line.starts_with("OK (") {
        return Some((all, 0));
    }
    let parts = line.strip_prefix("FAILED (")?.strip_suffix(')')?.split(", ");
    let failed =
        parts.filter_map(|part| part.split_once('=').filter(|(name, _)| matches!(*name, "failures" | "errors")));
    let failed: u64 = failed.filter_map(|(_, count)| count.parse::<u64>().ok()).fold(0, u64::saturating_add);
    Some((all.saturating_sub(failed), failed))
}

#[cfg(test)]
mod tests {
    use super::super::super::Found;
    use super::super::super::testing::{health, scanned};
    use super::super::scan;
    use super::*;

    #[test]
    fn results_of_harnesses() {
        for (line, result) in [
            ("[  PASSED  ] Ran 4/4 test case(s) from 4 check(s) (0 failure(s), 0 skipped)", (4, 0)),
            ("[  FAILED  ] Ran 4/4 test case(s) from 4 check(s) (1 failure(s))", (3, 1)),
            ("[  PASSED  ] 12 tests.", (12, 0)),
            ("[  FAILED  ] 2 tests, listed below:", (0, 2)),
            ("100% tests passed, 0 tests failed out of 12", (12, 0)),
            ("==== 2 failed, 5 passed, 1 warning in 3.21s ====", (5, 2)),
            ("==== 5 passed in 3.21s ====", (5, 0)),
            ("4 tests, 1 failure, 1 skipped", (3, 1)),
            ("==== 3 passed of 4 specs ====", (3, 0)),
            ("Total: 10  Passed: 9  Failed: 1", (9, 1)),
            ("# PASS:  12  # FAIL:  0", (12, 0)),
            ("summary: PASS=3 FAIL=1 SKIP=0", (3, 1)),
        ] {
            assert_eq!(counted(line), Some(result), "{line}");
        }
        for line in [
            "It passed and then failed 3 times.",
            "5 passed",
            "test passed in 3s",
            "failed: yes",
            "the 3 tests, as said",
        ] {
            assert_eq!(counted(line), None, "{line}");
        }
    }

    #[test]
    fn checks_of_own_results() {
        let body = "Verification of GPU results: Passed\nValidation: FAILED\n";
        let report = health(scan, body);
        assert_eq!((report.sound, report.troubles[0].grade), (1, Grade::Fault));
        assert_eq!(scanned(scan, "Verification that all passed through the gate is not needed\n"), Found::default());
    }

    #[test]
    fn lines_of_bats() {
        let body = "1..3\nok 1 [mpi] runs\nnot ok 2 [mpi] hello on 2 nodes\nok 3 widget # skip none here\n";
        let report = health(scan, body);
        assert_eq!((report.sound, report.troubles[0].value.as_str()), (1, "2 [mpi] hello on 2 nodes"));
        assert_eq!(scanned(scan, "not ok 2 x\nok 1 y\n"), Found::default(), "no plan");
    }

    #[test]
    fn failures_are_faults_and_few_of_many_a_result() {
        let bad = health(scan, "Total: 10  Passed: 9  Failed: 1\n");
        assert_eq!(
            (bad.area, bad.troubles[0].grade, bad.troubles[0].value.as_str()),
            (Area::Test, Grade::Fault, "1 of 10")
        );
        assert_eq!(health(scan, "Passed: 90000 Failed: 1\n").sound, 1);
        let unittest = |end: &str| health(scan, &format!("Ran 14 tests in 0.312s\n\n{end}\n"));
        assert_eq!(
            (unittest("OK (skipped=1)").sound, unittest("FAILED (failures=1, errors=2)").troubles.len()),
            (1, 1)
        );
        assert_eq!(scanned(scan, "FAILED (failures=1)\n"), Found::default());
        assert_eq!(health(scan, "[t] info: reframe: Found 0 check(s).\n").troubles[0].grade, Grade::Note);
    }
}
