//! The flow benchmark: random flows over a torus, all at once, by max-min fair sharing, against SimGrid's (its
//! program and figures: `docs/simulation.md`).
//!
//! `cargo bench -p peerlane --bench flows` runs the cases that end within seconds; with arguments
//! `-- torus:32x32x32 100000 rand 3000` one case, up to so many ends.

#![allow(
    clippy::print_stdout,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a benchmark prints, and its input is its own"
)]

use std::time::Instant;

use peerlane::simulate::flows::Flows;

/// Bytes a second of each channel.
const RATE: f64 = 10e9;

/// The 64-bit Mersenne Twister (Matsumoto and Nishimura, 2000), C++'s `std::mt19937_64`, so that the flows are those
/// of the program that is compared.
struct Twister {
    state: [u64; 312],
    at: usize,
}

impl Twister {
    fn new(seed: u64) -> Self {
        let mut state = [seed; 312];
        for i in 1..312 {
            let before = state[i - 1];
            state[i] = 6_364_136_223_846_793_005_u64.wrapping_mul(before ^ (before >> 62)).wrapping_add(i as u64);
        }
        Twister { state, at: 312 }
    }

    fn draw(&mut self) -> u64 {
        if self.at == 312 {
            for i in 0..312 {
                let x = (self.state[i] & !0x7fff_ffff) | (self.state[(i + 1) % 312] & 0x7fff_ffff);
                let odd = if x & 1 == 1 { 0xb502_6f5a_a966_19e9 } else { 0 };
                self.state[i] = self.state[(i + 156) % 312] ^ (x >> 1) ^ odd;
            }
            self.at = 0;
        }
        let mut x = self.state[self.at];
        self.at += 1;
        x ^= (x >> 29) & 0x5555_5555_5555_5555;
        x ^= (x << 17) & 0x71d6_7fff_eda6_0000;
        x ^= (x << 37) & 0xfff7_eee0_0000_0000;
        x ^ (x >> 43)
    }
}

/// Channels from one host to another by dimension-order routing: two a host and dimension, on the host that the
/// positive one leaves; the shorter way round, of two that are equal
/// the positive one, except from the middle to 0: SimGrid 3.32's choice.
fn route(dims: &[u32], from: u32, to: u32, uses: &mut Vec<(u32, f64)>) {
    uses.clear();
    let (mut here, mut stride) = (from, 1);
    for (d, &n) in dims.iter().enumerate() {
        loop {
            let (x, y) = (here / stride % n, to / stride % n);
            if x == y {
                break;
            }
            let ahead = (y + n - x) % n;
            let up = 2 * ahead < n || (2 * ahead == n && !(y == 0 && x == n / 2));
            let next = if up { (x + 1) % n } else { (x + n - 1) % n };
            let there = here - x * stride + next * stride;
            let owner = if up { here } else { there };
            uses.push(((owner * dims.len() as u32 + d as u32) * 2 + u32::from(!up), 1.0));
            here = there;
        }
        stride *= n;
    }
}

/// Highest resident memory so far, in MB, where the system tells.
fn peak_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.split_whitespace().next()?.parse::<f64>().ok()).map_or(f64::NAN, |kb| kb / 1024.0)
}

/// Processor time of this thread so far, in seconds, where the system tells: the clock on the wall counts others' work, too.
fn busy() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).map_or(f64::NAN, |ns| ns / 1e9)
}

/// So many significant digits.
fn digits(x: f64, n: i32) -> String {
    let places = if x > 0.0 { (n - 1 - x.log10().floor() as i32).max(0) as usize } else { 0 };
    format!("{x:.places$}")
}

fn case(topology: &str, flows: usize, mode: &str, most: usize) {
    let shape = topology.strip_prefix("torus:").expect("torus:XxYxZ");
    let dims: Vec<u32> = shape.split('x').map(|n| n.parse().expect("a number")).collect();
    let hosts: u32 = dims.iter().product();
    let mut net = Flows::new(&vec![RATE; hosts as usize * dims.len() * 2]).expect("capacities");
    let mut random = Twister::new(1);
    let mut uses = Vec::new();
    let (wall, started) = (Instant::now(), busy());
    let mut add = |from: u32, to: u32, bytes: f64, tag: usize| {
        route(&dims, from, to, &mut uses);
        let class = net.class(&uses, 1.0, f64::INFINITY).expect("a sound class");
        net.start(class, bytes, tag as u32);
    };
    let mut count = flows;
    if let Some(k) = mode.strip_prefix("a2a:") {
        let k: u32 = k.parse().expect("a number");
        let pairs = (0..k).flat_map(|i| (0..k).filter(move |j| *j != i).map(move |j| (i, j)));
        count = 0;
        for (i, j) in pairs {
            add(i * (hosts / k), j * (hosts / k), 1e6, count);
            count += 1;
        }
    } else {
        for tag in 0..flows {
            let from = (random.draw() % u64::from(hosts)) as u32;
            let to = loop {
                let to = (random.draw() % u64::from(hosts)) as u32;
                if to != from {
                    break to;
                }
            };
            let bytes = if mode == "same" { 64e6 } else { 1e6 + (random.draw() % 63_000_000) as f64 };
            add(from, to, bytes, tag);
        }
    }
    let (inject, solving) = (busy() - started, busy());
    let mut next = net.next_end();
    let first = busy() - solving;
    let (mut ended, mut done) = (Vec::new(), 0);
    while let Some(time) = next.filter(|_| done < most) {
        ended.clear();
        net.advance(time, &mut ended);
        done += ended.len();
        next = if net.active() > 0 { net.next_end() } else { None };
    }
    let effort = net.effort();
    let per = |n: u64| n as f64 / effort.repairs.max(1) as f64;
    println!(
        "{topology} {mode}, {done} of {count} flows done: {:.3} s ({:.3} s busy: inject {inject:.3}, first rates {first:.3}), \
         {:.0} MB, clock {} s; {} repairs of {:.1} links and {:.1} levels, {} fills",
        wall.elapsed().as_secs_f64(),
        busy() - started,
        peak_mb(),
        digits(net.now(), 9),
        effort.repairs,
        per(effort.links),
        per(effort.levels),
        effort.fills,
    );
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    if let [topology, flows, mode, rest @ ..] = args.as_slice() {
        let most = rest.first().map_or(usize::MAX, |n| n.parse().expect("a number"));
        return case(topology, flows.parse().expect("a number"), mode, most);
    }
    case("torus:8x8x8", 1_000, "rand", usize::MAX);
    case("torus:8x8x8", 10_000, "rand", usize::MAX);
    case("torus:16x16x16", 10_000, "rand", usize::MAX);
    case("torus:16x16x16", 10_000, "same", usize::MAX);
    case("torus:16x16x16", 0, "a2a:128", usize::MAX);
}
