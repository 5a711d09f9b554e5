//! The questions of `peerlane new`. An answer that cannot be is asked again; the end of input writes nothing.

use std::io::{BufRead, Read, Write};

use peerlane::builder::{Card, Plan, Product, Sheet, SlotLine, Switch};
use peerlane::one_line::one_line;

use super::write_lanes;
use crate::Failure;

/// The most bytes of an answer.
const MOST_BYTES: u64 = 4096;

/// Asks until there is a plan, and whether to write it.
pub(super) fn ask(
    input: &mut dyn BufRead,
    out: &mut dyn Write,
    name: String,
    board: Option<String>,
) -> Result<Plan, Failure> {
    let mut asking = Asking { input, out };
    asking.say("Enter takes what stands in [brackets]; Ctrl-D ends without writing anything.\n")?;
    let board = match board {
        Some(board) => Some(board),
        None => Some(asking.answer("Board [none]: ")?).filter(|board| !board.is_empty()),
    };
    let cpu = asking.until("CPU, such as EPYC 9554 or Xeon E5-2630 v4: ", Product::cpu)?;
    let pcie = cpu.part.and_then(|part| Some(format!(": {} lanes of PCIe {}", part.lanes?, part.pcie?.generation?)));
    asking.say(&format!("  {}{}", cpu.title(), pcie.unwrap_or_default()))?;
    let sockets = asking.until("Sockets with this CPU [1]: ", |text| match text {
        "" => Ok(1),
        text => {
            text.parse().ok().filter(|n| (1..=8).contains(n)).ok_or_else(|| "write a number from 1 to 8".to_owned())
        }
    })?;
    asking.say("Switch chips of the board, one a line, such as: plx0 PEX 8747 @cpu0")?;
    let switches = asking.list("  switch [no more]: ", |text| text.parse::<Switch>())?;
    asking.say("Slots from the board's manual, one a line, such as: SLOT1 x16 @cpu0")?;
    asking.say("  SLOT2 x16/x8 @cpu0 shares SLOT3   x8 while SLOT3 is in use")?;
    asking.say("  SLOT4 PCIe 4.0 x8 in x16 @cpu1    a connector with room for x16")?;
    let mut sheet = Sheet { name, board, cpu: Some(cpu), sockets, switches, ..Sheet::default() };
    loop {
        sheet.slots = asking.list("  slot [no more]: ", |text| text.parse::<SlotLine>())?;
        match sheet.plan() {
            Ok(_) => break,
            Err(errors) => asking.wrong(&errors, "Write the slots again.")?,
        }
    }
    loop {
        asking.say("Cards by slot, such as: RTX 4090, or RTX 4090:x1 on a riser, or two with a comma between")?;
        sheet.cards = asking.cards(&sheet.slots)?;
        match sheet.plan() {
            Ok(plan) => {
                asking.say("")?;
                write_lanes(asking.out, &plan)?;
                if asking.yes("\nWrite the file? [yes] ")? {
                    return Ok(plan);
                }
                asking.say("The cards once more, then; Ctrl-D ends without writing anything.")?;
            }
            Err(errors) => asking.wrong(&errors, "Write the cards again.")?,
        }
    }
}

struct Asking<'a> {
    input: &'a mut dyn BufRead,
    out: &'a mut dyn Write,
}

impl Asking<'_> {
    fn say(&mut self, text: &str) -> Result<(), Failure> {
        Ok(writeln!(self.out, "{text}")?)
    }

    fn wrong(&mut self, errors: &[String], then: &str) -> Result<(), Failure> {
        for error in errors {
            self.say(&format!("  ! {error}"))?;
        }
        self.say(&format!("  {then}"))
    }

    fn answer(&mut self, question: &str) -> Result<String, Failure> {
        write!(self.out, "{question}")?;
        self.out.flush()?;
        let mut line = Vec::new();
        let read = (&mut *self.input).take(MOST_BYTES).read_until(b'\n', &mut line);
        if read.map_err(|e| Failure::new(format!("cannot read the answer: {e}")))? == 0 {
            writeln!(self.out)?;
            return Err(Failure::new("the input ended; nothing was written"));
        }
        Ok(one_line(String::from_utf8_lossy(&line).trim()).into_owned())
    }

    /// Asks until the answer can be read.
    fn until<T>(&mut self, question: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<T, Failure> {
        loop {
            match read(&self.answer(question)?) {
                Ok(value) => return Ok(value),
                Err(error) => self.say(&format!("  ! {error}"))?,
            }
        }
    }

    /// Asks until an empty line.
    fn list<T>(&mut self, question: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, Failure> {
        let mut all = Vec::new();
        let read = |text: &str| if text.is_empty() { Ok(None) } else { read(text).map(Some) };
        while let Some(one) = self.until(question, read)? {
            all.push(one);
        }
        Ok(all)
    }

    fn cards(&mut self, slots: &[SlotLine]) -> Result<Vec<Card>, Failure> {
        let mut cards = Vec::new();
        for slot in slots {
            let widths: Vec<String> = slot.widths.iter().map(|lanes| format!("x{lanes}")).collect();
            let question = format!("  {}, {} [empty]: ", slot.name, widths.join("/"));
            let placed = |text: &str| -> Result<Vec<Card>, String> {
                if text.contains('@') {
                    return Err(format!("this is about {}: write the card alone, as in RTX 4090", slot.name));
                }
                let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
                let each = names.map(|name| Card::several(&seated(name, &slot.name)));
                Ok(each.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
            };
            cards.extend(self.until(&question, placed)?);
        }
        Ok(cards)
    }

    fn yes(&mut self, question: &str) -> Result<bool, Failure> {
        self.until(question, |text| match text.to_lowercase().as_str() {
            "" | "y" | "yes" => Ok(true),
            "n" | "no" => Ok(false),
            _ => Err("write yes or no".to_owned()),
        })
    }
}

/// `RTX 4090 @SLOT1:x1` of `RTX 4090:x1`; `gpu:NAME` is no width.
fn seated(text: &str, slot: &str) -> String {
    match text.rsplit_once(':') {
        Some((name, width)) if width.trim().starts_with('x') => format!("{name} @{slot}:{width}"),
        _ => format!("{text} @{slot}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is asked and answered, as on a terminal; and the outcome.
    fn talk(answers: &str) -> (String, Result<Plan, String>) {
        let mut out = Vec::new();
        let result = ask(&mut answers.as_bytes(), &mut out, "my-box".to_owned(), None);
        let result = result.map_err(|e| match e {
            Failure::Message(message) => message,
            Failure::Output(e) => e.to_string(),
        });
        (String::from_utf8(out).unwrap(), result)
    }

    #[test]
    fn a_machine_is_made_from_answers_and_wrong_ones_are_asked_again() {
        let answers = "ASUS X99-E WS\nXeon E5-2630 v9\nXeon E5-2630 v4\n\nplx0 PEX 8747 @cpu0\n\nPCIEX16_1 x3\nPCIEX16_1 x16 @plx0\n\
                       PCIEX16_2 x16/x8 @plx0 shares PCIEX16_3\nPCIEX16_3 x8 @plx0\n\nRTX 4900\nRTX 3090 @PCIEX16_3\nRTX 3090\nRTX 3090:x1\n\
                       RTX 3090\nperhaps\nyes\n";
        let (said, plan) = talk(answers);
        let plan = plan.unwrap_or_else(|e| panic!("{e} in:\n{said}"));
        for expected in [
            "! no card 'RTX 4900' is known; nearest: rtx 4090",
            "! this is about PCIEX16_1: write the card alone",
            "'x3' is neither",
            "! write yes or no",
            "PCIEX16_2, PCIEX16_3 share lanes: x8 x8",
        ] {
            assert!(said.contains(expected), "wanted '{expected}' in:\n{said}");
        }
        assert!(plan.file().contains("pcie = \"3.0 x1\"\nslot = \"PCIEX16_2\""), "{}", plan.file());
    }

    #[test]
    fn a_sheet_that_cannot_be_built_is_asked_again_and_the_end_of_input_ends() {
        let head = "\nEPYC 9554\n2\n\nA x16 @cpu2\n\nA x16 @cpu1\n\n";
        let (said, result) = talk(head);
        assert!(said.contains("! slot A is at 'cpu2', which is no CPU or switch; nearest: cpu0"), "{said}");
        assert_eq!(result.unwrap_err(), "the input ended; nothing was written");
        assert!(
            talk(&format!("{head}RTX 4090\nno\n\nyes\n")).1.unwrap().file().lines().all(|line| !line.contains("rtx"))
        );
        for hostile in ["", "\u{1b}[2J\0\n", &"x".repeat(100_000), "\n\n\n\n", "\u{fffd}\nEPYC 9554\n-1\n9\n1e9\n"] {
            assert!(talk(hostile).1.is_err());
        }
    }
}
