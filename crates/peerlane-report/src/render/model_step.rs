//! A step of a model: how long it takes in time and tokens, what for, and what it holds.

use std::io::{self, Write};

use peerlane::simulate::model_step::memory::Memory;
use peerlane::simulate::model_step::report::{CommunicationSummary, ModelSummary, SpentOn, StepSummary};

use super::style::{self, paint};
use super::table::{columns, percent, size};
use super::text::{count, hang, number};

/// A step.
///
/// # Errors
/// Where the output cannot be written.
pub fn show(out: &mut dyn Write, step: &StepSummary, verbose: bool) -> io::Result<()> {
    hang(out, "", &format!("{}; {}", model(&step.model), layout(step)))?;
    let line = |out: &mut dyn Write, name: &str, text: &str| hang(out, &format!("  {name:<14}"), text);
    match &step.apart {
        Some(apart) => {
            line(
                out,
                "first token",
                &format!(
                    "{}: prefill {}, {} of keys and values {}",
                    seconds(step.time),
                    seconds(apart.prefill),
                    size(apart.transfer_bytes as u64),
                    seconds(apart.transfer)
                ),
            )?;
            line(out, "next tokens", &seconds(apart.token))?;
            let (p, d) = (apart.prefill_copies, apart.decode_copies);
            let words = |n: usize| if n == 1 { "1 copy".to_owned() } else { format!("{n} copies") };
            line(
                out,
                "requests/s",
                &format!(
                    "{}, with {} for prefill and {} for decoding",
                    number(apart.requests_per_second),
                    words(p),
                    words(d)
                ),
            )?;
            if let Some(by) = &apart.transfer_held_by {
                line(out, "transfer by", by)?;
            }
        }
        None => {
            let name = match step.kind {
                "training" => "step",
                "decode" => "token",
                _ => "prompts",
            };
            line(out, name, &seconds(step.time))?;
        }
    }
    line(
        out,
        "tokens/s",
        &format!("{}; {} a GPU", whole(step.tokens_per_second), whole(step.tokens_per_second_per_gpu)),
    )?;
    if let Some(mfu) = step.mfu {
        line(out, "MFU", &percent(mfu))?;
    }
    if let Some(share) = step.memory_share {
        line(out, "memory rate", &format!("{} of its peak, for weights, keys and values", percent(share)))?;
    }
    line(out, "memory a GPU", &memory(&step.memory))?;
    if let Some(most) = step.sequences_that_fit {
        line(out, "that fit", &format!("{} of this length a copy", count(most as usize, "sequence")))?;
    }
    if let Some(by) = &step.bottleneck {
        line(out, "bottleneck", by)?;
    }
    let computing = &step.computing;
    let text = format!("{}, products at {} TFLOP/s: {}", computing.gpu, number(computing.tflops), computing.how);
    line(out, "computing", &text)?;
    if verbose && !step.model.source.is_empty() {
        line(out, "source", &step.model.source)?;
    }
    writeln!(out)?;
    let headings = ["time is spent on", "ms", "share", ""].map(str::to_owned);
    let row = |spent: &SpentOn| {
        vec![words(spent.on).to_owned(), number(spent.time * 1e3), percent(spent.share), String::new()]
    };
    columns(out, &headings, &step.spent.iter().map(row).collect::<Vec<_>>(), 1)?;
    if step.communication.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", paint(style::HEADING, "Communication of the busiest GPU"))?;
    let headings = ["of", "what", "ranks", "times", "size", "all ms", "bound by"].map(str::to_owned);
    let row = |one: &CommunicationSummary| {
        let held = one.held_by.clone().unwrap_or_default();
        let (of, what) = (one.of.to_owned(), one.what.to_owned());
        vec![of, what, one.ranks.to_string(), number(one.times), size(one.bytes as u64), number(one.time * 1e3), held]
    };
    columns(out, &headings, &step.communication.iter().map(row).collect::<Vec<_>>(), 2)
}

/// What time is spent on, in a word or two.
pub fn short(on: &str) -> &str {
    if on == "bubble" { "pipeline bubble" } else { on }
}

/// What the time is spent on.
fn words(on: &str) -> &str {
    match on {
        "tensor" => "tensor group, exposed",
        "context" => "context group, exposed",
        "experts" => "experts, exposed",
        "stages" => "stages, exposed",
        "copies" => "copies, exposed",
        "bubble" => "pipeline bubble",
        other => other,
    }
}

fn model(of: &ModelSummary) -> String {
    let billions = |n: f64| format!("{} billion", number(n / 1e9));
    match of.active {
        Some(active) => {
            format!("{}, {} parameters, {} of them for each token", of.name, billions(of.parameters), billions(active))
        }
        None if of.name.ends_with("parameters") => of.name.clone(),
        None => format!("{}, {} parameters", of.name, billions(of.parameters)),
    }
}

fn layout(step: &StepSummary) -> String {
    let copies = match (step.copies, step.gpus) {
        (1, gpus) => format!("one copy on {}", count(gpus, "GPU")),
        (n, gpus) => format!("{n} copies on {}", count(gpus, "GPU")),
    };
    match step.micro_batches {
        Some(n) => {
            format!("{copies}, {} each", if n == 1 { "1 micro-batch".to_owned() } else { format!("{n} micro-batches") })
        }
        None => copies,
    }
}

fn seconds(time: f64) -> String {
    if time >= 1.0 { format!("{} s", number(time)) } else { format!("{} ms", number(time * 1e3)) }
}

/// A count of tokens, with a separator.
pub fn whole(value: f64) -> String {
    if value < 1000.0 {
        return number(value);
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn memory(memory: &Memory) -> String {
    let gb = |bytes: f64| number(bytes / 1e9);
    let parts = [
        ("weights", memory.weights),
        ("gradients", memory.gradients),
        ("optimizer", memory.optimizer),
        ("activations", memory.activations),
        ("keys and values", memory.kv_cache),
        ("kept free", memory.reserve),
    ];
    let parts: Vec<String> =
        parts.iter().filter(|(_, bytes)| *bytes > 0.0).map(|(name, bytes)| format!("{name} {}", gb(*bytes))).collect();
    let of = match (memory.size, memory.fits) {
        (Some(size), Some(false)) => format!("{} GB, which does NOT fit {}", gb(memory.total), gb(size)),
        (Some(size), _) => format!("{} of {} GB", gb(memory.total), gb(size)),
        (None, _) => format!("{} GB", gb(memory.total)),
    };
    format!("{of}: {}", parts.join(", "))
}
