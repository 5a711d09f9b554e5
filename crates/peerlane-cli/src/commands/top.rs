//! `peerlane top`: the traffic on every link of a machine now, and its share of what the link should carry.

mod record;
mod screen;
mod source;

use std::io::{self, IsTerminal, Write};
use std::thread;
use std::time::{Duration, Instant};

use peerlane::catalogue::Parts;
use peerlane::input_file::{self, Kind};
use peerlane::machine::Machine;
use peerlane::model::{Assume, Model};
use peerlane::target::TargetKind;
use peerlane::traffic::{Gauge, Head, Recording, SCHEMA, SimulatedTraffic, gauges};
use peerlane_report::render::headline::title;
use peerlane_report::render::traffic::{heading, legend};

use crate::args::TopArgs;
use crate::measuring::interrupt::Interrupt;
use crate::measuring::machine::{here, resolve_redacted};
use crate::measuring::protocol::Device;
use crate::redact::Redactor;
use crate::render::line_width;
use crate::render::style::paint;
use crate::{Failure, Outcome};
use record::Recorder;
use screen::{End, Past, Screen};
use source::{News, Source};

pub(crate) use source::meter;

/// How often the counters, the keys and the clock are looked at.
const TICK: Duration = Duration::from_millis(100);

pub(crate) fn run(args: &TopArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    if let Some(target) = args.target.as_ref().filter(|target| TargetKind::Traffic.is(target)) {
        if args.record.is_some() {
            return Err(Failure::new("--record: a recording is played, nothing is measured"));
        }
        let recording = recording(target.as_ref())?;
        let machine = recording.head.machine.machine().map_err(|e| Failure::new(e.to_string()))?;
        let model = Model::assuming(&machine, Parts::embedded(), Assume::Usual);
        return show(args, &model, "recording", Source::replay(recording), None, out);
    }
    let mut redactor = args.redact.given.then(Redactor::default);
    let measured = resolve_redacted(args.target.as_deref(), "top", redactor.as_mut(), true)?;
    let model = Model::assuming(&measured.machine, Parts::embedded(), Assume::Usual);
    let (kind, began, source) = match measured.device {
        Device::Virtual { .. } => {
            ("simulated", 0, Source::simulated(SimulatedTraffic::new(&model, args.every), args.every))
        }
        Device::Live { gpus, .. } => ("", here().began, Source::live(gpus, args.every)?),
    };
    let recorder = args.record.as_deref().map(|path| {
        let (schema, peerlane) = (SCHEMA.to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        Recorder::new(path, &Head { schema, peerlane, machine: measured.subject, began, every: args.every })
    });
    show(args, &model, kind, source, recorder.transpose()?, out)
}

fn recording(path: &std::path::Path) -> Result<Recording, Failure> {
    let text = input_file::read(path, Kind::Trace)?;
    let shown = peerlane::one_line::shown(path);
    let read = Recording::read(&String::from_utf8_lossy(&text)).map_err(|e| Failure::new(format!("{shown}: {e}")))?;
    if read.unreadable > 0 {
        crate::console::note(&format!("{shown}: {} lines are no samples, and left out", read.unreadable));
    }
    if read.samples.is_empty() {
        return Err(Failure::new(format!("{shown}: a recording without a sample")));
    }
    Ok(read)
}

/// Shows the samples of a source, and records them.
fn show(
    args: &TopArgs,
    model: &Model,
    kind: &'static str,
    source: Source,
    recorder: Option<Recorder>,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    let mut top = Top {
        title: title(model.machine),
        kind,
        machine: model.machine,
        gauges: gauges(model),
        source,
        past: Past::default(),
        recorder,
        interrupt: Interrupt::listen()?,
        ends: args.length.map(|length| Instant::now() + Duration::from_secs_f64(length.seconds())),
    };
    let ended = if args.once {
        top.once(out)
    } else if io::stdout().is_terminal() {
        top.screen()
    } else if top.recorder.is_some() {
        top.take_until(|_| false)
    } else {
        return Err(Failure::new("standard output is no terminal; use --once for one picture, or --record FILE.jsonl"));
    };
    let kept = top.recorder.map(Recorder::end).transpose();
    ended?;
    if let Some(line) = kept? {
        crate::console::note(&line);
    }
    Ok(Outcome::default())
}

/// All that is shown, and where it comes from.
struct Top<'a> {
    title: String,
    /// What the source is, where it is not this machine.
    kind: &'static str,
    machine: &'a Machine,
    gauges: Vec<Gauge>,
    source: Source,
    past: Past,
    recorder: Option<Recorder>,
    interrupt: Interrupt,
    ends: Option<Instant>,
}

impl Top<'_> {
    /// Takes what the source has; whether there was anything.
    fn take(&mut self) -> Result<bool, Failure> {
        let Some(news) = self.source.poll() else { return Ok(false) };
        if let News::Sample(sample) = &news
            && let Some(recorder) = &mut self.recorder
        {
            recorder.add(sample)?;
        }
        self.past.take(news);
        Ok(true)
    }

    fn is_over(&self) -> bool {
        self.interrupt.asked() || self.ends.is_some_and(|at| Instant::now() >= at) || self.past.source_ended()
    }

    /// One picture on standard output.
    fn once(&mut self, out: &mut dyn Write) -> Result<(), Failure> {
        self.source.hurry();
        self.take_until(|past| past.len() >= 2)?;
        let columns = line_width();
        let mut lines = vec![heading(&self.title, &self.past.about(self.kind), columns), legend(columns)];
        let view = self.past.view(&self.machine.fabric, &self.gauges);
        lines.extend(view.lines(columns));
        lines.extend(view.missing(columns));
        for line in lines {
            let painted: String = line.iter().map(|(style, text)| paint(*style, text)).collect();
            writeln!(out, "{}", painted.trim_end())?;
        }
        match self.past.trouble() {
            Some(why) if self.past.len() < 2 => Err(Failure::new(why.to_owned())),
            _ => Ok(()),
        }
    }

    /// Takes what comes until it is enough, or all is over.
    fn take_until(&mut self, enough: impl Fn(&Past) -> bool) -> Result<(), Failure> {
        while !enough(&self.past) && !self.is_over() {
            if !self.take()? {
                thread::sleep(TICK);
            }
        }
        Ok(())
    }

    /// The screen, until a key or the time ends it.
    fn screen(&mut self) -> Result<(), Failure> {
        let mut screen = Screen::open()?;
        let mut changed = true;
        while !self.is_over() {
            while self.take()? {
                changed = true;
            }
            if changed {
                let about = self.past.about(self.kind);
                screen.draw(&self.title, &about, &self.past, &self.machine.fabric, &self.gauges)?;
            }
            match screen.wait(TICK, &mut self.past)? {
                End::Quit => break,
                End::Changed => changed = true,
                End::Nothing => changed = false,
            }
        }
        Ok(())
    }
}
