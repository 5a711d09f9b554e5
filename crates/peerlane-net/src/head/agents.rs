//! Agents as a network.

use std::collections::{BTreeSet, HashMap};
use std::io::ErrorKind;
use std::net::IpAddr;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use peerlane_machine::units::Seconds;
use peerlane_measure::measure::Failure;
use peerlane_measure::nodes::{Lost, Method, Network, Node, PortErrors, Samples, Step};

use super::{Came, Event, Link};
use crate::message::{ToAgent, ToHead};
use crate::{Error, PULSE};

/// All agents of a run. They end when this is dropped.
pub struct Agents {
    pub(super) nodes: Vec<Node>,
    pub(super) links: Vec<Arc<Link>>,
    /// Nodes by the numbers of their connections.
    pub(super) numbers: HashMap<usize, usize>,
    pub(super) events: Receiver<Event>,
    pub(super) lost: Vec<Lost>,
    /// The number of the next side.
    pub(super) next: u64,
    /// Processes beside their node's first: kept until the end, so that their launcher does not end the others.
    beside: Vec<Arc<Link>>,
    began: Instant,
}

impl Agents {
    /// Tells all agents that the run begins.
    pub(super) fn start(events: Receiver<Event>, all: Came, nodes: Vec<Node>) -> Result<Self, Error> {
        let (mut links, mut beside, mut numbers) = (Vec::new(), Vec::new(), HashMap::new());
        for (number, link, hello) in all.into_values() {
            if hello.node.is_some() {
                numbers.insert(number, links.len());
                links.push(link);
            } else {
                beside.push(link);
            }
        }
        let everyone: Vec<Weak<Link>> = links.iter().chain(&beside).map(Arc::downgrade).collect();
        thread::Builder::new()
            .name("pulse".to_owned())
            .stack_size(crate::STACK)
            .spawn(move || {
                loop {
                    let mut some = false;
                    for link in everyone.iter().filter_map(Weak::upgrade) {
                        some = true;
                        let _ = link.send(&ToAgent::Alive);
                    }
                    if !some {
                        break;
                    }
                    thread::sleep(PULSE);
                }
            })
            .map_err(|e| Error::Gone(format!("cannot start a thread: {e}")))?;
        let common = outside(&links);
        let mut agents =
            Agents { nodes, links, numbers, events, lost: Vec::new(), next: 0, beside, began: Instant::now() };
        for node in 0..agents.links.len() {
            let peer = agents.links[node].peer;
            let address = if peer.is_loopback() { common.unwrap_or(peer) } else { peer };
            agents.tell(node, &ToAgent::Start { address });
        }
        Ok(agents)
    }

    /// Processes that came and do not measure, since their node has an agent.
    pub fn beside(&self) -> usize {
        self.beside.len()
    }

    /// Sends a message to a node's agent. One that cannot be reached is lost.
    pub(super) fn tell(&mut self, node: usize, message: &ToAgent) {
        if !self.is_lost(node)
            && let Err(e) = self.links[node].send(message)
        {
            // which is noticed first, by a message or by the thread that listens, is chance
            self.lose(
                node,
                match e.kind() {
                    ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => "its agent closed the connection".to_owned(),
                    _ => format!("nothing can be sent to its agent: {e}"),
                },
            );
        }
    }

    pub(super) fn is_lost(&self, node: usize) -> bool {
        self.lost.iter().any(|lost| lost.node == node)
    }

    pub(super) fn lose(&mut self, node: usize, why: String) {
        if !self.is_lost(node) {
            self.links[node].close();
            self.lost.push(Lost { node, why });
        }
    }

    /// Those of these nodes whose agents were silent for longer are lost.
    pub(super) fn lose_silent(&mut self, nodes: &[usize], silence: Duration) {
        for &node in nodes {
            if self.links[node].heard().elapsed() > silence {
                self.lose(node, format!("its agent gave no sign of life for {:.0} s", silence.as_secs_f64()));
            }
        }
    }

    /// Why a step with a lost node has no value.
    pub(super) fn why_lost(&self, step: &Step) -> Option<String> {
        let lost = self.lost.iter().find(|lost| step.nodes().any(|node| node == lost.node))?;
        Some(format!("{} was lost: {}", self.nodes[lost.node].host, lost.why))
    }
}

/// The head's address as most other hosts reach it: that of its own agent, which came from within.
fn outside(links: &[Arc<Link>]) -> Option<IpAddr> {
    let mut counts: HashMap<IpAddr, usize> = HashMap::new();
    for link in links.iter().filter(|link| !link.peer.is_loopback()) {
        *counts.entry(link.own).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(address, count)| (*count, *address)).map(|(address, _)| address)
}

impl Network for Agents {
    fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    fn round(&mut self, steps: &[Step], method: &Method) -> Vec<Result<Samples, Failure>> {
        super::round::run(self, steps, method)
    }

    fn lost(&self) -> &[Lost] {
        &self.lost
    }

    fn now(&mut self) -> Seconds {
        Seconds::new(self.began.elapsed().as_secs_f64())
    }

    fn port_errors(&mut self, within: Seconds) -> Vec<PortErrors> {
        (0..self.nodes.len()).for_each(|node| self.tell(node, &ToAgent::Count));
        let mut waiting: BTreeSet<usize> = (0..self.nodes.len()).filter(|node| !self.is_lost(*node)).collect();
        let by = Instant::now() + Duration::from_secs_f64(within.seconds().clamp(0.0, 60.0));
        let mut all = Vec::new();
        while !waiting.is_empty() {
            let left = by.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left) {
                Ok(Event::Said(number, ToHead::Counted { ports, errors })) => {
                    if let Some(&node) = self.numbers.get(&number)
                        && waiting.remove(&node)
                        && !ports.is_empty()
                    {
                        all.push(PortErrors { node, ports, errors });
                    }
                }
                Ok(Event::Gone(number, why)) => {
                    super::round::gone(self, number, why);
                    waiting.retain(|node| !self.lost.iter().any(|lost| lost.node == *node));
                }
                Ok(Event::Said(..) | Event::Came(..)) => {}
                Err(_) => break,
            }
        }
        all.sort_by_key(|of| of.node);
        all
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        for link in self.links.iter().chain(&self.beside) {
            let _ = link.send(&ToAgent::Done);
        }
    }
}

#[cfg(test)]
impl Agents {
    /// Closes all connections without a word, as a head does that was killed.
    pub(crate) fn cut(&self) {
        self.links.iter().for_each(|link| link.close());
    }
}
