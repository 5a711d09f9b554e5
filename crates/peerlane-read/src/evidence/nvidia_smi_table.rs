//! The table that plain `nvidia-smi` prints, of drivers old and new.
//!
//! A GPU takes two lines, and a third with its MIG mode since driver 450. Names may be cut, with or without `...`;
//! they are kept as printed.

use super::accelerator_table;
use super::device_query::{ecc_off, has_ecc};
use super::health::Health;
use super::text::Span;
use super::words::{mebibytes, number_and_unit, numbered};
use super::{Fact, Found, GpuFacts, Text};
use peerlane_machine::fabric::PciAddress;
use peerlane_machine::fact::{Area, Grade, Message};

const TOOL: &str = super::tool::NVIDIA_SMI;

pub(super) fn scan(text: &Text, found: &mut Found) {
    let (mut table, mut ecc) = (Table::default(), Health::default());
    // rows below the head of another maker's table
    let mut is_of_others = false;
    text.walk(|i| {
        let line = text.line(i);
        let begins = line.contains("NVIDIA-SMI") || line.contains("NVITOP ");
        is_of_others = !begins && (is_of_others || accelerator_table::is_head(text, i));
        if begins {
            table.finish(text, found);
            table.driver = driver(line);
        }
        if line.contains("Processes:") && lists_no_process(text, i) {
            table
                .held
                .drain(..)
                .for_each(|(line, message)| found.push(text, TOOL, text.numbers(line, line), Fact::Message(message)));
        }
        let cells = cells(line).filter(|_| !is_of_others)?;
        let gpu = first_line(cells)?;
        let (part, errors) = (gpu.index.map(|n| format!("GPU{n}")), cells[2].split_whitespace().next_back()?);
        if errors.parse::<u64>().is_ok_and(|errors| errors > 0) {
            ecc.trouble(Area::Gpu, Grade::Fault, part.as_deref(), "uncorrected ECC errors:", errors, i);
        } else if errors == "Off" && has_ecc(&gpu) {
            found.push(text, TOOL, text.numbers(i, i), ecc_off(&gpu, line));
        }
        Some(table.take(text, i, gpu, found))
    });
    table.finish(text, found);
    ecc.push(text, TOOL, found);
}

/// `| NVIDIA-SMI 384.69       Driver Version: 384.69      |`.
fn driver(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("Driver Version:")?;
    rest.split_whitespace().next().map(str::to_owned)
}

/// The three cells of a line of the table; nvitop draws other bars, and in wide windows a cell of its own behind them.
fn cells(line: &str) -> Option<[&str; 3]> {
    let line = line.trim();
    let bar = line.chars().next().filter(|bar| matches!(bar, '|' | '│'))?;
    let mut cells = line.strip_prefix(bar)?.strip_suffix(bar)?.split(bar);
    let three = [cells.next()?, cells.next()?, cells.next()?];
    (cells.next().is_none() || bar == '│').then_some(three)
}

/// `|   0  GeForce GTX 1070    Off  | 00000000:05:00.0 Off |                  N/A |`.
///
/// Tables of other makers look alike but have several numbers in the last cell, which here is the count of ECC errors.
fn first_line([name, bus, errors]: [&str; 3]) -> Option<GpuFacts> {
    if errors.split_whitespace().nth(1).is_some() {
        return None;
    }
    let bus = bus.split_whitespace().next()?;
    let address: Option<PciAddress> = Some(bus).filter(|a| a.contains('.')).and_then(|a| a.parse().ok());
    // the GPU of a Jetson is no PCI device
    if address.is_none() && bus != "N/A" {
        return None;
    }
    let mut words: Vec<&str> = name.split_whitespace().collect();
    let index = numbered(words.first()?, "")?;
    words.remove(0);
    // persistence mode, or the driver model of Windows
    if matches!(words.last(), Some(&("On" | "Off" | "N/A" | "WDDM" | "TCC" | "MCDM"))) {
        words.pop();
    }
    let name = (!words.is_empty()).then(|| words.join(" "));
    // without an address only a name distinguishes this from lines about processes and MIG devices
    let is_gpu = address.is_some() || name.as_ref().is_some_and(|n| n.chars().any(char::is_alphabetic));
    is_gpu.then(|| GpuFacts { index: Some(index), name, address, ..GpuFacts::default() })
}

/// `| 57%   77C    P2   146W / 151W |    605MiB /  8112MiB |    100%      Default |`; false if this is another line.
fn second_line([state, memory, load]: [&str; 3], gpu: &mut GpuFacts) -> bool {
    let Some((used, limit)) = state.split_once('/').map(|(a, b)| match (a.ends_with('N'), b.strip_prefix('A')) {
        // `N/A` parts at its own bar
        (true, Some(rest)) => rest.split_once('/').unwrap_or((rest, "")),
        _ => (a, b),
    }) else {
        return false;
    };
    let with_unit = |word: &str, unit: &str| number_and_unit(word).filter(|(_, u)| *u == unit).map(|(n, _)| n);
    // GPUs that share the host's memory print no size
    let shared = memory.trim() == "Not Supported";
    let Some((_, total)) = memory.split_once('/').or(shared.then_some(("", ""))) else { return false };
    gpu.memory = with_unit(total, "MiB").map(mebibytes);
    gpu.temperature = state.split_whitespace().find_map(|w| with_unit(w, "C"));
    gpu.power = used.split_whitespace().next_back().and_then(|w| with_unit(w, "W"));
    gpu.power_limit = with_unit(limit, "W");
    gpu.utilization = load.split_whitespace().next().and_then(|w| with_unit(w, "%"));
    if state.contains("ERR!") {
        gpu.unreachable = Some("nvidia-smi prints ERR! in place of its state".to_owned());
    }
    gpu.memory.is_some() || shared
}

/// One table.
#[derive(Default)]
struct Table {
    driver: Option<String>,
    gpus: Vec<GpuFacts>,
    lines: Span,
    /// Those whose memory is in use while they do nothing, with their lines.
    held: Vec<(usize, Message)>,
}

/// From this share of a GPU's memory on, another program finds no room.
const FULL: f64 = 0.9;

/// What is said of a GPU that does nothing and whose memory is full, if that is so by its second line.
fn held(gpu: &GpuFacts, line: &str) -> Option<Message> {
    let [_, memory, _] = cells(line)?;
    let (used, total) = memory.split_once('/')?;
    let mib = |text: &str| number_and_unit(text.trim()).filter(|(_, unit)| *unit == "MiB").map(|(number, _)| number);
    let (used, total) = (mib(used)?, mib(total)?);
    let parts = [("gpu", gpu.index?.to_string()), ("used", used.to_string()), ("total", total.to_string())];
    let message =
        Message { id: "gpu-memory-held", parts: parts.into(), quote: line.trim().to_owned(), host: None, count: 1 };
    (gpu.utilization == Some(0.0) && used >= FULL * total).then_some(message)
}

/// Whether the list of processes from `first` on has none.
fn lists_no_process(text: &Text, first: usize) -> bool {
    let ruled = (first + 1..(first + 6).min(text.len())).find(|i| text.line(*i).starts_with("|====="));
    ruled.is_some_and(|i| text.line(i + 1).starts_with("+-") || text.line(i + 1).contains("No running processes found"))
}

impl Table {
    /// Takes the GPU whose first line is `first`; returns the line after it.
    fn take(&mut self, text: &Text, first: usize, mut gpu: GpuFacts, found: &mut Found) -> usize {
        let mut last = first;
        if cells(text.line(first + 1)).is_some_and(|cells| second_line(cells, &mut gpu)) {
            last += 1;
            self.held.extend(held(&gpu, text.line(last)).map(|message| (last, message)));
            let mig = cells(text.line(last + 1)).filter(|[a, b, _]| a.trim().is_empty() && b.trim().is_empty());
            if let Some([_, _, mode]) = mig {
                last += 1;
                gpu.mig = match mode.trim().trim_end_matches('*') {
                    "Enabled" => Some(true),
                    "Disabled" => Some(false),
                    _ => None,
                };
            }
        } else {
            let message = format!("GPU {}: its second line is missing", gpu.index.unwrap_or(0));
            found.warn(text, TOOL, text.numbers(first, first), message);
        }
        if self.gpus.last().is_some_and(|before| before.index >= gpu.index) {
            self.finish(text, found);
        }
        gpu.driver.clone_from(&self.driver);
        self.gpus.push(gpu);
        self.lines.add(first);
        self.lines.add(last);
        last + 1
    }

    /// Pushes what was read and starts anew.
    fn finish(&mut self, text: &Text, found: &mut Found) {
        let table = std::mem::take(self);
        if let Some(lines) = table.lines.numbers(text) {
            found.push(text, TOOL, lines, Fact::Gpus(table.gpus));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane_machine::units::Bytes;

    fn tables(text: &str) -> (Vec<Vec<GpuFacts>>, Found) {
        let mut found = Found::default();
        scan(&Text::new("test", text.as_bytes()), &mut found);
        let gpus = |fact: &Fact| if let Fact::Gpus(gpus) = fact { gpus.clone() } else { panic!() };
        (found.evidence.iter().map(|e| gpus(&e.fact)).collect(), found)
    }

    const OLD: &str = "\
| NVIDIA-SMI 384.10                 Driver Version: 384.10                    |
|   0  Tesla P40           Off  | 00000000:03:00.0 Off |                    0 |
| N/A   30C    P8     9W / 250W |     10MiB / 22912MiB |      0%      Default |
+-------------------------------+----------------------+----------------------+
|   1  Tesla P40           On   | 9FA3:00:00.0     Off |                    0 |
| N/A   31C    P0    50W / 250W |     10MiB / 22912MiB |     97%      Default |
";

    const NEW: &str = "\
| NVIDIA-SMI 580.10              Driver Version: 580.10         CUDA Version: 13.0     |
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:19:00.0 Off |                    0 |
| N/A   37C    P0             71W /  700W |       4MiB /  81559MiB |      0%      Default |
|                                         |                        |             Disabled |
|   1  NVIDIA RTX 6000 Ada Gene...    Off |   00000000:3B:00.0 Off |                  Off |
| 30%   43C    P8            N/A /  N/A   |       4MiB /  81559MiB |     N/A      Default |
|                                         |                        |             Enabled* |
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
";

    #[test]
    fn memory_that_no_listed_process_holds() {
        let table = |used: u32, process: &str| {
            let text = format!(
                "| NVIDIA-SMI 565.77      Driver Version: 565.77 |\n|   0  NVIDIA A10   Off |   00000000:61:00.0 Off |   Off |\n\
                 |  0%   43C    P8             16W /  450W |   {used}MiB /  24564MiB |      0%      Default |\n\
                 | Processes:            |\n|  GPU   PID   Usage |\n|====================|\n{process}+-----+\n"
            );
            let found = super::super::testing::scanned(scan, &text);
            found.evidence.iter().filter(|e| matches!(&e.fact, Fact::Message(m) if m.id == "gpu-memory-held")).count()
        };
        assert_eq!((table(24045, ""), table(24045, "|  No running processes found |\n"), table(240, "")), (1, 1, 0));
        assert_eq!(table(24045, "|    0   N/A  N/A   1234   C   python   24036MiB |\n"), 0);
    }

    #[test]
    fn old_and_new_drivers() {
        let (all, found) = tables(&format!("{OLD}\n{NEW}"));
        assert_eq!(found.warnings, []);
        assert_eq!(found.evidence[0].origin.lines, Some((2, 6)));
        let [old, new] = &all[..] else { panic!("{all:?}") };
        assert_eq!((old[0].name.as_deref(), old[1].name.as_deref()), (Some("Tesla P40"), Some("Tesla P40")));
        assert_eq!(old[1].address, Some("9fa3:00:00.0".parse().unwrap()));
        assert_eq!((old[1].temperature, old[1].power, old[1].power_limit), (Some(31.0), Some(50.0), Some(250.0)));
        assert_eq!((old[1].utilization, old[1].mig), (Some(97.0), None));
        assert_eq!(old[0].driver.as_deref(), Some("384.10"));
        assert_eq!(new[0].name.as_deref(), Some("NVIDIA H100 80GB HBM3"));
        assert_eq!((new[0].power, new[0].power_limit, new[0].mig), (Some(71.0), Some(700.0), Some(false)));
        assert_eq!(new[0].memory, Some(Bytes::from_mib(81559)));
        assert_eq!((new[1].power, new[1].power_limit, new[1].mig), (None, None, Some(true)));
        assert_eq!(new[1].utilization, None);
    }

    #[test]
    fn nvitop_draws_the_same_table() {
        for more in ["", " MEM: ▏ 0.1% │"] {
            let (all, found) = tables(&format!(
                "│ NVITOP 1.6.1       Driver Version: 575.10      CUDA Driver Version: 12.9 │\n\
                 │   0  GeForce X          On │ 00000000:0C:00.0 Off │                  N/A │{more}\n\
                 │ 33%   38C    P8    14W / 170W │  14.31MiB / 12288MiB │      0%      Default │{more}\n╘═══╛\n"
            ));
            assert_eq!(found.warnings, [], "{more}");
            let gpu = &all[0][0];
            assert_eq!((gpu.name.as_deref(), gpu.driver.as_deref()), (Some("GeForce X"), Some("575.10")));
            assert_eq!((gpu.temperature, gpu.power, gpu.utilization), (Some(38.0), Some(14.0), Some(0.0)));
        }
    }

    #[test]
    fn a_gpu_that_does_not_answer() {
        let row = "| 30%   43C    P8";
        let (all, _) = tables(&NEW.replace(row, "|ERR!   43C    P8"));
        assert!(all[0][1].unreachable.as_deref().is_some_and(|why| why.contains("ERR!")), "{all:?}");
        assert_eq!(all[0][0].unreachable, None);
    }

    #[test]
    fn gpus_that_share_the_hosts_memory() {
        let (all, found) = tables(
            "| NVIDIA-SMI 580.95                 Driver Version: 580.95         CUDA Version: 13.0     |\n\
             |   0  NVIDIA GB10                    On  |   0000000F:01:00.0 Off |                  N/A |\n\
             | N/A   38C    P8              4W /  N/A  | Not Supported          |      0%      Default |\n\
             |   1  Orin (nvgpu)                  N/A  | N/A              N/A   |                  N/A |\n\
             | N/A   N/A  N/A               N/A /  N/A | Not Supported          |     N/A          N/A |\n",
        );
        assert_eq!((found.warnings.len(), all[0][0].temperature, all[0][0].power), (0, Some(38.0), Some(4.0)));
        assert_eq!((all[0][1].name.as_deref(), all[0][1].address), (Some("Orin (nvgpu)"), None));
    }

    #[test]
    fn memory_that_is_not_checked() {
        let row = |name: &str| format!("|   0  {name}   Off  | 00000000:03:00.0 Off |                  Off |\n");
        let said = |name: &str| {
            let found = super::super::testing::scanned(scan, &row(name));
            found.evidence.iter().filter(|e| matches!(e.fact, Fact::Message(_))).count()
        };
        assert_eq!((said("NVIDIA H800"), said("NVIDIA RTX 6000 Ada Gene...")), (1, 0));
    }

    #[test]
    fn cut_and_foreign_tables() {
        let (all, found) = tables("|   0  Tesla P40  Off  | 00000000:03:00.0 Off |  0 |\n");
        assert_eq!((all[0][0].memory, found.warnings.len()), (None, 1));
        assert_eq!(
            tables("| 0 | 1.5 | x |\n| GPU | 00:00 | 3 |\n|  0    7   0   0  |  12MiB / 9856MiB  | 14  0 |\n").1,
            Found::default()
        );
    }
}
