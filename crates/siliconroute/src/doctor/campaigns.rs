//! Campaigns that have begun and were never said to have ended.
//!
//! Invariant: whether a campaign is still under way is told by who holds the lock of measuring, or of serving, never by its age.

use siliconroute_core::trial::Purpose;
use siliconroute_store::{StoreError, StoredCampaign};

use super::Check;
use crate::router::Router;
use crate::wording::{counted, utc_minute};

const SUBJECT: &str = "campaigns";

impl Router {
    /// Names the campaigns whose program is gone, and the one that measures; nothing where all others have ended or serve.
    pub(super) fn diagnose_campaigns(&self) -> Vec<Check> {
        let looked = [self.campaigns_without_end(), self.servings_of_the_gone()];
        let checks = looked
            .into_iter()
            .map(|check| check.unwrap_or_else(|error| Some(Check::of_error(SUBJECT, &error.into()))));
        checks.flatten().collect()
    }

    fn servings_of_the_gone(&self) -> Result<Option<Check>, StoreError> {
        let gone = self.servings_without_end()?;
        let named = gone.iter().map(named).collect::<Vec<_>>().join(", ");
        Ok((!gone.is_empty()).then(|| {
            Check::advice(
                SUBJECT,
                format!(
                    "{} ended early, since the program that served was ended: {named}",
                    counted(gone.len(), "campaign")
                ),
                "nothing: what was served is kept, and the next program that serves or measures marks them as interrupted",
            )
        }))
    }

    fn campaigns_without_end(&self) -> Result<Option<Check>, StoreError> {
        if self.without_end()?.is_empty() {
            return Ok(None);
        }
        // To look who holds the lock makes its file.
        let lock = if self.read_only().is_some() { None } else { Some(self.home.lock_measuring(|| false)) };
        // One that ended between the two looks is none of them.
        let open = self.without_end()?;
        let Some(first) = open.first() else { return Ok(None) };
        let named = open.iter().map(named).collect::<Vec<_>>().join(", ");
        Ok(Some(match lock {
            Some(Ok(Some(_lock))) => Check::advice(
                SUBJECT,
                format!(
                    "{} ended early, since the program was ended: {named}",
                    counted(open.len(), "campaign")
                ),
                "nothing: what was measured is kept, the next measurement marks them as interrupted, and `bench` with \
                 --resume goes on with a benchmark",
            ),
            Some(Ok(None)) if open.len() == 1 => {
                Check::good(SUBJECT, format!("under way: {}", self::named(first)))
            }
            Some(Ok(None)) => {
                Check::good(SUBJECT, format!("the latest is under way, the others ended early: {named}"))
            }
            Some(Err(_)) | None => Check::advice(
                SUBJECT,
                format!(
                    "under way or ended early, which cannot be told where nothing can be locked: {named}"
                ),
                "nothing, unless something is to be measured: then allow writing to the home",
            ),
        }))
    }

    /// The campaigns that measure and were not said to have ended.
    fn without_end(&self) -> Result<Vec<StoredCampaign>, StoreError> {
        let mut running = self.store.running_campaigns()?;
        running.retain(|it| it.purpose != Purpose::Served);
        Ok(running)
    }
}

/// A campaign in a few words.
fn named(campaign: &StoredCampaign) -> String {
    let (id, purpose) = (campaign.id, campaign.purpose.name());
    let begun = utc_minute(campaign.started_unix_ms);
    format!("{id} ({purpose}, begun {begun} UTC, {})", counted(campaign.trials as usize, "trial"))
}
