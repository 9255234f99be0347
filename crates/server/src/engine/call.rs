//! One call of a command, as each step from the gate to observation receives it.

use crate::command::registry::{CommandId, Registry};
use crate::command::{Args, Command, Origin};
use crate::session::ClientHandle;

/// A command with its arguments, and the client in whose name it runs.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    /// The client in whose name the command runs.
    pub client: ClientHandle,
    /// The command.
    pub id: CommandId,
    /// The row of `id`.
    pub row: &'static Command,
    /// Arguments, with the command's name at index 0.
    pub args: Args<'a>,
    /// Source of the call: a request, a queue or a script.
    pub origin: Origin,
}

impl<'a> Call<'a> {
    /// Returns a call that the client itself has sent.
    #[inline]
    pub fn new(registry: &Registry, client: ClientHandle, id: CommandId, args: Args<'a>) -> Self {
        Call { client, id, row: registry.row(id), args, origin: Origin::default() }
    }
}
