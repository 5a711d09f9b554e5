//! `peerlane completions` and `peerlane man`: shell completions and manual pages.

use std::io::{self, Write};
use std::path::Path;

use clap::Command;
use clap_mangen::Man;

use crate::args::{self, CompletionsArgs, ManArgs};
use crate::{Failure, Outcome, output_file};

/// The source that manual pages name.
const SOURCE: &str = concat!("peerlane ", env!("CARGO_PKG_VERSION"));

/// Writes a completion script.
pub(crate) fn completions(args: &CompletionsArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let cli = args::command();
    // hidden commands are for the program itself
    let mut visible = Command::new("peerlane").args(cli.get_arguments()).subcommands(shown(&cli).cloned());
    // it has its own
    visible = visible.disable_help_subcommand(true);
    clap_complete::generate(args.shell, &mut visible, "peerlane", &mut &mut *out);
    Ok(Outcome::default())
}

/// Writes the page of the program or of one command; or all of them into a folder.
pub(crate) fn man(args: &ManArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    // builds the names `peerlane-check` of the commands' pages
    let mut cli = args::command();
    cli.build();
    match (&args.command, &args.output) {
        (_, Some(folder)) => all(&cli, folder)?,
        (None, None) => Man::new(cli).source(SOURCE).render(out)?,
        (Some(name), None) => {
            let found = shown(&cli).find(|command| command.get_name() == name);
            let Some(command) = found else {
                let names: Vec<&str> = shown(&cli).map(Command::get_name).collect();
                return Err(Failure::new(format!("no command '{name}'; the commands are: {}", names.join(", "))));
            };
            page(command).render(out)?;
        }
    }
    Ok(Outcome::default())
}

/// Prints the licences of the program, and of what it contains.
pub(crate) fn licences(out: &mut dyn Write) -> io::Result<()> {
    for text in [include_str!("../../LICENSE-MIT"), include_str!("../../LICENSE-APACHE")] {
        writeln!(out, "{}\n\n{}\n", text.trim(), "=".repeat(80))?;
    }
    out.write_all(include_str!("../../THIRD-PARTY.txt").as_bytes())
}

fn shown(cli: &Command) -> impl Iterator<Item = &Command> {
    cli.get_subcommands().filter(|command| !command.is_hide_set())
}

fn page(command: &Command) -> Man {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    Man::new(command.clone()).title(name).source(SOURCE)
}

fn all(cli: &Command, folder: &Path) -> Result<(), Failure> {
    output_file::make_folder(folder)?;
    let pages = shown(cli).map(|c| (c.get_display_name().unwrap_or_else(|| c.get_name()).to_owned(), page(c)));
    for (name, page) in pages.chain([("peerlane".to_owned(), Man::new(cli.clone()).source(SOURCE))]) {
        let path = folder.join(format!("{name}.1"));
        let mut text = Vec::new();
        page.render(&mut text)?;
        output_file::write(&path, text)?;
    }
    Ok(())
}
