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
    /// The best rates of other programs, by unit.
    rates: Vec<(String, f64)>,
    lines: Vec<usize>,
}

impl Told {
    /// Reads a line; whether it tells a figure.
    pub(super) fn read(&mut self, line: &str, i: usize) -> bool {
        let number = |key: &str| {
            let (_, rest) = line.split_once(key)?;
            let rest = rest.trim_start();
            rest.get(..rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len()))
                .filter(|n| !n.is_empty())
        };
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
        } else if let Some(rate) = number("vg generation throughput: ").or_else(|| number("gen throughput (token/s): "))
        {
            self.tokens = rate.parse().map_or(self.tokens, |rate: f64| rate.max(self.tokens));
            // what else the line says is read by others
            return false;
        } else {
            return false;
        }
        if self.lines.len() < MOST {
            self.lines.push(i);
        }
        true
    }

    /// How many requests of a length the cache holds.
    pub(super) fn holds(&mut self, times: f64, tokens: &str) {
        self.requests.get_or_insert_with(|| format!("{times:.2} requests of {tokens} tokens at once"));
    }

    /// A rate of work of any program, with its unit.
    pub(super) fn works(&mut self, rate: f64, unit: &str, i: usize) {
        let room = self.rates.len() < RATES;
        match self.rates.iter_mut().find(|(known, _)| known == unit) {
            Some((_, known)) => *known = rate.max(*known),
            None if room => self.rates.push((unit.to_owned(), rate)),
            None => return,
        }
        if self.lines.len() < MOST {
            self.lines.push(i);
        }
    }

    /// The server with its model, which the first such line names.
    pub(super) fn starts(&mut self, words: String, i: usize) {
        if self.server.as_ref().is_none_or(|known| known.len() < words.len()) {
            self.server = Some(words);
        }
        if self.lines.len() < MOST {
            self.lines.push(i);
        }
    }

    /// The figures in one sentence, with the lines that tell them.
    pub(super) fn summary(self) -> Option<(String, Vec<usize>)> {
        let Told { server, ranks, weights, cache, room, requests, nccl, own_sums, tokens, rates, lines } = self;
        let parts = [
            server,
            ranks.map(|n| if n == 1 { "1 rank".to_owned() } else { format!("{n} ranks") }),
            weights.map(|gib| format!("weights {gib} GiB")),
            cache.map(|gib| format!("KV cache {gib} GiB")),
            room.map(|tokens| format!("KV cache of {tokens} tokens")),
            requests,
            nccl.map(|release| format!("NCCL {release}")),
            own_sums.then(|| "its own all-reduce is in use".to_owned()),
            (tokens > 0.0).then(|| format!("at best {tokens} tokens/s generated")),
        ];
        let mut parts: Vec<String> = parts.into_iter().flatten().collect();
        parts.extend(rates.iter().map(|(unit, rate)| format!("at best {rate} {unit}")));
        (!lines.is_empty()).then(|| (parts.join("; "), lines))
    }
}

/// Lines that are kept as used.
const MOST: usize = 64;

/// Units of rates that are kept.
const RATES: usize = 4;
