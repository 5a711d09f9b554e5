//! The screen: what is drawn, and what keys do.

use std::collections::VecDeque;
use std::io::{self, Stdout};
use std::time::Duration;

use anstyle::{AnsiColor, Color, Effects};
use peerlane::fabric::Fabric;
use peerlane::traffic::{Follower, Gauge};
use peerlane_report::render::style::{BAD, DIM, PLAIN};
use peerlane_report::render::text::{fit, width};
use peerlane_report::render::traffic::{Line, Moment, View, heading, legend};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::style::{Color as Shown, Modifier, Style};
use ratatui::text::{Line as Text, Span};
use ratatui::widgets::Paragraph;

use super::source::News;
use crate::Failure;

/// An hour of samples, one a second.
const MOST_MOMENTS: usize = 3600;

const KEYS: &str = "space freeze  ←→ past  End now  p graphs  l each NVLink  ↑↓ scroll  q quit";

/// What was read so far, and what of it is looked at.
#[derive(Default)]
pub(super) struct Past {
    moments: VecDeque<Moment>,
    follower: Follower,
    /// The moment that is looked at; none follows the newest.
    frozen: Option<usize>,
    past: bool,
    each_link: bool,
    scrolled: usize,
    trouble: Option<String>,
    ended: bool,
}

/// What a wait for keys brought.
pub(super) enum End {
    Quit,
    Changed,
    Nothing,
}

impl Past {
    pub(super) fn take(&mut self, news: News) {
        match news {
            News::Sample(sample) => {
                self.trouble = None;
                let rates = self.follower.rates(&sample);
                if self.moments.len() == MOST_MOMENTS {
                    self.moments.pop_front();
                    self.frozen = self.frozen.map(|at| at.saturating_sub(1));
                }
                self.moments.push_back(Moment { sample, rates });
            }
            News::Silent(why) => self.trouble = Some(why),
            News::Ended => self.ended = true,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.moments.len()
    }

    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Whether a recording is over, and nobody looks at a moment of it.
    pub(super) fn source_ended(&self) -> bool {
        self.ended && self.frozen.is_none()
    }

    fn at(&self) -> usize {
        self.frozen.unwrap_or(usize::MAX).min(self.moments.len().saturating_sub(1))
    }

    pub(super) fn view<'a>(&'a self, fabric: &'a Fabric, gauges: &'a [Gauge]) -> View<'a> {
        let (at, past, each_link) = (self.at(), self.past, self.each_link);
        View { fabric, gauges, moments: &self.moments, at, past, each_link }
    }

    /// The words at the right of the heading.
    pub(super) fn about(&self, kind: &str) -> String {
        let now = self.moments.get(self.at());
        let plays = now.and_then(|now| now.sample.plays.as_ref()).map_or(String::new(), |plays| format!(": {plays}"));
        let at = now.map_or(String::new(), |now| format!("{:.0} s", now.sample.at.seconds()));
        let frozen = match (self.frozen, self.moments.back(), now) {
            (Some(_), Some(last), Some(now)) => {
                format!("frozen, {:.0} s ago", last.sample.at.seconds() - now.sample.at.seconds())
            }
            _ => String::new(),
        };
        [format!("{kind}{plays}"), frozen, at]
            .into_iter()
            .filter(|words| !words.is_empty())
            .collect::<Vec<_>>()
            .join("  ")
    }

    /// What a key does; whether it ends the program.
    fn press(&mut self, key: KeyEvent) -> End {
        let last = self.moments.len().saturating_sub(1);
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return End::Quit,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return End::Quit,
            KeyCode::Char(' ') => self.frozen = if self.frozen.is_some() { None } else { Some(last) },
            KeyCode::Left => self.frozen = Some(self.at().saturating_sub(1)),
            KeyCode::Right => self.frozen = Some((self.at() + 1).min(last)),
            KeyCode::Home => self.frozen = Some(0),
            KeyCode::End => self.frozen = None,
            KeyCode::Char('p') => self.past = !self.past,
            KeyCode::Char('l') => self.each_link = !self.each_link,
            KeyCode::Up => self.scrolled = self.scrolled.saturating_sub(1),
            KeyCode::Down => self.scrolled += 1,
            KeyCode::PageUp => self.scrolled = self.scrolled.saturating_sub(10),
            KeyCode::PageDown => self.scrolled += 10,
            _ => return End::Nothing,
        }
        End::Changed
    }
}

/// The terminal, which is as it was once this is dropped.
pub(super) struct Screen(Terminal<CrosstermBackend<Stdout>>);

impl Screen {
    pub(super) fn open() -> Result<Self, Failure> {
        let opened = || {
            enable_raw_mode()?;
            execute!(io::stdout(), EnterAlternateScreen)?;
            Terminal::new(CrosstermBackend::new(io::stdout()))
        };
        opened().map(Screen).map_err(|e: io::Error| {
            restore();
            Failure::new(format!("this terminal cannot be drawn on: {e}"))
        })
    }

    pub(super) fn draw(
        &mut self,
        title: &str,
        about: &str,
        past: &Past,
        fabric: &Fabric,
        gauges: &[Gauge],
    ) -> Result<(), Failure> {
        let drawn = self.0.draw(|frame| {
            let area = frame.area();
            let (columns, rows) = (usize::from(area.width), usize::from(area.height));
            let lines = composed(title, about, past, fabric, gauges, columns, rows);
            let lines: Vec<Text> = lines.iter().map(styled).collect();
            frame.render_widget(Paragraph::new(lines), area);
        });
        drawn.map(|_| ()).map_err(|e| Failure::new(format!("this terminal cannot be drawn on: {e}")))
    }

    /// Waits for keys.
    pub(super) fn wait(&mut self, most: Duration, past: &mut Past) -> Result<End, Failure> {
        let read =
            || -> io::Result<Option<Event>> { if event::poll(most)? { event::read().map(Some) } else { Ok(None) } };
        let event = read().map_err(|e| Failure::new(format!("no keys can be read from this terminal: {e}")))?;
        Ok(match event {
            Some(Event::Key(key)) if key.kind != KeyEventKind::Release => past.press(key),
            Some(Event::Resize(..)) => End::Changed,
            _ => End::Nothing,
        })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Best effort: a terminal that cannot be restored shows no message, either.
fn restore() {
    let _ = execute!(io::stdout(), LeaveAlternateScreen);
    let _ = disable_raw_mode();
}

/// All lines of a screen: the heading, as much of the body as fits, what is missing, and the keys at the end.
fn composed(
    title: &str,
    about: &str,
    past: &Past,
    fabric: &Fabric,
    gauges: &[Gauge],
    columns: usize,
    rows: usize,
) -> Vec<Line> {
    let view = past.view(fabric, gauges);
    let mut below = view.missing(columns);
    if let Some(trouble) = &past.trouble {
        below.insert(0, vec![(BAD, trouble.clone())]);
    }
    below.push(legend(columns));
    let body = view.lines(columns);
    let room = rows.saturating_sub(2 + below.len());
    let from = past.scrolled.min(body.len().saturating_sub(room));
    let hidden = body.len().saturating_sub(room);
    let more = if hidden > 0 { format!("{} of {} lines", room, body.len()) } else { String::new() };
    below.push(keys(&more, columns));
    let mut lines = vec![heading(title, about, columns)];
    lines.extend(body.into_iter().skip(from).take(room));
    lines.resize(rows.saturating_sub(below.len()).max(1), Vec::new());
    lines.extend(below);
    lines
}

/// The keys, and how much of the picture is seen.
fn keys(more: &str, columns: usize) -> Line {
    let keys = fit(KEYS, columns.saturating_sub(width(more) + 2));
    let pad = columns.saturating_sub(width(&keys) + width(more));
    vec![(DIM, keys), (PLAIN, " ".repeat(pad)), (PLAIN, more.to_owned())]
}

/// A line as the screen's library wants it.
fn styled(line: &Line) -> Text<'_> {
    Text::from(line.iter().map(|(style, text)| Span::styled(text.as_str(), translated(*style))).collect::<Vec<_>>())
}

fn translated(style: anstyle::Style) -> Style {
    let effects = style.get_effects();
    let mut shown = Style::new();
    if effects.contains(Effects::BOLD) {
        shown = shown.add_modifier(Modifier::BOLD);
    }
    if effects.contains(Effects::DIMMED) {
        shown = shown.add_modifier(Modifier::DIM);
    }
    match style.get_fg_color() {
        Some(Color::Ansi(AnsiColor::Green)) => shown.fg(Shown::Green),
        Some(Color::Ansi(AnsiColor::Cyan)) => shown.fg(Shown::Cyan),
        Some(Color::Ansi(AnsiColor::Yellow)) => shown.fg(Shown::Yellow),
        Some(Color::Ansi(AnsiColor::Red)) => shown.fg(Shown::Red),
        _ => shown,
    }
}
