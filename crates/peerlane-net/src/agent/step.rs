//! The steps that are open on this node. Each has a thread, which owns its side.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use peerlane_machine::units::Seconds;
use peerlane_measure::measure::Failure;
use peerlane_measure::nodes::Step;
use peerlane_measure::run::FlagKind;

use super::{Transports, say};
use crate::message::{ToAgent, ToHead};
use crate::transport::Part;
use crate::wire::Sender;

/// What the thread of a step is told.
enum Order {
    Connect(String),
    Run { samples: usize, time: Seconds },
    Finish { verify: bool },
}

/// A step that is open.
struct Open {
    orders: mpsc::Sender<Order>,
    /// Whether the side need not serve any more.
    over: Arc<AtomicBool>,
}

/// All of them.
pub(super) struct Steps {
    transports: Arc<Transports>,
    head: Arc<Mutex<Sender>>,
    open: HashMap<u64, Open>,
}

impl Steps {
    pub(super) fn new(transports: Arc<Transports>, head: Arc<Mutex<Sender>>) -> Self {
        Steps { transports, head, open: HashMap::new() }
    }

    /// Passes a message of the head on to the thread of its step.
    pub(super) fn take(&mut self, message: ToAgent) {
        match message {
            ToAgent::Prepare { id, step, part } => self.prepare(id, *step, part),
            ToAgent::Connect { id, peer } => self.order(id, Order::Connect(peer)),
            ToAgent::Run { id, samples, time } => self.order(id, Order::Run { samples, time }),
            ToAgent::Finish { id, verify } => {
                self.end(id);
                self.order(id, Order::Finish { verify });
                self.open.remove(&id);
            }
            ToAgent::Drop { id } => {
                self.end(id);
                self.open.remove(&id);
            }
            ToAgent::Alive | ToAgent::Start { .. } | ToAgent::Refused(_) | ToAgent::Done | ToAgent::Count => {}
        }
    }

    fn prepare(&mut self, id: u64, step: Step, part: Part) {
        let (orders, given) = mpsc::channel();
        let over = Arc::new(AtomicBool::new(false));
        self.open.insert(id, Open { orders, over: Arc::clone(&over) });
        let (transports, head) = (Arc::clone(&self.transports), Arc::clone(&self.head));
        let spawned = thread::Builder::new().name(format!("step {id}")).spawn({
            let head = Arc::clone(&head);
            move || {
                let mut answer = |message: ToHead| {
                    // a head that is gone ends this process from the thread that listens to it
                    let _ = say(&head, &message);
                };
                let work = Work { id, step: &step, part, over: &over, given: &given };
                if let Err(failure) = work.run(&transports, &mut answer) {
                    answer(ToHead::failed(id, failure));
                }
            }
        });
        if let Err(e) = spawned {
            let failure = Failure::new(FlagKind::Failed, format!("cannot start a thread: {e}"));
            let _ = say(&head, &ToHead::failed(id, failure));
        }
    }

    fn order(&self, id: u64, order: Order) {
        if let Some(open) = self.open.get(&id) {
            let _ = open.orders.send(order);
        }
    }

    fn end(&self, id: u64) {
        if let Some(open) = self.open.get(&id) {
            open.over.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        for open in self.open.values() {
            open.over.store(true, Ordering::Relaxed);
        }
    }
}

/// One step of this node's.
struct Work<'a> {
    id: u64,
    step: &'a Step,
    part: Part,
    over: &'a AtomicBool,
    given: &'a Receiver<Order>,
}

impl Work<'_> {
    /// Follows the head's orders to the end. Returns early where the head gave the step up.
    fn run(&self, transports: &Transports, answer: &mut dyn FnMut(ToHead)) -> Result<(), Failure> {
        let id = self.id;
        let mut side = transports.side(self.step, self.part)?;
        answer(ToHead::Prepared { id, address: side.address() });
        while let Some(order) = self.next()? {
            match order {
                Order::Connect(peer) => {
                    side.connect(&peer)?;
                    answer(ToHead::Connected { id });
                }
                Order::Run { samples, time } if self.part.active => {
                    let values = side.sample(samples, time)?;
                    answer(ToHead::Sampled { id, values });
                }
                Order::Run { .. } => side.serve(&|| self.over.load(Ordering::Relaxed))?,
                Order::Finish { verify: true } => {
                    let verdict = side.verify()?.into();
                    // the next step may come as soon as this is known
                    drop(side);
                    answer(ToHead::Verified { id, verdict });
                    break;
                }
                Order::Finish { verify: false } => break,
            }
        }
        Ok(())
    }

    /// The next order; none where the head gave the step up.
    fn next(&self) -> Result<Option<Order>, Failure> {
        match self.given.recv_timeout(Duration::from_secs_f64(2.0 * self.part.patience.seconds().clamp(0.1, 3600.0))) {
            Ok(order) => Ok(Some(order)),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => Err(Failure::new(FlagKind::Hung, "the head gave no further order")),
        }
    }
}
