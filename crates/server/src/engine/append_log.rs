//! The append-only file.

use super::Executor;
use super::persistence::Answer;
use crate::error::ClientError;
use crate::persist::child::Child;
use crate::server::Shutdown;
use crate::sys::child::Ended;
use wire::reply::ReplyBuffer;

impl Executor {
    pub(super) fn rewrite_log_on_request(
        &mut self,
        _in_transaction: bool,
        _reply: &mut ReplyBuffer,
    ) -> Answer {
        Err(ClientError::text("ERR This version keeps no append-only file"))
    }

    pub(super) fn reload_log(&mut self) -> Answer {
        Err(ClientError::text("ERR This version keeps no append-only file"))
    }

    pub(super) fn may_stop_first_rewrite(&self, _how: Shutdown) -> bool {
        true
    }

    pub(super) fn close_log(&mut self) {}

    pub(super) fn log_cron(&mut self) {}

    pub(super) fn rewrite_ended(&mut self, child: &Child, _ended: Ended) {
        child.remove_temporary();
    }
}
