//! The end of the process as a client or a signal wants it: what is written first, and what keeps it from ending.

use super::Executor;
use crate::persist::child::Purpose;
use crate::server::{ProcessRequest, Shutdown};

impl Executor {
    /// Gets ready to end; whether the process may. The log tells why not.
    pub fn shut_down(&mut self, how: Shutdown) -> bool {
        log::info!("User requested shutdown...");
        if !self.may_stop_first_rewrite(how) {
            return false;
        }
        // Replicas that wait for a snapshot have another one begun when this one ends.
        while let Some(child) = self.disk.child.take() {
            match child.purpose {
                Purpose::Snapshot | Purpose::Sync => {
                    log::warn!("There is a child saving an .rdb. Killing it!");
                    self.snapshot_killed(child);
                }
                Purpose::LogBase => {
                    log::warn!("There is a child rewriting the AOF. Killing it!");
                    child.end();
                    let figures = &mut self.server.observed.persistence.log;
                    (figures.rewriting, figures.rewrite_started_s) = (false, None);
                }
            }
        }
        if !self.close_log(how.force || self.log_waits_for_rewrite())
            && !how.force
            && !self.log_waits_for_rewrite()
        {
            log::warn!("Error writing the append-only file, can't exit.");
            log::warn!("Errors trying to shut down the server. Check the logs for more information.");
            return false;
        }
        let loading = self.has_load_under_way();
        let saves = how.save.unwrap_or(!self.server.config.save.is_empty());
        if saves && !loading {
            log::info!("Saving the final RDB snapshot before exiting.");
            if !self.save() {
                if !how.force {
                    log::warn!("Error trying to save the DB, can't exit.");
                    log::warn!("Errors trying to shut down the server. Check the logs for more information.");
                    return false;
                }
                log::warn!("Error trying to save the DB. Exit anyway.");
            }
        }
        self.server.process_requests.push(ProcessRequest::Shutdown);
        self.ends = true;
        true
    }
}
