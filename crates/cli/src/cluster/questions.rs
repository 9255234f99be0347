//! Questions, answered on standard input by an operator or a script.

use std::io;

use crate::Failure;

/// Returns the next line of standard input; the end of input ends the program.
pub fn answer(question: &str) -> Result<String, Failure> {
    print_text!("{question}");
    let mut line = String::new();
    match io::stdin().read_line(&mut line) {
        Ok(0) => {
            print_line!("");
            Err(Failure::Usage("*** No answer, operation aborted.".to_owned()))
        }
        Ok(_) => Ok(line.trim().to_owned()),
        Err(error) => Err(Failure::Io("reading from standard input", error)),
    }
}

/// Asks for `yes`; the end of input counts as `no`.
pub fn confirms(question: &str) -> bool {
    answer(&format!("{question} (type 'yes' to accept): ")).is_ok_and(|answer| answer == "yes")
}
