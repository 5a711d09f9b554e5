//! The worked example of `docs/model.md` is what the program says.

use peerlane::catalogue::{Parts, system};
use peerlane::machine::Machine;
use peerlane::matrix::{Engine, Operation};
use peerlane::model::{Model, PeerAccess, Transfer};

const DOCUMENT: &str = include_str!("../../../../docs/model.md");

fn example(machine: &Machine, from: &str, to: &str) -> String {
    let model = Model::new(machine, Parts::embedded());
    let find = |name| machine.fabric.find(name).unwrap();
    let there = Transfer {
        source: find(from),
        destination: find(to),
        engine: Engine::Ce,
        op: Operation::Write,
        peer: PeerAccess::Enabled,
    };
    let back = Transfer { source: there.destination, destination: there.source, ..there };
    let name = |id| machine.fabric.node(id).name.as_str();
    let mut text = String::from("```text\n");
    for hop in model.route(&there).unwrap().hops {
        text.push_str(&format!("{} → {}  {}\n", name(hop.from), name(hop.to), hop.why));
    }
    let alone = &model.solve(&[there]).unwrap()[0];
    let both: f64 = model.solve(&[there, back]).unwrap().iter().map(|a| a.rate.gb()).sum();
    text.push_str(&format!("one way {:.3}, both ways {both:.3}: {}\n```", alone.rate.gb(), alone.bottleneck));
    text
}

#[test]
fn the_worked_example_is_what_the_program_says() {
    let machine = system("exxact-devbox").unwrap().unwrap();
    for destination in ["GPU1", "GPU2"] {
        let text = example(&machine, "GPU0", destination);
        assert!(DOCUMENT.contains(&text), "docs/model.md does not hold\n{text}");
    }
}
