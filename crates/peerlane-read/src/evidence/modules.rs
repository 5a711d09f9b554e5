//! `/proc/modules` and `lsmod`: the kernel modules that are loaded, with their use counts.

use super::{Fact, Found, Modules, Text};

pub(super) fn scan(text: &Text, found: &mut Found) {
    let mut run: Option<Run> = None;
    for (i, line) in text.iter() {
        match module(line) {
            Some((tool, name, uses)) => {
                if run.as_ref().is_some_and(|run| run.tool != tool) {
                    Run::finish(run.take(), text, found);
                }
                let run = run.get_or_insert(Run { tool, first: i, last: i, modules: Modules::default() });
                run.last = i;
                run.modules.loaded.insert(name.to_owned(), uses);
            }
            None => Run::finish(run.take(), text, found),
        }
    }
    Run::finish(run, text, found);
}

/// Lines of one tool, one after another.
struct Run {
    tool: &'static str,
    first: usize,
    last: usize,
    modules: Modules,
}

impl Run {
    /// Pushes a run; one line alone may be anything.
    fn finish(run: Option<Run>, text: &Text, found: &mut Found) {
        if let Some(run) = run.filter(|run| run.modules.loaded.len() >= 2) {
            found.push(text, run.tool, text.numbers(run.first, run.last), Fact::Modules(run.modules));
        }
    }
}

/// `nvidia_peermem 16384 0 - Live 0x0000000000000000` of `/proc/modules`,
/// `ib_core  450560  3 rdma_cm,ib_uverbs,mlx5_ib` of `lsmod`: which tool, name, use count.
fn module(line: &str) -> Option<(&'static str, &str, u32)> {
    let mut words = line.split_whitespace();
    let (name, size, uses) = (words.next()?, words.next()?, words.next()?);
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
    };
    let size: u64 = size.parse().ok()?;
    // a kernel that cannot unload modules prints `-` for the count
    let uses = if uses == "-" { 0 } else { uses.parse().ok()? };
    // no module is smaller than this
    if !is_name(name) || size < 256 {
        return None;
    }
    let users = words.next();
    let rest = (words.next(), words.next(), words.next());
    let tool = match (users, rest) {
        (Some(_), (Some("Live" | "Loading" | "Unloading"), Some(address), _)) if address.starts_with("0x") => {
            "/proc/modules"
        }
        (None, _) => "lsmod",
        (Some(users), (None, ..)) if users.split(',').all(|u| u.is_empty() || is_name(u) || u == "[permanent]") => {
            "lsmod"
        }
        _ => return None,
    };
    Some((tool, name, uses))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scanned(text: &str) -> Vec<(&'static str, Modules)> {
        let mut found = Found::default();
        scan(&Text::new("test", text.as_bytes()), &mut found);
        let modules = |fact| if let Fact::Modules(modules) = fact { modules } else { panic!() };
        found.evidence.into_iter().map(|e| (e.origin.tool, modules(e.fact))).collect()
    }

    #[test]
    fn both_forms() {
        let text = "nvidia_peermem 16384 0 - Live 0x0000000000000000 (OE)\n\
                    nvidia 56717312 35 nvidia_peermem,nvidia_uvm, Live 0x0000000000000000 (POE)\n\
                    Module                  Size  Used by\n\
                    ib_core               450560  3 rdma_cm,ib_uverbs,mlx5_ib\ngdrdrv                 24576  0\n";
        let [("/proc/modules", a), ("lsmod", b)] = &scanned(text)[..] else { panic!("{:?}", scanned(text)) };
        assert_eq!((a.loaded.get("nvidia"), a.loaded.get("nvidia_peermem")), (Some(&35), Some(&0)));
        assert_eq!((b.loaded.get("ib_core"), b.loaded.len()), (Some(&3), 2));
    }

    #[test]
    fn what_is_no_list_of_modules() {
        for text in [
            "nvidia 56717312 0\n",
            "cpu 1 2\nmem 3 4\n",
            "a 4096 0.5\nb 4096 0.7\n",
            "one 1024 2 is prose\nand 1024 3 too\n",
        ] {
            assert_eq!(scanned(text), [], "{text}");
        }
    }
}
