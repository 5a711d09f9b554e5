//! What a model server reports about itself: its release and model, ranks, memory of weights and cache, and the most tokens that it generated
//! in a second.

/// The figures of one log.
#[derive(Default)]
pub(super) struct Told {
    server: Option<String>,
    ranks: Option<u32>,
    weights: Option<String>,
    cache: Option<String>,
    tokens: f64,
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
        } else if let Some(gib) =
            number("odel loading took ").or_else(|| number("mem usage=").filter(|_| line.contains("Load weight end")))
        {
            self.weights.get_or_insert_with(|| gib.to_owned());
        } else if let Some(gib) = number("vailable KV cache memory: ") {
            self.cache.get_or_insert_with(|| gib.to_owned());
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
        let Told { server, ranks, weights, cache, tokens, lines } = self;
        let parts = [
            server,
            ranks.map(|n| if n == 1 { "1 rank".to_owned() } else { format!("{n} ranks") }),
            weights.map(|gib| format!("weights {gib} GiB")),
            cache.map(|gib| format!("KV cache {gib} GiB")),
            (tokens > 0.0).then(|| format!("at best {tokens} tokens/s generated")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!lines.is_empty()).then(|| (parts.join("; "), lines))
    }
}

/// Lines that are kept as used.
const MOST: usize = 64;
