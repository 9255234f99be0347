//! Requests to a server.

use wire::aof::{write_argument, write_count};

const TAKEN: &str = "memory takes all that is written";

/// Appends a command as an array of bulk strings.
pub fn append_request<A: AsRef<[u8]>>(out: &mut Vec<u8>, args: &[A]) {
    write_count(out, args.len()).expect(TAKEN);
    for arg in args {
        append_bulk(out, arg.as_ref());
    }
}

/// Appends an argument of a command.
pub fn append_bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    write_argument(out, bytes).expect(TAKEN);
}

/// Returns the command that authenticates; `None` without a password.
pub fn authentication(user: Option<&str>, password: Option<&str>) -> Option<Vec<String>> {
    let words = ["AUTH"].into_iter().chain(user).chain([password?]);
    Some(words.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_there() {
        assert_eq!(authentication(Some("me"), None), None);
        assert_eq!(authentication(None, Some("secret")).unwrap(), ["AUTH", "secret"]);
        assert_eq!(authentication(Some("me"), Some("")).unwrap(), ["AUTH", "me", ""]);
    }

    #[test]
    fn commands_are_arrays_of_bulks() {
        let mut out = b"*1\r\n$4\r\nPING\r\n".to_vec();
        append_request(&mut out, &["GET", &"k".repeat(123)]);
        assert!(out.starts_with(b"*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$123\r\nkk"));
    }
}
