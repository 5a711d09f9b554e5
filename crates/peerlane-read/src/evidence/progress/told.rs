//! What a model server reports about itself: its release and model, ranks, memory of weights and cache, and the most tokens that it generated
//! in a second.

/// The figures of one log.
#[derive(Default)]
pub(super) struct Told {
    server: Option<String>,
    ranks: Option<u32>,
    weights: Option<String>,
    cache: Option<String>,
    /// Tokens that the cache holds.
    room: Option<String>,
    /// How many requests of which length the cache holds.
    requests: Option<String>,
    nccl: Option<String>,
    /// Whether the server's own all-reduce is in use.
    own_sums: bool,
    tokens: f64,
    /// The most tokens of prompts that were read in a second.
    prompt: f64,
    /// The losses of the first and the last step, and how many there are.
    losses: Option<String>,
    answered: u64,
    refused: u64,
    /// The best rates of other programs, by unit.
    rates: Vec<(String, f64)>,
    lines: Vec<usize>,
}

impl Told {
    /// Reads a line; whether it tells a figure.
    pub(super) fn read(&mut self, line: &str, i: usize) -> bool {
        if self.read_rates(line, i) {
            return true;
        }
        let number = |key: &str| number(line, key);
        if let Some(ranks) =
            number("world_size=").filter(|_| line.contains(" rank=")).or_else(|| number(" in world size "))
        {
            self.ranks = ranks.parse().ok().or(self.ranks);
        } else if let Some(gib) = number("odel loading took ")
            .or_else(|| number("model weights took ").filter(|_| line.contains("GB")))
            .or_else(|| number("model weights take "))
            .or_else(|| number("mem usage=").filter(|_| line.contains("Load weight end")))
        {
            self.weights.get_or_insert_with(|| gib.to_owned());
            // of the same line
            if let Some(gib) = number("reserved for KV Cache is ") {
                self.cache.get_or_insert_with(|| gib.trim_end_matches('.').to_owned());
            }
        } else if let Some(gib) = number("vailable KV cache memory: ") {
            self.cache.get_or_insert_with(|| gib.to_owned());
        } else if let Some((_, tokens)) = line.split_once("GPU KV cache size: ") {
            let tokens = tokens.split(' ').next().filter(|n| n.bytes().all(|b| b.is_ascii_digit() || b == b','));
            self.room = self.room.take().or(tokens.map(str::to_owned));
        } else if let Some(release) = number("is using nccl==") {
            self.nccl.get_or_insert_with(|| release.to_owned());
        } else if line.contains("Registering ") && line.trim_end().ends_with(" cuda graph addresses") {
            self.own_sums = true;
        } else {
            return false;
        }
        self.uses(i);
        true
    }

    /// Counts a line as one that tells a figure.
    fn uses(&mut self, i: usize) {
        if self.lines.len() < MOST {
            self.lines.push(i);
        }
    }

    /// Reads the rates that a server states of itself; whether the line has some.
    pub(super) fn read_rates(&mut self, line: &str, i: usize) -> bool {
        const KEYS: [&str; 3] = ["vg generation throughput: ", "vg prompt throughput: ", " throughput (token/s): "];
        if !KEYS.iter().any(|key| line.contains(key)) {
            return false;
        }
        // a number that the text's end cuts has no unit
        let whole = |key: &str| {
            let rate = number(line, key)?;
            let (_, behind) = line.split_once(key)?.1.split_once(rate)?;
            behind.starts_with([' ', ',']).then(|| rate.parse::<f64>().ok())?
        };
        let best = |known: f64, rate: Option<f64>| rate.map_or(known, |rate| rate.max(known));
        let generated = whole("vg generation throughput: ").or_else(|| whole("gen throughput (token/s): "));
        let prompt = whole("vg prompt throughput: ").or_else(|| whole("input throughput (token/s): "));
        (self.tokens, self.prompt) = (best(self.tokens, generated), best(self.prompt, prompt));
        self.uses(i);
        true
    }

    /// How many requests of a length the cache holds.
    pub(super) fn holds(&mut self, times: f64, tokens: &str, i: usize) {
        self.requests.get_or_insert_with(|| format!("room for {times:.2} requests of {tokens} tokens at once"));
        self.uses(i);
    }

    /// Steps of training with the losses of the first and the last.
    pub(super) fn trained(&mut self, steps: usize, (first, last): (f64, f64), i: usize) {
        if first.is_finite() && last.is_finite() {
            self.losses = Some(format!("{steps} lines with a loss, from {first:.4} to {last:.4}"));
            self.uses(i);
        }
    }

    /// A request was answered, or not.
    pub(super) fn answers(&mut self, well: bool) {
        let count = if well { &mut self.answered } else { &mut self.refused };
        *count = count.saturating_add(1);
    }

    /// A rate of work of any program, with its unit.
    pub(super) fn works(&mut self, rate: f64, unit: &str, i: usize) {
        let room = self.rates.len() < RATES;
        match self.rates.iter_mut().find(|(known, _)| known == unit) {
            Some((_, known)) => *known = rate.max(*known),
            None if room => self.rates.push((unit.to_owned(), rate)),
            None => return,
        }
        self.uses(i);
    }

    /// The server with its model, which the first such line names.
    pub(super) fn starts(&mut self, words: String, i: usize) {
        if self.server.as_ref().is_none_or(|known| known.len() < words.len()) {
            self.server = Some(words);
        }
        self.uses(i);
    }

    /// The figures in sentences of a length that is shown whole, with the lines that tell them.
    pub(super) fn summary(self) -> (Vec<String>, Vec<usize>) {
        let Told {
            server,
            ranks,
            weights,
            cache,
            room,
            requests,
            nccl,
            own_sums,
            tokens,
            prompt,
            losses,
            answered,
            refused,
            rates,
            lines,
        } = self;
        if lines.is_empty() {
            return (Vec::new(), lines);
        }
        let mut parts: Vec<Option<String>> = vec![
            server,
            (tokens > 0.0).then(|| format!("at best {tokens} tokens/s generated")),
            (prompt > 0.0).then(|| format!("at best {prompt} tokens/s of prompts read")),
        ];
        parts.extend(rates.iter().map(|(unit, rate)| Some(format!("at best {rate} {unit}"))));
        parts.extend([
            losses,
            (answered > 0).then(|| {
                let what = if answered == 1 { "request" } else { "requests" };
                let of = if refused > 0 { format!(" of {}", answered.saturating_add(refused)) } else { String::new() };
                format!("{answered}{of} {what} answered")
            }),
            ranks.map(|n| if n == 1 { "1 rank".to_owned() } else { format!("{n} ranks") }),
            weights.map(|gib| format!("weights {gib} GiB")),
            cache.map(|gib| format!("KV cache {gib} GiB")),
            room.map(|tokens| format!("KV cache of {tokens} tokens")),
            requests,
            nccl.map(|release| format!("NCCL {release}")),
            own_sums.then(|| "its own all-reduce is in use".to_owned()),
        ]);
        let mut sentences: Vec<String> = Vec::new();
        for part in parts.into_iter().flatten() {
            match sentences.last_mut().filter(|last| last.len() + part.len() < WHOLE) {
                Some(last) => {
                    last.push_str("; ");
                    last.push_str(&part);
                }
                None => sentences.push(part),
            }
        }
        (sentences, lines)
    }
}

/// Longer values are cut where they are shown, in bytes.
const WHOLE: usize = 150;

/// The number behind a key.
fn number<'t>(line: &'t str, key: &str) -> Option<&'t str> {
    let rest = line.split_once(key)?.1.trim_start();
    rest.get(..rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len())).filter(|n| !n.is_empty())
}

/// Lines that are kept as used.
const MOST: usize = 64;

/// Units of rates that are kept.
const RATES: usize = 4;
