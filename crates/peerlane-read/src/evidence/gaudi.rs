//! Intel Gaudi's own tools: the network interfaces of each card (`manage_network_ifs.sh --status`), the rates of `hccl_demo`, and the results
//! of `hl_qual`.

use super::health::Health;
use super::{Fact, Found, Text};
use peerlane_machine::fact::{Area, Grade, Message};

const TOOL: &str = "Gaudi's tools";

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&["interfaces were detected", "ports up (", "NW Bandwidth", "hl_qual", "hl qual"]) {
        return;
    }
    let mut health = Health::default();
    let is_qual = text.holds(&["hl_qual", "hl qual"]);
    // the card that lines are about
    let mut card: Option<&str> = None;
    let mut without: Vec<&str> = Vec::new();
    let mut first = 0;
    for (i, raw) in text.iter() {
        let line = raw.trim_start_matches(['>', ' ', '\t']).trim_end();
        if is_card(line) {
            card = Some(line);
            continue;
        }
        if line == "no interfaces were detected" {
            if let Some(card) = card.take() {
                if without.is_empty() {
                    first = i;
                }
                without.push(card);
            }
        } else if let Some(ports) = count(line, " ports up") {
            health.judge(Area::NetworkLink, (ports == 0).then_some(Grade::Fault), card, "no port is up:", line, i);
        } else if let Some(ports) = count(line, " ports down") {
            health.judge(Area::NetworkLink, (ports > 0).then_some(Grade::Fault), card, "", line, i);
        } else if let Some(rate) = benchmark(line) {
            health.judge(Area::Test, (rate <= 0.0).then_some(Grade::Suspect), None, "hccl_demo:", line, i);
        } else if is_qual && line.len() < 200 && line.contains("PASSED") {
            health.sound(Area::Test, i);
        } else if is_qual && line.len() < 200 && line.contains("FAILED") {
            health.trouble(Area::Test, Grade::Fault, None, "hl_qual:", line, i);
        }
    }
    if !without.is_empty() {
        // the lines themselves are known as messages; this names their cards
        let parts = vec![("cards", format!("{} ({})", without.len(), without.join(", ")))];
        let quote = text.line(first).trim().to_owned();
        let message = Message { id: "gaudi-no-interface", parts, quote, host: None, count: 1 };
        found.push(text, TOOL, text.numbers(first, first), Fact::Message(message));
    }
    health.push(text, TOOL, found);
}

/// `accel3`, `hl3`: a card of its own line.
fn is_card(line: &str) -> bool {
    let number = line.trim_end_matches(':');
    let number = number.strip_prefix("accel").or_else(|| number.strip_prefix("hl"));
    number.is_some_and(|n| (1..=3).contains(&n.len()) && n.bytes().all(|b| b.is_ascii_digit()))
}

/// `3 ports up (1, 8, 9)`.
fn count(line: &str, words: &str) -> Option<u32> {
    let (number, rest) = line.split_once(words)?;
    (rest.is_empty() || rest.starts_with(" (")).then(|| number.parse().ok())?
}

/// `[BENCHMARK]     NW Bandwidth   : 258.209121 GB/s`.
fn benchmark(line: &str) -> Option<f64> {
    let (_, rest) = line.split_once("NW Bandwidth")?;
    let number = rest.trim_start_matches([' ', ':']).split_whitespace().next()?;
    number.parse().ok().filter(|rate: &f64| rate.is_finite())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{health, scanned};
    use super::*;

    #[test]
    fn cards_without_interfaces_are_named_together() {
        let found = scanned(
            scan,
            "# ./manage_network_ifs.sh --status\naccel0\nno interfaces were detected\naccel1\nno interfaces were detected\n",
        );
        let Fact::Message(message) = &found.evidence[0].fact else { panic!("{found:#?}") };
        assert_eq!(message.part("cards"), Some("2 (accel0, accel1)"));
    }

    #[test]
    fn ports_and_rates() {
        let text = |up: u32, down: u32| format!("accel0\n{up} ports up (1, 8)\n{down} ports down (9)\n");
        assert_eq!(health(scan, &text(3, 0)).sound, 2);
        assert_eq!(health(scan, &text(2, 1)).troubles[0].part.as_deref(), Some("accel0"));
        let demo = "[BENCHMARK]     NW Bandwidth   : 258.209121 GB/s\n[BENCHMARK]     Algo Bandwidth : 147.5 GB/s\n";
        assert_eq!((health(scan, demo).area, health(scan, demo).sound), (Area::Test, 1));
        assert_eq!(health(scan, "hl_qual -gaudi3 -t -p\nhl qual report\nPASSED\n").sound, 1);
        assert_eq!(health(scan, "hl_qual -gaudi3 -t -p\nhl qual report\nFAILED\n").troubles[0].grade, Grade::Fault);
    }

    #[test]
    fn other_words() {
        assert_eq!(
            scanned(scan, "accel0\nno interfaces were detected by me\nWe have many ports up (in harbours)\n"),
            Found::default()
        );
    }
}
