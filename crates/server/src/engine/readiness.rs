//! Readiness to receive clients, for load balancers and orchestrators.

use super::Executor;
use crate::observe::readiness::Unready;

impl Executor {
    /// Publishes the readiness state to other threads.
    pub fn publish_readiness(&mut self) {
        let conditions = [
            (self.is_loading(), Unready::Loading),
            (self.disk_error().is_some(), Unready::DiskTrouble),
            (self.is_replica() && !self.is_linked(), Unready::PrimaryLinkDown),
            (self.is_within_unit(), Unready::Busy),
            (self.is_stopping(), Unready::Stopping),
        ];
        let reasons = conditions.into_iter().filter(|(holds, _)| *holds).map(|(_, reason)| reason);
        self.server.observed.readiness.publish(reasons);
    }
}
