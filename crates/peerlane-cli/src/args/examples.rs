//! Two examples for each command, in its help and its manual page. A test runs them.

use clap::Command;

/// A command, and its examples, each with what it is for. `topo.txt`, `run.json` and `records` stand for a user's own.
const EXAMPLES: [(&str, [[&str; 2]; 2]); 24] = [
    (
        "check",
        [
            ["peerlane check topo.txt", "the output of nvidia-smi topo -m"],
            ["peerlane check run.json --format markdown", "a recorded run, for a ticket"],
        ],
    ),
    (
        "map",
        [
            ["peerlane map topo.txt", "the PCIe tree and path classes"],
            ["peerlane map dgx-a100 --format svg > map.svg", "a drawing"],
        ],
    ),
    (
        "predict",
        [
            ["peerlane predict hgx-h100 --sizes", "times and rates by message size"],
            ["peerlane predict hgx-h100 --collectives=1K,1M,1G", "what NCCL should reach"],
        ],
    ),
    (
        "report",
        [
            ["peerlane report run.json -o report.html", "a page to send to others"],
            ["peerlane report dgx-1v -o dgx-1v.html", "of a system in the catalogue"],
        ],
    ),
    (
        "explain",
        [
            ["peerlane explain dgx-1v GPU0 GPU5", "why this pair is slow"],
            ["peerlane explain hgx-h100 GPU0 mlx5_4", "direct or staged RDMA, by size"],
        ],
    ),
    (
        "compare",
        [
            ["peerlane compare hgx-h100 hgx-h200", "two designs"],
            ["peerlane compare 7gforce --what-if GPU0.link=x8", "a design and a change of it"],
        ],
    ),
    (
        "place",
        [
            ["peerlane place dgx-1v --gpus 4", "the best four GPUs"],
            ["peerlane place dgx-1v --jobs 2x4 --format env", "two jobs, for a shell"],
        ],
    ),
    (
        "tune",
        [
            ["peerlane tune dgx-1v", "settings of NCCL that should help"],
            ["peerlane tune dgx-1v --set NCCL_PROTO=LL", "as if a variable were set"],
        ],
    ),
    (
        "infer",
        [
            ["peerlane infer run.json", "from a recorded run"],
            ["peerlane infer exxact-devbox", "measured on a simulated machine"],
        ],
    ),
    (
        "measure",
        [
            ["peerlane measure h200x4-vm --quick", "a simulated machine; without a name, this one"],
            ["peerlane measure h200x4-vm --pairs GPU0-GPU1 -o pair.json", "one pair, recorded"],
        ],
    ),
    (
        "fleet",
        [
            ["peerlane fleet records", "all records of a folder"],
            ["peerlane fleet records --html fleet.html", "as a page"],
        ],
    ),
    (
        "gate",
        [
            ["peerlane gate h200x4-vm -v", "a simulated machine; without a name, this one"],
            ["peerlane gate h200x4-vm --exit nagios", "as a check of Nagios"],
        ],
    ),
    (
        "top",
        [
            ["peerlane top hgx-h100 --once", "one picture of a simulated machine"],
            ["peerlane top h200x4-vm --record t.jsonl --for 1s", "to be seen again: peerlane top t.jsonl"],
        ],
    ),
    (
        "simulate",
        [
            ["peerlane simulate h200x4-vm -w all-reduce -s 1MiB,1GiB", "as NCCL would do it"],
            ["peerlane simulate hgx-h100 --nodes 4 --network rail --helps", "a cluster, and what would help"],
        ],
    ),
    (
        "sweep",
        [
            ["peerlane sweep hgx-h100 hgx-h200 -w all-reduce", "one workload on two machines"],
            ["peerlane sweep dgx-1v dgx-2 -w all-reduce -w all-to-all --rank", "one table"],
        ],
    ),
    (
        "plan",
        [
            ["peerlane plan llama-3-8b hgx-h100 --batch 128", "eight GPUs, 128 sequences a step"],
            ["peerlane plan llama-3-70b hgx-h100 --nodes 16 --network rail --batch 4M", "128 GPUs, 4 million tokens"],
        ],
    ),
    (
        "new",
        [
            ["peerlane new box.toml --cpu epyc-genoa --card l40s@cpu0", "one GPU; without --cpu it asks"],
            ["peerlane new two.toml --cpu epyc-genoa --sockets 2 --card l40s@cpu0,cpu1", "two sockets"],
        ],
    ),
    (
        "gather",
        [
            ["peerlane gather -o machine.tar.zst", "one file to send"],
            ["peerlane gather -o machine --redact", "a folder without names and addresses"],
        ],
    ),
    (
        "systems",
        [
            ["peerlane systems", "all names"],
            ["peerlane systems show dgx-a100 -v", "one, with the constants of its parts"],
        ],
    ),
    (
        "accuracy",
        [["peerlane accuracy run.json", "of one machine"], ["peerlane accuracy run.json --json", "the same as JSON"]],
    ),
    ("completions", [["peerlane completions bash", "for bash"], ["peerlane completions zsh > _peerlane", "for zsh"]]),
    ("man", [["peerlane man check", "the page of one command"], ["peerlane man -o man1", "all pages, into a folder"]]),
    (
        "selftest",
        [
            ["peerlane selftest --seed 1", "every kind of fault, with other noise; minutes"],
            ["peerlane selftest --fleet 100 --faults 5", "a fleet with five bad machines"],
        ],
    ),
    (
        "help",
        [
            ["peerlane help narrow-link", "what a rule looks at, and what to do"],
            ["peerlane help what-if", "the page of the manual on --what-if"],
        ],
    ),
];

/// The command line with the examples before what else follows the options.
pub(super) fn with_examples(mut cli: Command) -> Command {
    for (name, examples) in EXAMPLES {
        let lines: String = examples.iter().map(|[line, what]| format!("\n  {line}\n      {what}")).collect();
        cli = cli.mut_subcommand(name, |command| {
            let after = command.get_after_help().map(|text| format!("\n\n{text}")).unwrap_or_default();
            command.after_help(format!("Examples:{lines}{after}"))
        });
    }
    cli
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, command};
    use clap::{CommandFactory, Parser};

    #[test]
    fn every_command_has_examples_that_are_commands() {
        let cli = Cli::command();
        let shown: Vec<&str> = cli.get_subcommands().filter(|c| !c.is_hide_set()).map(Command::get_name).collect();
        assert_eq!(shown, EXAMPLES.map(|(name, _)| name));
        for (name, examples) in EXAMPLES {
            for [line, _] in examples {
                let words = line.split(" > ").next().unwrap_or(line).split(' ');
                assert!(line.starts_with(&format!("peerlane {name}")), "{line}");
                Cli::try_parse_from(words).unwrap_or_else(|e| panic!("{line}: {e}"));
            }
        }
        command().debug_assert();
    }
}
