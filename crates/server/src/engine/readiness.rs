//! Whether clients should be sent here, for load balancers and orchestrators.

use super::Executor;
use crate::observe::readiness::Unready;

impl Executor {
    /// Tells other threads whether clients should be sent here.
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
