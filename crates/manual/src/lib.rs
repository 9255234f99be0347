//! What tells of a program from outside it: its manual page, and completions for shells, made from the description of its
//! command line.
#![forbid(unsafe_code)]

use clap::{Command, ValueEnum};
use clap_complete::Shell;
use clap_mangen::Man;
use std::io::{self, Write};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// A manual page
    Man,
    /// Completions for a shell
    Bash,
    Zsh,
    Fish,
}

/// The text that belongs into a file of that kind.
///
/// # Errors
/// None that a vector of bytes gives.
pub fn text(mut command: Command, kind: Kind) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let shell = match kind {
        Kind::Man => {
            manual_page(&command, &mut text)?;
            return Ok(text);
        }
        Kind::Bash => Shell::Bash,
        Kind::Zsh => Shell::Zsh,
        Kind::Fish => Shell::Fish,
    };
    let name = command.get_name().to_owned();
    clap_complete::generate(shell, &mut command, name, &mut text);
    Ok(text)
}

/// Where there are many options, a synopsis that lists them all is of no help.
fn manual_page(command: &Command, text: &mut Vec<u8>) -> io::Result<()> {
    let name = command.get_name().replace('-', "\\-");
    let positional: Vec<String> =
        command.get_positionals().map(|argument| format!(" [\\fI{}\\fR]", argument.get_id())).collect();
    let man = Man::new(command.clone());
    man.render_title(text)?;
    man.render_name_section(text)?;
    writeln!(text, ".SH SYNOPSIS\n\\fB{name}\\fR [\\fIoptions\\fR]{}", positional.concat())?;
    man.render_description_section(text)?;
    man.render_options_section(text)?;
    man.render_extra_section(text)
}

/// Writes it to standard output.
///
/// # Errors
/// Those of standard output.
pub fn print(command: Command, kind: Kind) -> io::Result<()> {
    io::stdout().write_all(&text(command, kind)?)
}
