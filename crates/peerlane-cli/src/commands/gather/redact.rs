//! Placeholders for what identifies a machine: serial numbers, UUIDs, MAC addresses, GUIDs, the host name.
//!
//! A value has the same placeholder in every file, so that files still refer to the same GPU. Values are found by their
//! key or by their shape.

use std::collections::BTreeMap;

use peerlane::evidence::nvml::Snapshot;
use peerlane::evidence::{Files, Item};

/// Shorter values are not searched for elsewhere: they may mean anything.
const SHORTEST: usize = 6;

/// Keys whose values identify a machine, in lower case; a key ends in one of them.
const KEYS: [&str; 12] = [
    "serial number",
    "serial",
    "uuid",
    "clusteruuid",
    "pdi",
    "guid",
    "board id",
    "host id",
    "asset tag",
    "vendor specific",
    "chassis id",
    "system id",
];

/// Values that identify nothing.
const NOTHING: [&str; 6] = ["", "n/a", "none", "unknown", "not specified", "0"];

/// Extended capability of PCI Express that holds a device's serial number, and where extended ones begin.
const SERIAL_CAPABILITY: u16 = 0x0003;
const EXTENDED: usize = 0x100;

/// Replaces, and knows what it has replaced.
#[derive(Debug, Default)]
pub(crate) struct Redactor {
    /// Original → placeholder, for whole words.
    known: BTreeMap<String, String>,
    host: Vec<String>,
}

/// Replaces in all files and their paths. `host` is the host's name.
pub(crate) fn redact(files: &Files, host: Option<&str>) -> Files {
    let mut redactor = Redactor::default();
    redactor.learn_host(host.unwrap_or_default());
    // GPUs first, in their order, then values of keys in any text
    for (path, item) in files.iter() {
        if let (Item::File(bytes), true) = (item, path.ends_with("nvml.json"))
            && let Ok(snapshot) = serde_json::from_slice::<Snapshot>(bytes)
        {
            redactor.learn_snapshot(&snapshot);
        }
    }
    for (_, item) in files.iter() {
        if let Some(text) = text_of(item) {
            text.lines().for_each(|line| redactor.learn_line(line));
        }
    }
    let mut done = Files::default();
    for (path, item) in files.iter() {
        let item = match (item, text_of(item)) {
            (Item::Link(target), _) => Item::Link(redactor.shapes(target)),
            (Item::File(_), Some(_)) if path.ends_with("sys/kernel/hostname") => Item::File(b"host\n".to_vec()),
            // files of the kernel hold numbers and fixed words, which may equal the host name
            (Item::File(_), Some(text)) if path.starts_with("root/") => Item::File(redactor.words(text).into_bytes()),
            (Item::File(_), Some(text)) => {
                let text = redactor.words(text);
                Item::File(replace_words(&text, redactor.host.iter().map(|name| (name.as_str(), "host"))).into_bytes())
            }
            (Item::File(bytes), None) => Item::File(without_serial(bytes)),
        };
        done.insert(&redactor.shapes(path), item);
    }
    done
}

fn text_of(item: &Item) -> Option<&str> {
    match item {
        Item::File(bytes) => std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0')),
        Item::Link(_) => None,
    }
}

impl Redactor {
    fn learn_host(&mut self, name: &str) {
        let name = name.trim();
        let short = name.split('.').next().unwrap_or_default();
        for name in [name, short] {
            let identifies = name.len() > 2 && name != "localhost" && !name.bytes().all(|b| b.is_ascii_digit());
            if identifies && !self.host.iter().any(|known| known == name) {
                self.host.push(name.to_owned());
            }
        }
    }

    fn learn_snapshot(&mut self, snapshot: &Snapshot) {
        for gpu in &snapshot.gpus {
            gpu.uuid.iter().for_each(|uuid| drop(self.shapes(uuid)));
            gpu.serial.iter().for_each(|serial| self.learn(serial));
        }
    }

    /// Learns the value of an identifying key.
    fn learn_line(&mut self, line: &str) {
        if let Some((_, value, _)) = identifying(line)
            && value.len() >= SHORTEST
            && self.shapes(value) == value
        {
            self.learn(value);
        }
    }

    fn learn(&mut self, word: &str) {
        let number = self.known.len() + 1;
        if !NOTHING.contains(&word.to_lowercase().as_str()) {
            self.known.entry(word.to_owned()).or_insert_with(|| format!("redacted-{number}"));
        }
    }

    /// A text with placeholders for everything except the host name.
    fn words(&mut self, text: &str) -> String {
        let mut done = String::with_capacity(text.len());
        for line in text.split_inclusive('\n') {
            let line = match identifying(line) {
                // too short to search for elsewhere
                Some((before, value, after)) if value.len() < SHORTEST => format!("{before}redacted{after}"),
                _ => self.shapes(line),
            };
            let known = self.known.iter().map(|(word, placeholder)| (word.as_str(), placeholder.as_str()));
            done.push_str(&replace_words(&line, known));
        }
        done
    }

    /// Replaces UUIDs, MAC addresses and GUIDs, found by their shape.
    fn shapes(&mut self, text: &str) -> String {
        let mut done = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find(|c: char| c.is_ascii_hexdigit()) {
            let (before, from) = rest.split_at(start);
            done.push_str(before);
            let run = from.find(|c: char| !c.is_ascii_hexdigit() && c != ':' && c != '-').unwrap_or(from.len());
            let (run, after) = from.split_at(run);
            match self.shape(run, done.ends_with("enx")) {
                Some(placeholder) => done.push_str(&placeholder),
                None => done.push_str(run),
            }
            rest = after;
        }
        done.push_str(rest);
        done
    }

    /// The placeholder for a run of hexadecimal digits, colons and dashes. `named`: the run follows systemd's prefix of
    /// interfaces that are named by address, as in `enx001122334455`.
    fn shape(&mut self, run: &str, named: bool) -> Option<String> {
        let run_end = run.trim_end_matches([':', '-']);
        let tail = run.get(run_end.len()..)?;
        let lengths = |by: char| run_end.split(by).map(str::len).collect::<Vec<_>>();
        let (dashes, colons) = (lengths('-'), lengths(':'));
        let pairs = |groups: &[usize]| groups.len() >= 6 && groups.iter().all(|n| *n == 2);
        let guid = colons.len() >= 4 && colons.iter().all(|n| *n == 4);
        let named = named && run_end.len() == 12;
        let uuid = dashes == [8, 4, 4, 4, 12];
        if !uuid && !pairs(&dashes) && !pairs(&colons) && !guid && !named {
            return None;
        }
        // all zeros identify nothing
        if run_end.bytes().filter(u8::is_ascii_hexdigit).all(|b| b == b'0') {
            return None;
        }
        let key = run_end.to_lowercase();
        let number = self.known.len() + 1;
        let placeholder = self.known.entry(key).or_insert_with(|| in_shape(run_end, number));
        Some(format!("{placeholder}{tail}"))
    }
}

/// The number in the shape of the text: its digits replaced from the right, zeros before them.
fn in_shape(text: &str, number: usize) -> String {
    let mut digits = format!("{number:x}").into_bytes();
    let mut shaped: Vec<u8> = text.bytes().collect();
    for byte in shaped.iter_mut().rev().filter(|b| b.is_ascii_hexdigit()) {
        *byte = digits.pop().unwrap_or(b'0');
    }
    String::from_utf8(shaped).unwrap_or_default()
}

/// A line with an identifying key, split into the text before the value, the value, and the text after it.
fn identifying(line: &str) -> Option<(&str, &str, &str)> {
    let colon = line.find(": ").or_else(|| line.find(":\t"))?;
    let key = line.get(..colon)?.trim().trim_matches(['"', '[', ']']).to_lowercase();
    let key = key.rsplit_once("] ").map_or(key.as_str(), |(_, key)| key);
    let identifies = KEYS.iter().any(|k| key.strip_suffix(k).is_some_and(|b| b.is_empty() || b.ends_with(' ')));
    // names of processes, as listed by nvidia-smi -q
    let program = key == "name" && line.contains(" : ");
    let rest = line.get(colon + 1..)?;
    let value = rest.trim_matches(|c: char| c.is_whitespace() || c == '"' || c == ',');
    let at = line.len() - rest.len() + rest.find(value)?;
    let known = !NOTHING.contains(&value.to_lowercase().as_str());
    ((identifies || program) && known).then_some(())?;
    Some((line.get(..at)?, value, line.get(at + value.len()..)?))
}

/// Replaces words that are not adjacent to a letter, digit or underscore.
fn replace_words<'a>(text: &str, words: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = text.to_owned();
    for (word, placeholder) in words {
        if !text.contains(word) {
            continue;
        }
        let adjoins = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        let mut done = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some((before, after)) = rest.find(word).map(|at| (&rest[..at], &rest[at + word.len()..])) {
            done.push_str(before);
            let alone = !adjoins(done.chars().next_back()) && !adjoins(after.chars().next());
            done.push_str(if alone { placeholder } else { word });
            rest = after;
        }
        done.push_str(rest);
        text = done;
    }
    text
}

/// Configuration space with the serial number zeroed.
fn without_serial(config: &[u8]) -> Vec<u8> {
    let mut config = config.to_vec();
    let word = |c: &[u8], at: usize| Some(u16::from_le_bytes([*c.get(at)?, *c.get(at + 1)?]));
    let mut at = EXTENDED;
    // bounded, so that a circular list ends
    for _ in 0..config.len() / 4 {
        let Some((id, next)) = word(&config, at).zip(word(&config, at + 2)) else { break };
        if id == SERIAL_CAPABILITY
            && let Some(serial) = config.get_mut(at + 4..at + 12)
        {
            serial.fill(0);
        }
        at = usize::from(next >> 4);
        if at < EXTENDED {
            break;
        }
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> String {
        let mut redactor = Redactor::default();
        text.lines().for_each(|line| redactor.learn_line(line));
        redactor.words(text)
    }

    #[test]
    fn shapes_keep_their_shape() {
        let uuid = "GPU 0: NVIDIA H200 (UUID: GPU-1a2b3c4d-1111-2222-3333-0123456789ab)";
        assert_eq!(one(uuid), "GPU 0: NVIDIA H200 (UUID: GPU-00000000-0000-0000-0000-000000000001)");
        assert_eq!(one("mac 00:1B:21:aa:bb:cc."), "mac 00:00:00:00:00:01.");
        assert_eq!(one("946d:ae03:00f4:3f2c x"), "0000:0000:0000:0001 x");
        assert_eq!(one("Device Serial Number 94-6d-ae-03-00-f4-3f-2c"), "Device Serial Number 00-00-00-00-00-00-00-01");
        assert_eq!(one("class/net/enx001b21aabbcc/speed"), "class/net/enx000000000001/speed");
        // PCI addresses, zeros, times, hexadecimal numbers and words identify nothing
        for plain in [
            "00000000:C1:00.0",
            "0000:3b:00.1",
            "FFFFFFFF:FF:FF.0",
            "00000000-0000-0000-0000-000000000000",
            "04:07:39",
            "0x30f1ae37",
            "0-31,64-95",
            "dead:beef",
            "00000000,0000ffff",
            "a-b-c-d-e-f",
            "face-cafe",
        ] {
            assert_eq!(one(plain), plain);
        }
    }

    #[test]
    fn values_of_keys_are_replaced_consistently() {
        let text = "    Serial Number      : 1650123456789\n    GPU PDI   : 0x2cafb0a593765b2a\n    Board ID : 0x600\n    \
                    Serial Number : N/A\n   [SN] Serial number: MT2144X00123\n   \"serial\": \"1650123456789\",\n  \
                    Name : /home/anna/train.py\nProduct Name : NVIDIA H200\nbus 0x600 of 1650123456789x\n";
        let done = one(text);
        for secret in ["0x2cafb0a593765b2a", "MT2144X00123", "anna", "1650123456789\n", "1650123456789\""] {
            assert!(!done.contains(secret), "{secret} in {done}");
        }
        assert!(
            done.contains("Serial Number      : redacted-1\n") && done.contains("\"serial\": \"redacted-1\","),
            "{done}"
        );
        assert!(done.contains("Board ID : redacted\n") && done.contains("Serial Number : N/A"), "{done}");
        assert!(done.contains("Product Name : NVIDIA H200\nbus 0x600 of 1650123456789x"), "{done}");
    }

    #[test]
    fn the_host_name_is_replaced_as_a_word() {
        let mut redactor = Redactor::default();
        redactor.learn_host("node7.cluster.example\n");
        let text = "node7 node77 xnode7 node7.cluster.example (node7) node7-ib";
        let names = redactor.host.iter().map(|name| (name.as_str(), "host"));
        assert_eq!(replace_words(text, names), "host node77 xnode7 host (host) host-ib");
    }

    #[test]
    fn files_paths_links_and_configuration_space() {
        let mut files = Files::default();
        let mut config = vec![0_u8; 512];
        config[0x100..0x104].copy_from_slice(&0x1501_0001_u32.to_le_bytes());
        config[0x150..0x154].copy_from_slice(&0x0001_0003_u32.to_le_bytes());
        config[0x154..0x15c].fill(0xab);
        files.insert("root/sys/devices/x/config", Item::File(config.clone()));
        files.insert("root/sys/class/net/enx001b21aabbcc", Item::Link("../../devices/x/net/enx001b21aabbcc".into()));
        files.insert("root/sys/devices/x/net/enx001b21aabbcc/operstate", Item::File(b"up\n".to_vec()));
        files.insert("root/proc/sys/kernel/hostname", Item::File(b"up\n".to_vec()));
        files.insert(
            "nvidia-smi-q.txt",
            Item::File(b"GPU UUID : GPU-1a2b3c4d-1111-2222-3333-0123456789ab\nup-node".to_vec()),
        );
        let done = redact(&files, Some("up-node"));
        let paths: Vec<&str> = done.iter().map(|(path, _)| path).collect();
        assert!(!paths.iter().any(|path| path.contains("001b21aabbcc")), "{paths:?}");
        let text = format!("{done:?}");
        assert!(!text.contains("1a2b3c4d") && !text.contains("up-node"));
        let Some((_, Item::File(after))) = done.iter().find(|(path, _)| path.ends_with("config")) else { panic!() };
        assert_eq!((after[0x154..0x15c].to_vec(), after.len()), (vec![0; 8], 512));
        assert_eq!(after[..0x154], config[..0x154]);
        assert_eq!(without_serial(&[0xff; 300]).len(), 300);
    }
}
