//! Parts by names that nearly fit: what to suggest for `RTX 4900` or `EPYC 9555`.

use super::{Part, PartKind, Parts};

/// How alike a name must be, from 0 to 1, to be worth a suggestion.
const ALIKE: f64 = 0.5;

impl Parts {
    /// Up to three names, each with its part, that somebody may have meant; the likeliest first. Each of them is a name
    /// that [`Parts::meant`] takes.
    pub fn nearest(&self, asked: &str, fits: impl Fn(PartKind) -> bool) -> Vec<(String, &Part)> {
        // names are short; no more than that is worth comparing
        let asked: String = asked.to_lowercase().chars().filter(|c| c.is_alphanumeric()).take(64).collect();
        let digits: Vec<char> = asked.chars().filter(char::is_ascii_digit).collect();
        let mut found: Vec<(f64, String, &Part)> = Vec::new();
        for part in self.iter().filter(|p| p.kind != PartKind::Family && fits(p.kind)) {
            // digits that were filled in are alike by themselves
            let product = |words: &Vec<String>| {
                let is_filled = words.iter().any(|word| word.contains('#'));
                (words.iter().map(|w| filled(w, &digits)).collect::<Vec<_>>().join(" "), is_filled)
            };
            let names = std::iter::once((part.name.clone(), false)).chain(part.matches.iter().map(product));
            let alike = |(name, is_filled): (String, bool)| {
                let plain: String = name.chars().filter(|c| c.is_alphanumeric()).collect();
                let other_start = if asked.chars().next() == plain.chars().next() { 0.0 } else { 0.2 };
                let penalty = other_start + if is_filled { 0.15 } else { 0.0 };
                (strsim::sorensen_dice(&asked, &plain) - penalty, name)
            };
            let best = names.map(alike).max_by(|a, b| a.0.total_cmp(&b.0));
            found.extend(best.filter(|(score, _)| *score >= ALIKE).map(|(score, name)| (score, name, part)));
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        let means = |name: &str, part: &Part| self.meant(name).is_some_and(|p| p.name == part.name);
        let named = found.into_iter().take(3).map(|(_, name, part)| match means(&name, part) {
            true => (name, part),
            false => (part.name.clone(), part),
        });
        named.collect()
    }
}

/// A product's word that a pattern means, with the digits that were asked for: `9##5*` with those of 9556 is 9555.
fn filled(pattern: &str, digits: &[char]) -> String {
    let fill = |(at, c): (usize, char)| if c == '#' { digits.get(at).copied().unwrap_or('0') } else { c };
    pattern.trim_end_matches('*').chars().enumerate().map(fill).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_suggested_is_near_and_accepted() {
        let parts = Parts::embedded();
        let nearest = |asked: &str, kind| parts.nearest(asked, |k| k == kind);
        for (asked, kind, expected) in [
            ("RTX 4900", PartKind::Gpu, "rtx-4090"),
            ("GTX 1070 Ti", PartKind::Gpu, "gtx-1070"),
            ("EPYC 9556", PartKind::Cpu, "epyc-turin"),
            ("Conect-X 7", PartKind::Nic, "connectx-7"),
            ("PEX 874", PartKind::Switch, "pex8747"),
        ] {
            let found = nearest(asked, kind);
            assert!(found.iter().any(|(_, part)| part.name == expected), "{asked}: {found:?}");
            for (name, part) in found {
                assert_eq!(parts.meant(&name).map(|p| &p.name), Some(&part.name), "{name}");
            }
        }
        for together in ["RTX4090", "connectx7", "EPYC9554"] {
            assert!(parts.meant(together).is_some(), "{together}");
        }
        for nonsense in ["", "zzz", &"x".repeat(100_000)] {
            assert!(nearest(nonsense, PartKind::Gpu).is_empty());
        }
    }
}
