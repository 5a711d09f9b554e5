//! What `dd`, `hdparm` and `fio` measure of a disk or a file. A rate is judged where the disk is named and the test is one that such disks
//! do well at: long reads. What `dd` and `fio` reach depends on their block size, so that it is reported only.

use super::super::health::Health;
use super::super::words::rate_of;
use super::super::{Found, Text};
use peerlane_machine::fact::{Area, Grade};

const TOOL: &str = "rates of disks";

/// Below this an NVMe disk that reads in a row is slow, in MB/s: the first ones of PCIe 3.0 did more than twice as much.
const SLOW_NVME: f64 = 500.0;

/// The most rates that are reported.
const MOST: usize = 6;

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds_one_of(&[
        " copied, ",
        "Timing buffered disk reads",
        "Timing O_DIRECT disk reads",
        "READ: bw=",
        "WRITE: bw=",
    ]) {
        return;
    }
    let mut health = Health::default();
    let mut device: Option<&str> = None;
    let mut told: Vec<(String, usize)> = Vec::new();
    for (i, line) in text.iter().filter(|(_, line)| line.len() <= 400) {
        let line = line.trim();
        if let Some(name) = line.strip_prefix("/dev/").and_then(|rest| rest.strip_suffix(':')) {
            device = Some(name);
        } else if let Some(rate) = of_hdparm(line) {
            let slow = device.is_some_and(|name| name.starts_with("nvme")) && rate < SLOW_NVME;
            let name = device.unwrap_or("the disk");
            if slow {
                let value = format!("{rate} MB/s");
                health.trouble(Area::Test, Grade::Limit, Some(name), "an NVMe disk reads slowly:", &value, i);
            } else {
                health.sound(Area::Test, i);
            }
            told.push((format!("hdparm reads {name} at {rate} MB/s"), i));
        } else if let Some(rate) = of_dd(line) {
            health.sound(Area::Test, i);
            told.push((format!("dd copied at {rate}"), i));
        } else if let Some((kind, rate)) = of_fio(line) {
            health.sound(Area::Test, i);
            told.push((format!("fio {kind} at {rate}"), i));
        }
    }
    told.truncate(MOST);
    if let Some((_, first)) = told.first() {
        told.iter().for_each(|(_, i)| health.used(*i));
        let words: Vec<&str> = told.iter().map(|(words, _)| words.as_str()).collect();
        health.trouble(Area::Test, Grade::Note, None, "", &words.join("; "), *first);
    }
    health.push(text, TOOL, found);
}

/// `Timing buffered disk reads: 4000 MB in  3.00 seconds = 1333.24 MB/sec`.
fn of_hdparm(line: &str) -> Option<f64> {
    let rest = line
        .strip_prefix("Timing buffered disk reads:")
        .or_else(|| line.strip_prefix("Timing O_DIRECT disk reads:"))?;
    let (value, unit) = rest.rsplit_once(" = ")?.1.split_once(' ')?;
    let scale = match unit {
        "MB/sec" => 1.0,
        "GB/sec" => 1000.0,
        "kB/sec" => 0.001,
        _ => return None,
    };
    Some(rate_of(value.trim())? * scale).filter(|rate| rate.is_finite())
}

/// `1073741824 bytes (1.1 GB, 1.0 GiB) copied, 0.5 s, 2.1 GB/s`: the rate with its unit.
fn of_dd(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once(" copied, ")?;
    let (time, rate) = rest.rsplit_once(", ")?;
    let (number, unit) = rate.split_once(' ')?;
    let is_rate = number.parse::<f64>().is_ok_and(|n| n > 0.0) && unit.ends_with("B/s") && time.contains(" s");
    (before.contains(" bytes") && is_rate).then_some(rate)
}

/// `READ: bw=3012MiB/s (3158MB/s), 3012MiB/s-3012MiB/s (…), io=…`: what it did, and the rate with its unit.
fn of_fio(line: &str) -> Option<(&'static str, &str)> {
    let (kind, rest) = match line.strip_prefix("READ: bw=") {
        Some(rest) => ("reads", rest),
        None => ("writes", line.strip_prefix("WRITE: bw=")?),
    };
    let rate = rest.split([' ', ',']).next()?;
    (rate.starts_with(|c: char| c.is_ascii_digit()) && rate.ends_with("B/s")).then_some((kind, rate))
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{health, scanned};
    use super::*;

    #[test]
    fn rates_of_disks_are_told_and_an_nvme_disk_s_judged() {
        let hdparm = |name: &str, rate: &str| {
            health(
                scan,
                &format!("/dev/{name}:\n Timing buffered disk reads: 400 MB in  3.00 seconds = {rate} MB/sec\n"),
            )
        };
        let slow = hdparm("nvme0n1", "19.9");
        assert_eq!(
            (slow.sound, slow.troubles[0].grade, slow.troubles[0].part.as_deref()),
            (0, Grade::Limit, Some("nvme0n1"))
        );
        for (name, rate) in [("nvme0n1", "3100.5"), ("sda", "130.1")] {
            let good = hdparm(name, rate);
            assert_eq!((good.sound, good.troubles.len(), good.troubles[0].grade), (1, 1, Grade::Note), "{name}");
        }
        let dd = health(scan, "1073741824 bytes (1.1 GB, 1.0 GiB) copied, 0.5 s, 2.1 GB/s\n");
        assert_eq!((dd.sound, dd.troubles[0].value.as_str()), (1, "dd copied at 2.1 GB/s"));
        let fio =
            health(scan, "   READ: bw=3012MiB/s (3158MB/s), 3012MiB/s-3012MiB/s (3158MB/s-3158MB/s), io=88.2GiB\n");
        assert_eq!(fio.troubles[0].value, "fio reads at 3012MiB/s");
        assert_eq!(scanned(scan, "The file is copied, 3 s, 2 files\n"), Found::default());
    }
}
