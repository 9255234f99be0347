//! Crash reports in the log: after a fault of the process, or on request (SIGALRM).

use crate::sys::crash::{self, Call, Event};
use std::fmt::Write as _;
use std::io;
use std::panic::PanicHookInfo;

/// Installs the reports: failed assertions always, signals if `signals_too`. To be called once, by the thread that does
/// most of the work.
pub fn start(signals_too: bool) -> io::Result<()> {
    crash::start(report_event)?;
    crash::watch_fatal(signals_too);
    std::panic::set_hook(Box::new(report_panic));
    Ok(())
}

fn report_event(event: &Event) {
    if !event.is_fatal() {
        // The watchdog uses a timer; a report on request comes by a sent signal.
        let why = if event.sender.is_some() { "Received SIGALRM" } else { "--- WATCHDOG TIMER EXPIRED ---" };
        log::warn!("{why}{}", stack_trace(&event.thread, &event.calls));
        return;
    }
    let mut text = format!(
        "Warmline {} crashed by signal: {}, si_code: {}",
        env!("CARGO_PKG_VERSION"),
        event.signal,
        event.code
    );
    if let Some(address) = event.address {
        // Writing to a String cannot fail.
        let _ = write!(text, "\nAccessing address: {address:#x}");
    }
    if let Some((process, user)) = event.sender {
        let _ = write!(text, "\nKilled by PID: {process}, UID: {user}");
    }
    report(&text, &event.thread, &event.calls);
}

/// A failed assertion is a fault of the program: threads depend on each other, so the process ends.
fn report_panic(info: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    let why = info.payload_as_str().unwrap_or("(no words)");
    let text = format!("=== ASSERTION FAILED ===\n==> {place} '{why}' is not true");
    report(&text, thread.name().unwrap_or_default(), &crash::calls_to_here());
    // The reason has been logged.
    crash::watch_fatal(false);
    std::process::abort();
}

fn report(what: &str, thread: &str, calls: &[Call]) {
    log::warn!(
        "\n\n=== WARMLINE BUG REPORT START: Cut & paste starting from here ===\n{what}{}\n\
         === WARMLINE BUG REPORT END. Make sure to include from START to END. ===\n",
        stack_trace(thread, calls)
    );
}

fn stack_trace(thread: &str, calls: &[Call]) -> String {
    let mut text = format!("\n\n------ STACK TRACE ------\nThread: {thread}\n");
    for call in calls {
        let function = call.function.as_deref().unwrap_or("?");
        let place = call.place.as_deref().map(|place| format!(" at {place}")).unwrap_or_default();
        let _ = writeln!(text, "{:#018x} {function}{place}", call.address);
    }
    text + "------ STACK TRACE DONE ------\n"
}
