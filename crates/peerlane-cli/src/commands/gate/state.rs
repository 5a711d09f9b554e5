//! What the gate remembers from call to call: failures and passes in a row, and whether it has drained the node.
//!
//! The file is replaced as a whole by the holder of a lock. A drain is noted before the command runs, so that a call that
//! is killed in between is made good by the next.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::JsonSchema;
use peerlane::gate::Conclusion;
use peerlane::input_file::{self, Kind, attribute};
use peerlane::one_line::shown;
use peerlane::verdict::Gate;
use serde::{Deserialize, Serialize};

use crate::output_file::Lock;

/// Names the format of the file.
pub(super) const SCHEMA: &str = "peerlane/gate-state/1";

/// How often a lock is tried.
const LOOK: Duration = Duration::from_millis(20);

/// How far draining is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Drain {
    /// The gate has not drained the node.
    #[default]
    No,
    /// The drain command has not succeeded yet.
    Pending,
    /// It has drained it.
    Done,
    /// The resume command has not succeeded yet.
    Resuming,
}

/// What is remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(super) struct State {
    /// Names this format.
    #[schemars(extend("const" = SCHEMA))]
    pub(super) schema: String,
    /// Faults in a row.
    pub(super) failures: u32,
    /// Passes in a row.
    pub(super) passes: u32,
    /// How far draining is.
    pub(super) drain: Drain,
    /// Whether the last fault was measured: only measurements show that it is gone.
    #[serde(default)]
    pub(super) measured: bool,
    /// The line of the last fault.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) reason: String,
    /// When it was last written, in seconds since 1970 (UTC).
    pub(super) updated: u64,
    /// Since when kernel messages count, after a repair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cleared: Option<Cleared>,
}

/// A moment of a boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(super) struct Cleared {
    /// The kernel's number of the boot.
    pub(super) boot: String,
    /// Seconds since then.
    pub(super) uptime: u64,
}

/// A command to run now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The drain command.
    Drain,
    /// The resume command.
    Resume,
}

/// How often in a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    /// Failures before a drain.
    pub(super) failures: u32,
    /// Passes before a resume.
    pub(super) recoveries: u32,
}

impl State {
    /// Counts a conclusion, which rests on measurements or not; returns what has to be done. What is not judged or not explained
    /// changes nothing.
    pub(super) fn count(
        &mut self,
        concluded: &Conclusion,
        measured: bool,
        line: &str,
        counts: Counts,
    ) -> Option<Order> {
        match concluded.outcome {
            Gate::Unknown | Gate::Hold => return None,
            Gate::Ok if self.measured && !measured => return None,
            Gate::Isolate => {
                self.measured = measured;
                self.failures = self.failures.saturating_add(1);
                self.passes = 0;
                line.clone_into(&mut self.reason);
                // again where it was drained before: a person may have resumed it meanwhile
                if self.failures >= counts.failures {
                    self.drain = Drain::Pending;
                }
            }
            Gate::Ok => {
                self.passes = self.passes.saturating_add(1);
                self.failures = 0;
                self.measured &= self.drain != Drain::No;
                match self.drain {
                    // the fault has gone before the node was drained
                    Drain::Pending => self.drain = Drain::No,
                    Drain::Done if self.passes >= counts.recoveries => self.drain = Drain::Resuming,
                    _ => {}
                }
            }
        }
        match self.drain {
            Drain::Pending => Some(Order::Drain),
            Drain::Resuming => Some(Order::Resume),
            Drain::No | Drain::Done => None,
        }
    }

    /// Notes that an order was carried out.
    pub(super) fn carried_out(&mut self, order: Order) {
        self.drain = match order {
            Order::Drain => Drain::Done,
            Order::Resume => Drain::No,
        };
    }

    /// Forgets failures and drains, and what the kernel has logged up to now.
    pub(super) fn clear(&mut self) {
        *self = State { cleared: now_of_boot(), ..State::default() };
    }

    /// Kernel messages older than this many seconds after the boot do not count.
    pub(super) fn ignored_before(&self) -> Option<u64> {
        let cleared = self.cleared.as_ref()?;
        (now_of_boot()?.boot == cleared.boot).then_some(cleared.uptime)
    }
}

fn now_of_boot() -> Option<Cleared> {
    let boot = attribute("/proc/sys/kernel/random/boot_id")?;
    let uptime = attribute("/proc/uptime")?;
    let uptime = uptime.split_once('.')?.0.parse().ok()?;
    Some(Cleared { boot, uptime })
}

/// The file, locked for this process.
pub(super) struct Store {
    lock: Lock,
    pub(super) state: State,
    /// What was wrong with the file.
    pub(super) note: Option<String>,
}

impl Store {
    /// Takes the file, and waits at most `patience` for another process that has it. A state that is damaged or of another
    /// version is started anew, with a note; a file that is something else is left as it is.
    pub(super) fn open(path: &Path, patience: Duration) -> Result<Store, Busy> {
        let until = Instant::now() + patience;
        let lock = loop {
            match Lock::of(path) {
                Ok(lock) => break lock,
                Err(error) if error.to_string().ends_with("is writing it") => {
                    if Instant::now() >= until {
                        return Err(Busy::Taken(error.to_string().trim_end_matches(" is writing it").to_owned()));
                    }
                    std::thread::sleep(LOOK);
                }
                Err(error) => return Err(Busy::Failed(format!("cannot use {}: {error}", shown(path)))),
            }
        };
        let (state, note) = match read(path) {
            Ok(state) => (state, None),
            Err(Unread::Foreign(why)) => {
                let what = "it is not replaced; name another file, or remove it";
                return Err(Busy::Failed(format!("{}: {why}; {what}", shown(path))));
            }
            Err(Unread::Damaged(why)) => (State::default(), Some(format!("{}: {why}; started anew", shown(path)))),
        };
        Ok(Store { lock, state, note })
    }

    /// Writes the state, whole and durably.
    pub(super) fn write(&mut self) -> Result<(), String> {
        SCHEMA.clone_into(&mut self.state.schema);
        self.state.updated = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let text = serde_json::to_string_pretty(&self.state).map_err(|e| e.to_string())?;
        self.lock.write(&(text + "\n")).map_err(|error| format!("the state file: {error}"))
    }
}

/// Why the file is not to be had.
#[derive(Debug)]
pub(super) enum Busy {
    /// Another gate has it.
    Taken(String),
    /// Anything else.
    Failed(String),
}

/// Why a file is not read as a state.
enum Unread {
    /// It is something else.
    Foreign(String),
    /// It was one, or is one of another version.
    Damaged(String),
}

fn read(path: &Path) -> Result<State, Unread> {
    let text = match input_file::read(path, Kind::GateState) {
        Err(refused) if refused.is_absent() => return Ok(State::default()),
        read => read.map_err(|refused| Unread::Foreign(refused.cause.to_string()))?,
    };
    let read: Result<State, _> = serde_json::from_slice(&text);
    let family = SCHEMA.trim_end_matches(|c: char| c.is_ascii_digit());
    // an empty file is one that `mktemp` made, or what a full disk left; zeros are what a loss of power leaves
    let is_own = text.iter().all(|byte| *byte == 0) || String::from_utf8_lossy(&text).contains(family);
    match read {
        Ok(state) if state.schema == SCHEMA => Ok(state),
        _ if !is_own => Err(Unread::Foreign("not a state of the gate".to_owned())),
        Ok(state) => {
            Err(Unread::Damaged(format!("a {} document, not {SCHEMA}", peerlane::one_line::escaped(&state.schema))))
        }
        Err(error) => Err(Unread::Damaged(format!("not a state of the gate ({error})"))),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use peerlane::verdict::Verdict;

    const TWICE: Counts = Counts { failures: 2, recoveries: 2 };

    fn fault() -> Conclusion {
        Conclusion::hung("driver: NVML does not answer")
    }

    fn pass() -> Conclusion {
        Conclusion::of(Verdict::Healthy, &[], None)
    }

    #[test]
    fn a_node_is_drained_and_resumed_after_as_many_in_a_row() {
        let mut state = State::default();
        let mut count = |concluded: &Conclusion| {
            let order = state.count(concluded, true, "line", TWICE);
            if let Some(order) = order {
                state.carried_out(order);
            }
            order
        };
        assert_eq!([count(&fault()), count(&pass()), count(&fault())], [None; 3], "not in a row");
        assert_eq!(count(&Conclusion::not_judged("busy")), None);
        assert_eq!(count(&Conclusion::of(Verdict::Unexplained, &[], None)), None);
        assert_eq!(count(&fault()), Some(Order::Drain));
        assert_eq!(count(&fault()), Some(Order::Drain), "a person may have resumed it");
        assert_eq!([count(&pass()), count(&fault()), count(&pass())], [None; 3]);
        assert_eq!([count(&pass()), count(&pass())], [Some(Order::Resume), None]);
    }

    #[test]
    fn only_measurements_show_that_a_slow_machine_has_recovered() {
        let mut state = State::default();
        let once = Counts { failures: 1, recoveries: 1 };
        state.count(&fault(), true, "line", once);
        state.carried_out(Order::Drain);
        assert_eq!((state.count(&pass(), false, "", once), state.passes), (None, 0));
        assert_eq!(state.count(&pass(), true, "", once), Some(Order::Resume));
        state.carried_out(Order::Resume);
        state.count(&fault(), false, "line", once);
        state.carried_out(Order::Drain);
        assert_eq!(state.count(&pass(), false, "", once), Some(Order::Resume));
    }

    #[test]
    fn an_order_that_failed_is_given_again() {
        let mut state = State::default();
        let once = Counts { failures: 1, recoveries: 1 };
        assert_eq!(state.count(&fault(), true, "line", once), Some(Order::Drain));
        assert_eq!(state.count(&fault(), true, "line", once), Some(Order::Drain));
        state.carried_out(Order::Drain);
        assert_eq!(
            [state.count(&pass(), true, "", once), state.count(&pass(), true, "", once)],
            [Some(Order::Resume); 2]
        );
        // a fault while a resume is pending drains again
        assert_eq!(state.count(&fault(), true, "line", once), Some(Order::Drain));
    }

    #[test]
    fn a_damaged_state_is_started_anew_and_another_file_is_left() {
        let folder = std::env::temp_dir().join(format!("peerlane-gate-state-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("gate.json");
        let open = || Store::open(&path, Duration::ZERO).unwrap();
        let mut store = open();
        assert_eq!((store.note.as_ref(), store.state.failures), (None, 0));
        store.state.failures = 3;
        store.write().unwrap();
        assert!(matches!(Store::open(&path, Duration::from_millis(50)), Err(Busy::Taken(_))));
        drop(store);
        assert_eq!(open().state.failures, 3);
        for text in [
            "",
            "{\"schema\": \"peerlane/gate-state/1\", ",
            "{\"schema\": \"peerlane/gate-state/2\", \"failures\": 1, \"passes\": 0, \"drain\": \"no\", \"updated\": 1}",
            "\u{0}",
        ] {
            fs::write(&path, text).unwrap();
            let store = open();
            assert!(store.note.is_some() && store.state == State::default(), "{text}");
        }
        for foreign in ["{", "[]", "{\"schema\": \"peerlane/run/1\"}"] {
            fs::write(&path, foreign).unwrap();
            assert!(matches!(Store::open(&path, Duration::ZERO), Err(Busy::Failed(_))), "{foreign}");
            assert_eq!(fs::read_to_string(&path).unwrap(), foreign);
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
