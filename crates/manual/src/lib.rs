//! Generates a program's manual page and shell completions from the description of its command line.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

use clap::{Command, ValueEnum};
use clap_complete::Shell;
use clap_mangen::Man;
use std::io::{self, Write};

/// The kind of file to generate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// A manual page
    Man,
    /// Completions for bash
    Bash,
    /// Completions for zsh
    Zsh,
    /// Completions for fish
    Fish,
}

/// Generates the contents of a file of this kind.
pub fn text(mut command: Command, kind: Kind) -> Vec<u8> {
    let mut text = Vec::new();
    let shell = match kind {
        Kind::Man => {
            manual_page(&command, &mut text).expect("writing to memory succeeds");
            return text;
        }
        Kind::Bash => Shell::Bash,
        Kind::Zsh => Shell::Zsh,
        Kind::Fish => Shell::Fish,
    };
    let name = command.get_name().to_owned();
    clap_complete::generate(shell, &mut command, name, &mut text);
    text
}

fn manual_page(command: &Command, text: &mut Vec<u8>) -> io::Result<()> {
    let man = Man::new(command.clone());
    man.render_title(text)?;
    man.render_name_section(text)?;
    sections(command, command.get_name(), text)?;
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        let name = subcommand.get_name();
        writeln!(text, ".SH {}", name.to_uppercase())?;
        let mut own = Vec::new();
        sections(subcommand, &format!("{} {name}", command.get_name()), &mut own)?;
        text.extend_from_slice(String::from_utf8_lossy(&own).replace(".SH ", ".SS ").as_bytes());
    }
    Ok(())
}

/// Writes synopsis, description and options of a program or one of its commands. The synopsis does not list the options.
fn sections(command: &Command, name: &str, text: &mut Vec<u8>) -> io::Result<()> {
    let positional: Vec<String> =
        command.get_positionals().map(|argument| format!(" [\\fI{}\\fR]", argument.get_id())).collect();
    let name = name.replace('-', "\\-");
    writeln!(text, ".SH SYNOPSIS\n\\fB{name}\\fR [\\fIoptions\\fR]{}", positional.concat())?;
    let man = Man::new(command.clone());
    man.render_description_section(text)?;
    man.render_options_section(text)?;
    if command.get_after_help().is_some() {
        man.render_extra_section(text)?;
    }
    Ok(())
}
