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
use crate::measuring::machine::{Measured, here, resolve_redacted};
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
    let replayed = match &args.target {
        Some(target) if TargetKind::Traffic.is(target) => Some(recording(target.as_ref())?),
        _ => None,
    };
    let Some(recording) = replayed else {
        let mut redactor = args.redact.given.then(Redactor::default);
        let measured = resolve_redacted(args.target.as_deref(), "top", redactor.as_mut(), true)?;
        return shown(args, &measured.machine, &measured, None, out);
    };
    if args.record.is_some() {
        return Err(Failure::new("--record: a recording is played, nothing is measured"));
    }
    let subject = recording.head.machine.clone();
    let machine = subject.machine().map_err(|e| Failure::new(e.to_string()))?;
    let device = Device::Live { gpus: Vec::new(), nics: Default::default() };
    let measured = Measured { machine, subject, device, conditions: here() };
    shown(args, &measured.machine, &measured, Some(recording), out)
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

/// Shows what a source tells of a machine.
fn shown(
    args: &TopArgs,
    machine: &Machine,
    measured: &Measured,
    recording: Option<Recording>,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    let model = Model::assuming(machine, Parts::embedded(), Assume::Usual);
    let gauges = gauges(&model);
    let kind = match (&recording, &measured.device) {
        (Some(_), _) => "recording",
        (None, Device::Virtual { .. }) => "simulated",
        (None, Device::Live { .. }) => "",
    };
    let every = recording.as_ref().map_or(args.every, |recording| recording.head.every);
    let source = match (recording, &measured.device) {
        (Some(recording), _) => Source::replay(recording, every),
        (None, Device::Virtual { .. }) => Source::simulated(SimulatedTraffic::new(&model, every), every),
        (None, Device::Live { gpus, .. }) => Source::live(gpus.clone(), every)?,
    };
    let recorder = args.record.as_deref().map(|path| {
        let head = Head {
            schema: SCHEMA.to_owned(),
            peerlane: env!("CARGO_PKG_VERSION").to_owned(),
            machine: measured.subject.clone(),
            began: if kind.is_empty() { here().began } else { 0 },
            every,
        };
        Recorder::new(path, &head)
    });
    let mut top = Top {
        title: title(machine),
        kind,
        machine,
        gauges,
        source,
        past: Past::default(),
        recorder: recorder.transpose()?,
        interrupt: Interrupt::listen()?,
        ends: args.length.map(|length| Instant::now() + Duration::from_secs_f64(length.seconds())),
    };
    let ended = if args.once {
        top.once(out)
    } else if io::stdout().is_terminal() {
        top.screen()
    } else if top.recorder.is_some() {
        top.silently()
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
        while self.past.len() < 2 && !self.is_over() {
            if !self.take()? {
                thread::sleep(TICK);
            }
        }
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

    /// Records without a terminal.
    fn silently(&mut self) -> Result<(), Failure> {
        while !self.is_over() {
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
