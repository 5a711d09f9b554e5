//! `/proc/cpuinfo`: one stanza a logical CPU.

use std::collections::{BTreeMap, BTreeSet};

use super::text::Span;
use super::words::key_value;
use super::{Fact, Found, HostFacts, Text};

const TOOL: &str = "/proc/cpuinfo";

pub(super) fn scan(text: &Text, found: &mut Found) {
    let mut cpus = Cpus::default();
    for (i, line) in text.iter() {
        // the kernel puts a tab before the colon; nothing else writes `model name<TAB>:`
        match key_value(line).filter(|_| line.contains("\t:")) {
            Some((key, value)) => {
                if key == "processor" && value == "0" {
                    cpus.finish(text, found);
                }
                cpus.take(i, key, value);
            }
            // empty fields such as `power management:`
            None if line.trim().is_empty() || line.contains(':') => {}
            None => cpus.finish(text, found),
        }
    }
    cpus.finish(text, found);
}

/// The text without what every stanza repeats at length: the processors' features stand once.
pub(super) fn shortened(text: &str) -> String {
    const LONG: [&str; 5] = ["flags", "vmx flags", "bugs", "Features", "power management"];
    let mut kept = BTreeSet::new();
    let repeats = |line: &&str| {
        let key = line.split(':').next().unwrap_or_default().trim();
        !LONG.contains(&key) || kept.insert(key.to_owned())
    };
    text.split_inclusive('\n').filter(repeats).collect()
}

/// The stanzas of one machine.
#[derive(Default)]
struct Cpus {
    lines: Span,
    processors: u32,
    packages: BTreeSet<u32>,
    /// Logical CPUs of a package, by package.
    siblings: BTreeMap<u32, u32>,
    package: Option<u32>,
    model: Option<String>,
    vendor: Option<String>,
    family: Option<u32>,
    model_number: Option<u32>,
    hypervisor: bool,
}

impl Cpus {
    fn take(&mut self, i: usize, key: &str, value: &str) {
        let number = value.parse().ok();
        match key {
            "processor" if number.is_some() => self.processors += 1,
            "model name" | "cpu" => self.model = Some(value.to_owned()),
            "vendor_id" => self.vendor = Some(value.to_owned()),
            "cpu family" => self.family = number,
            "model" => self.model_number = number,
            "physical id" => {
                self.package = number;
                self.packages.extend(number);
            }
            "siblings" => {
                // `siblings` follows `physical id` in each stanza
                if let (Some(package), Some(count)) = (self.package, number) {
                    self.siblings.insert(package, count);
                }
            }
            "flags" => self.hypervisor |= value.split_whitespace().any(|flag| flag == "hypervisor"),
            _ => return,
        }
        self.lines.add(i);
    }

    /// Pushes what was read and starts anew.
    fn finish(&mut self, text: &Text, found: &mut Found) {
        let cpus = std::mem::take(self);
        let Some(lines) = cpus.lines.numbers(text).filter(|_| cpus.model.is_some()) else { return };
        let mut host = HostFacts { cpu_model: cpus.model, ..HostFacts::default() };
        host.cpu_ids = cpus.vendor.zip(cpus.family).zip(cpus.model_number).map(|((v, f), m)| (v, f, m));
        let announced: u32 = cpus.siblings.values().fold(0, |sum, n| sum.saturating_add(*n));
        if announced > cpus.processors {
            let message =
                format!("{} of {announced} CPUs: the capture is cut, sockets are not counted", cpus.processors);
            found.warn(text, TOOL, lines, message);
        } else {
            host.sockets = u32::try_from(cpus.packages.len()).ok().filter(|n| *n > 0);
        }
        host.hypervisor = cpus.hypervisor.then(|| "unnamed (CPU flag)".to_owned());
        found.push(text, TOOL, lines, Fact::Host(host));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scanned(text: &str) -> (Vec<HostFacts>, usize) {
        let mut found = Found::default();
        scan(&Text::new("test", text.as_bytes()), &mut found);
        let host = |fact| if let Fact::Host(host) = fact { host } else { panic!() };
        (found.evidence.into_iter().map(|e| host(e.fact)).collect(), found.warnings.len())
    }

    fn stanza(cpu: u32, package: u32) -> String {
        format!(
            "processor\t: {cpu}\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: Some EPYC\n\
             physical id\t: {package}\nsiblings\t: 2\ncpu cores\t: 2\nflags\t\t: fpu vme hypervisor\npower management:\n\n"
        )
    }

    #[test]
    fn what_is_shortened_says_the_same() {
        let stanza =
            |n: u32| format!("processor\t: {n}\nmodel name\t: A CPU\nflags\t\t: fpu hypervisor\nbugs\t\t: many\n\n");
        let (long, short) = (stanza(0) + &stanza(1), shortened(&(stanza(0) + &stanza(1))));
        assert_eq!((short.matches("fpu").count(), short.matches("processor").count()), (1, 2));
        let facts = |text: &str| {
            let mut found = Found::default();
            scan(&Text::new("x", text.as_bytes()), &mut found);
            found.evidence.into_iter().map(|e| e.fact).collect::<Vec<_>>()
        };
        assert_eq!(facts(&short), facts(&long));
        assert_eq!(facts(&short).len(), 1);
    }

    #[test]
    fn two_sockets() {
        let text: String = (0..4).map(|cpu| stanza(cpu, cpu / 2)).collect();
        let (hosts, warnings) = scanned(&text);
        assert_eq!((hosts.len(), warnings), (1, 0));
        assert_eq!(hosts[0].sockets, Some(2));
        assert_eq!(hosts[0].cpu_ids, Some(("AuthenticAMD".to_owned(), 25, 17)));
        assert!(hosts[0].hypervisor.is_some());
    }

    #[test]
    fn a_cut_file_does_not_count() {
        let (hosts, warnings) = scanned(&stanza(0, 0));
        assert_eq!((hosts[0].sockets, warnings), (None, 1));
        let (hosts, _) = scanned("model name\t: Some CPU\nmodel name\t: Some CPU\n");
        assert_eq!(hosts[0].cpu_model.as_deref(), Some("Some CPU"));
        assert_eq!(scanned("cat /proc/cpuinfo | grep 'model name'\nmodel name: a doll\n").0, []);
    }
}
