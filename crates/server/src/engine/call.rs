//! One call of a command: what every step from the gate to the observation of the command is given.

use crate::command::registry::{CommandId, Registry};
use crate::command::{Args, Command, Origin};
use crate::session::ClientHandle;

/// A command with its arguments, and the client in whose name it runs.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub client: ClientHandle,
    pub id: CommandId,
    /// The row of `id`.
    pub row: &'static Command,
    pub args: Args<'a>,
    pub origin: Origin,
}

impl<'a> Call<'a> {
    /// Returns a call that the client itself has sent.
    #[inline]
    pub fn new(registry: &Registry, client: ClientHandle, id: CommandId, args: Args<'a>) -> Self {
        Call { client, id, row: registry.row(id), args, origin: Origin::default() }
    }
}
