//! RDMA between a GPU and a NIC: the methods compared, messages between two such nodes, and the card's engines.

use std::io::{self, Write};

use peerlane::model::rdma::{
    LikeNodes, Method, RdmaDescription, RdmaMethod, RdmaPoint, RdmaStage, ReadEngine, ReceiveEngine, Span,
};
use peerlane::units::Bytes;

use super::style::{self, paint};
use super::text::{hang, number};

/// The message sizes of the columns.
const SHOWN: [Bytes; 4] = [Bytes(512), Bytes(4 << 10), Bytes(32 << 10), Bytes(2 << 20)];

/// Writes the methods and what they give by size; `verbose` adds every limit, what a buffer costs once, the parts of
/// latencies, chunks of staging and revisions of a card's engines.
pub(crate) fn show(out: &mut dyn Write, rdma: &RdmaDescription, verbose: bool) -> io::Result<()> {
    if verbose {
        return everything(out, rdma);
    }
    summary(out, rdma)?;
    like_nodes(out, &rdma.between_like_nodes, false)?;
    measured(out, rdma)?;
    let more =
        "-v shows what limits each method, what a buffer costs once, the parts of latencies, and chunks of staging.";
    writeln!(out)?;
    hang(out, "", more)
}

/// Both directions of each method.
fn summary(out: &mut dyn Write, rdma: &RdmaDescription) -> io::Result<()> {
    let RdmaDescription { gpu, nic, .. } = rdma;
    heading(out, &format!("RDMA between {gpu} and {nic}, GB/s"))?;
    writeln!(out, "  {:<12} {:>12} {:>12}", "", "sending", "receiving")?;
    let rate = |m: Option<&RdmaMethod>| m.and_then(|m| m.rate).map_or("–".to_owned(), number);
    for sending in &rdma.to_network {
        let receiving = rdma.from_network.iter().find(|m| m.method == sending.method);
        let mark = if Some(sending.method) == rdma.in_use { " ◄" } else { "" };
        let label =
            format!("  {:<12} {:>12} {:>12}{mark}", sending.method.to_string(), rate(Some(sending)), rate(receiving));
        match &sending.not_offered {
            Some(why) => hang(out, &format!("{label}  "), why)?,
            None => writeln!(out, "{label}")?,
        }
    }
    in_use(out, rdma)
}

fn in_use(out: &mut dyn Write, rdma: &RdmaDescription) -> io::Result<()> {
    let used = rdma.in_use.map_or_else(String::new, |method| format!("{method}: "));
    hang(out, "  ◄ in use  ", &format!("{used}{}", rdma.in_use_because))
}

fn everything(out: &mut dyn Write, rdma: &RdmaDescription) -> io::Result<()> {
    let RdmaDescription { gpu, nic, .. } = rdma;
    heading(out, &format!("RDMA: {nic} reads {gpu}'s memory and sends it"))?;
    methods(out, &rdma.to_network, rdma)?;
    in_use(out, rdma)?;
    heading(out, &format!("RDMA: {nic} receives, and writes to {gpu}'s memory"))?;
    methods(out, &rdma.from_network, rdma)?;
    once(out, rdma)?;
    like_nodes(out, &rdma.between_like_nodes, true)?;
    staging(out, rdma)?;
    engines(out, rdma)?;
    measured(out, rdma)
}

fn heading(out: &mut dyn Write, text: &str) -> io::Result<()> {
    writeln!(out, "\n{}", paint(style::HEADING, text))
}

fn methods(out: &mut dyn Write, methods: &[RdmaMethod], rdma: &RdmaDescription) -> io::Result<()> {
    for m in methods {
        let mark = if Some(m.method) == rdma.in_use { "◄" } else { " " };
        match (m.rate, &m.not_offered) {
            (Some(rate), _) => {
                let label = format!("  {:<8} {:>8} GB/s {mark} ", m.method.to_string(), number(rate));
                hang(out, &label, &format!("bound by {}", m.bottleneck.as_deref().unwrap_or("an unknown limit")))?;
            }
            (None, why) => {
                let label = format!("  {:<8} {:>13}  ", m.method.to_string(), "–");
                hang(out, &label, why.as_deref().unwrap_or("not available"))?;
            }
        }
        for limit in &m.limits {
            hang(out, &format!("      {:>12} GB/s  ", number(limit.rate)), &limit.what)?;
        }
    }
    Ok(())
}

/// The cost of setting up a buffer, and remarks on each method.
fn once(out: &mut dyn Write, rdma: &RdmaDescription) -> io::Result<()> {
    let setup = rdma.to_network.iter().flat_map(|m| m.setup.iter().map(move |s| (m.method, s)));
    let all: Vec<(Method, &RdmaStage)> = setup.collect();
    let remarks = |m: &RdmaMethod| m.remarks.iter().map(|r| (m.method, r.clone())).collect::<Vec<_>>();
    let mut notes: Vec<(Method, String)> = rdma.to_network.iter().chain(&rdma.from_network).flat_map(remarks).collect();
    notes.sort();
    notes.dedup();
    if all.is_empty() && notes.is_empty() {
        return Ok(());
    }
    heading(out, "Registration, mapping and caveats")?;
    for (method, stage) in all {
        let label = format!("  {:<8} {:>13}  ", method.to_string(), format!("{} µs", micros(&stage.time)));
        hang(out, &label, &format!("once per buffer: {}", stage.name))?;
    }
    for (method, remark) in notes {
        hang(out, &format!("  {:<8} {:>13}  ", method.to_string(), ""), &remark)?;
    }
    Ok(())
}

fn micros(time: &Span) -> String {
    let shown = |v: f64| format!("{v:.*}", if v >= 100.0 { 0 } else { usize::from(v < 10.0) + 1 });
    let (low, high) = (shown(time.low.us()), shown(time.high.us()));
    if low == high { low } else { format!("{low}–{high}") }
}

/// Stages in order, those of the same name combined: `software 2.22 + apenet0's hardware 1.00 µs`.
fn sum(stages: &[RdmaStage]) -> String {
    let mut parts: Vec<(&str, Span)> = Vec::new();
    for stage in stages {
        match parts.iter_mut().find(|(name, _)| *name == stage.name) {
            Some((_, time)) => *time = *time + stage.time,
            None => parts.push((&stage.name, stage.time)),
        }
    }
    let parts: Vec<String> = parts.iter().map(|(name, time)| format!("{name} {}", micros(time))).collect();
    format!("{} µs", parts.join(" + "))
}

fn like_nodes(out: &mut dyn Write, all: &[LikeNodes], verbose: bool) -> io::Result<()> {
    if all.is_empty() {
        return Ok(());
    }
    heading(out, "Messages between two such nodes")?;
    writeln!(out, "  {:<12} {:>12} {}", "", "0 B, µs", size_heads())?;
    for like in all {
        writeln!(
            out,
            "  {:<12} {:>12} {}",
            like.method.to_string(),
            micros(&like.latency),
            rates(&like.curve, like.rate)
        )?;
        if verbose {
            hang(out, "                 ", &format!("bound by {}", like.bottleneck))?;
        }
    }
    writeln!(out)?;
    for like in all {
        let label = format!("  {:<12} ", like.method.to_string());
        if verbose {
            hang(out, &label, &sum(&like.stages))?;
            stages(out, &like.stages)?;
        }
        let label = if verbose { " ".repeat(label.len()) } else { label };
        if let Some(repaid) = like.repaid {
            let words = format!(
                "registration pays off after {} to {} messages of {}, compared with staging",
                repaid.fewest, repaid.most, repaid.size
            );
            hang(out, &label, &words)?;
        }
        if let Some(size) = like.staging_from {
            hang(out, &label, &format!("staging is faster for messages of {size} and more"))?;
        }
    }
    Ok(())
}

/// Where the time of each stage comes from; the same stage on both nodes once.
fn stages(out: &mut dyn Write, stages: &[RdmaStage]) -> io::Result<()> {
    let mut shown: Vec<String> = Vec::new();
    for stage in stages {
        let assumed = if stage.assumed && !stage.why.ends_with("assumed") { ", assumed" } else { "" };
        let line = format!("{}: {}{assumed}", stage.name, stage.why);
        if !shown.contains(&line) {
            hang(out, "                 ", &line)?;
            shown.push(line);
        }
    }
    Ok(())
}

/// The division of staged messages, and the best one by size.
fn staging(out: &mut dyn Write, rdma: &RdmaDescription) -> io::Result<()> {
    let Some(staging) = &rdma.staging else { return Ok(()) };
    let chunk = staging.pipeline.chunk;
    let depth = staging.pipeline.depth.map_or("as many in flight as it takes".to_owned(), |d| format!("{d} in flight"));
    heading(out, &format!("Staged messages in chunks of {chunk}, {depth}: µs alone"))?;
    let now = format!("in {chunk}");
    writeln!(out, "  {:<12} {now:>12} {:>12} {:>12} {:>12}", "message", "best chunk", "in these", "direct")?;
    for best in &staging.best {
        let us = |time: peerlane::units::Seconds| format!("{:.1}", time.us());
        let direct = best.time_direct.map_or("–".to_owned(), us);
        let (size, chunk) = (best.size.to_string(), best.chunk.to_string());
        let (now, then) = (us(best.time_as_divided), us(best.time));
        writeln!(out, "  {size:<12} {now:>12} {chunk:>12} {then:>12} {direct:>12}")?;
    }
    Ok(())
}

fn size_heads() -> String {
    let sizes: String = SHOWN.iter().map(|size| format!(" {:>9}", size.to_string())).collect();
    format!("{sizes} {:>9}  GB/s", "asymptote")
}

fn rates(curve: &[RdmaPoint], asymptote: f64) -> String {
    let at = |size: &Bytes| curve.iter().find(|p| p.size == *size).map_or("–".to_owned(), |p| number(p.rate));
    let sizes: String = SHOWN.iter().map(|size| format!(" {:>9}", at(size))).collect();
    format!("{sizes} {:>9}", number(asymptote))
}

fn measured(out: &mut dyn Write, rdma: &RdmaDescription) -> io::Result<()> {
    for sweep in &rdma.measured {
        heading(out, &format!("Measured by message size: {}, GB/s", sweep.what))?;
        for p in &sweep.points {
            let ratio = if p.expected > 0.0 { number(p.rate / p.expected) } else { "–".to_owned() };
            let (rate, expected) = (three(p.rate), three(p.expected));
            writeln!(out, "  {:>10} {rate:>9}  {ratio} of expected {expected}", p.size.to_string())?;
        }
    }
    Ok(())
}

/// A rate, with more digits below 1 GB/s.
fn three(value: f64) -> String {
    if value < 1.0 { format!("{value:.4}") } else { number(value) }
}

fn engines(out: &mut dyn Write, rdma: &RdmaDescription) -> io::Result<()> {
    let RdmaDescription { nic, read_engines, receive_engines, .. } = rdma;
    if !read_engines.is_empty() {
        heading(out, &format!("Revisions of {nic}'s GPU-read engine"))?;
        writeln!(out, "  {:<25} {}", "", size_heads())?;
    }
    for revision in read_engines {
        let name = match revision.engine {
            ReadEngine::V1 => "V1, no prefetch",
            ReadEngine::V2 => "V2, prefetch",
            ReadEngine::V3 => "V3, new flow control",
        };
        let mark = if revision.fitted { "◄" } else { " " };
        writeln!(out, "  {name:<23} {mark} {}", rates(&revision.curve, revision.rate))?;
    }
    if !receive_engines.is_empty() {
        heading(out, &format!("Revisions of {nic}'s receive engine, GB/s at most"))?;
    }
    for revision in receive_engines {
        let name = match revision.engine {
            ReceiveEngine::Original => "original code",
            ReceiveEngine::Optimised => "optimised code",
            ReceiveEngine::Hardware => "hardware accelerated",
        };
        let mark = if revision.fitted { "◄" } else { " " };
        hang(out, &format!("  {name:<23} {mark} {:>8}  ", number(revision.at_most)), &revision.bottleneck)?;
    }
    Ok(())
}
