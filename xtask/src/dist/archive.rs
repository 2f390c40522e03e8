//! Archives whose bytes follow from their entries: no owner, no clock, no order of a folder.
//!
//! Invariant: the same entries and time give the same bytes.

use std::io::{Cursor, Write as _};

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use zip::write::SimpleFileOptions;

/// A file to pack.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// Its path inside, with forward slashes.
    pub(super) path: String,
    pub(super) bytes: Vec<u8>,
    pub(super) executable: bool,
}

impl Entry {
    fn mode(&self) -> u32 {
        if self.executable { 0o755 } else { 0o644 }
    }
}

/// Packs `entries` as a compressed tape archive; `time` is in seconds since 1970-01-01 UTC.
pub(super) fn tar_gz(entries: &[Entry], time: u64) -> Result<Vec<u8>> {
    // The gzip header has a time and a name of its own; both stay empty.
    let packer = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    let mut archive = tar::Builder::new(packer);
    for entry in entries {
        let mut header = tar::Header::new_ustar();
        header.set_size(entry.bytes.len() as u64);
        header.set_mode(entry.mode());
        header.set_mtime(time);
        header.set_uid(0);
        header.set_gid(0);
        archive
            .append_data(&mut header, &entry.path, entry.bytes.as_slice())
            .with_context(|| format!("cannot pack {}", entry.path))?;
    }
    let packer = archive.into_inner().context("cannot end the archive")?;
    packer.finish().context("cannot end the compression")
}

/// Packs `entries` as a ZIP archive, whose times are UTC and even seconds from 1980 on.
pub(super) fn zip(entries: &[Entry], time: u64) -> Result<Vec<u8>> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for entry in entries {
        let options = SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Deflated)
            .compression_level(Some(9))
            .last_modified_time(dos_time(time))
            .unix_permissions(entry.mode());
        archive
            .start_file(entry.path.as_str(), options)
            .with_context(|| format!("cannot pack {}", entry.path))?;
        archive.write_all(&entry.bytes).with_context(|| format!("cannot pack {}", entry.path))?;
    }
    Ok(archive.finish().context("cannot end the archive")?.into_inner())
}

/// The date and time of a ZIP entry; the first that can be written where `time` is before it.
fn dos_time(time: u64) -> zip::DateTime {
    let (year, month, day) = date(time / 86_400);
    let (hour, minute, second) = (time % 86_400 / 3600, time % 3600 / 60, time % 60);
    let part = |value: u64| u8::try_from(value).unwrap_or(0);
    let year = u16::try_from(year).unwrap_or(0);
    zip::DateTime::from_date_and_time(year, part(month), part(day), part(hour), part(minute), part(second))
        .unwrap_or_default()
}

/// Year, month and day of the day number `days` since 1970-01-01, in the Gregorian calendar.
///
/// Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn entries() -> Vec<Entry> {
        let entry = |path: &str, executable| Entry {
            path: path.to_owned(),
            bytes: path.repeat(50).into_bytes(),
            executable,
        };
        vec![
            entry("folder/README.md", false),
            entry("folder/siliconroute", true),
            entry("folder/Prüf Ordner 日本/a.txt", false),
        ]
    }

    #[test]
    fn the_same_entries_give_the_same_bytes() {
        assert_eq!(tar_gz(&entries(), 1_700_000_000).unwrap(), tar_gz(&entries(), 1_700_000_000).unwrap());
        assert_eq!(zip(&entries(), 1_700_000_000).unwrap(), zip(&entries(), 1_700_000_000).unwrap());
    }

    #[test]
    fn a_tape_archive_holds_what_was_packed() {
        let packed = tar_gz(&entries(), 1_700_000_000).unwrap();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(packed.as_slice()));
        for (mut found, packed) in archive.entries().unwrap().map(Result::unwrap).zip(entries()) {
            assert_eq!(found.path().unwrap().to_str(), Some(packed.path.as_str()));
            assert_eq!(found.header().mode().unwrap(), packed.mode());
            assert_eq!(found.header().mtime().unwrap(), 1_700_000_000);
            let mut bytes = Vec::new();
            found.read_to_end(&mut bytes).unwrap();
            assert_eq!(bytes, packed.bytes);
        }
    }

    #[test]
    fn a_zip_archive_holds_what_was_packed() {
        let packed = zip(&entries(), 1_700_000_000).unwrap();
        let mut archive = zip::ZipArchive::new(Cursor::new(packed)).unwrap();
        for packed in entries() {
            let mut found = archive.by_name(&packed.path).unwrap();
            assert_eq!(found.unix_mode().map(|mode| mode & 0o777), Some(packed.mode()));
            assert_eq!(found.last_modified().unwrap().to_string(), "2023-11-14 22:13:20");
            let mut bytes = Vec::new();
            found.read_to_end(&mut bytes).unwrap();
            assert_eq!(bytes, packed.bytes);
        }
    }

    #[test]
    fn days_are_dates() {
        for (days, expected) in [
            (0, (1970, 1, 1)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (19_675, (2023, 11, 14)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
        ] {
            assert_eq!(date(days), expected);
        }
        assert_eq!(dos_time(0), zip::DateTime::default());
    }
}
