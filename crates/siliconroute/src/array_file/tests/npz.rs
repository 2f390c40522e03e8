//! Archives: names, compression and damage.

use std::io::Cursor;

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use std::io::Write as _;

use super::*;

/// An array file of int8 zeros.
fn zeros(count: usize) -> Vec<u8> {
    let mut bytes = npy_header::NpyHeader::encode("|i1", &[count]);
    bytes.resize(bytes.len() + count, 0);
    bytes
}

fn archive(entries: &[(&str, &[u8])], method: CompressionMethod) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        zip.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn specs() -> [TensorSpec; 2] {
    ["a", "b/0"].map(|name| spec(name, ElementType::Int8, &[free("N")]))
}

#[test]
fn reads_stored_and_compressed_entries() {
    let folder = Folder::new();
    let entries = [("b/0.npy", zeros(9)), ("a.npy", zeros(9))];
    let entries = entries.each_ref().map(|(name, bytes)| (*name, bytes.as_slice()));
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        let inputs = read_inputs(&folder.with("x.npz", archive(&entries, method)), &specs()).unwrap();
        assert_eq!(inputs, ["a", "b/0"].map(|name| tensor(name, &[9], TensorData::Int8(vec![0; 9]))));
    }
}

#[test]
fn refuses_names_that_the_model_does_not_have() {
    let folder = Folder::new();
    let array = zeros(1);
    let path =
        folder.with("x.npz", archive(&[("a.npy", &array), ("c.npy", &array)], CompressionMethod::Stored));
    refused(&path, &specs(), "holds `c`, but the model's inputs are a, b/0");
    let path = folder.with("x.npz", archive(&[("a.npy", &array)], CompressionMethod::Stored));
    refused(&path, &specs(), "lacks the inputs b/0");
    let path = folder.with("x.npz", archive(&[("a.npy", &array), ("a", &array)], CompressionMethod::Stored));
    refused(&path, &specs(), "two arrays named `a`");
    let path = folder.with("x.npz", archive(&[], CompressionMethod::Stored));
    refused(&path, &specs(), "lacks the inputs a, b/0");
}

#[test]
fn refuses_damaged_archives() {
    let folder = Folder::new();
    let (array, x) = (zeros(1000), [spec("a", ElementType::Int8, &[free("N")])]);
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        let sound = archive(&[("a.npy", &array)], method);
        assert!(read_inputs(&folder.with("x.npz", &sound), &x).is_ok());
        for length in [0, 1, sound.len() / 2, sound.len() - 1] {
            refused(&folder.with("x.npz", &sound[..length]), &x, "no complete .npz file");
        }
        // Any one byte may be wrong: the checksum or the structure tells, and nothing panics.
        for position in 0..sound.len() {
            let mut bytes = sound.clone();
            bytes[position] ^= 0x10;
            drop(read_inputs(&folder.with("x.npz", &bytes), &x));
        }
    }
    let stored = archive(&[("a.npy", &array)], CompressionMethod::Stored);
    let mut flipped = stored.clone();
    flipped[500] ^= 1;
    refused(&folder.with("x.npz", &flipped), &x, "array `a`");
    refused(&folder.with("x.npz", &flipped), &x, "its bytes cannot be read");
    refused(&folder.with("x.npz", "not a zip"), &x, "no complete .npz file");
    let entry = archive(&[("a.npy", b"no array")], CompressionMethod::Stored);
    refused(&folder.with("x.npz", entry), &x, "array `a` of");
}

#[test]
fn refuses_archives_that_would_unpack_to_more_than_the_limit() {
    let folder = Folder::new();
    let (array, x) = (zeros(1 << 20), [spec("a", ElementType::Int8, &[free("N")])]);
    let bytes = archive(&[("a.npy", &array)], CompressionMethod::Deflated);
    assert!(bytes.len() < 10_000);
    let path = folder.with("x.npz", &bytes);
    assert!(read_inputs_within(&path, &x, 1 << 20).is_ok());
    let error = chain(&read_inputs_within(&path, &x, (1 << 20) - 1).unwrap_err());
    assert!(error.contains("needs 1048576 bytes"), "{error}");
    // The limit is for all arrays together.
    let two = archive(&[("a.npy", &array), ("b/0.npy", &array)], CompressionMethod::Deflated);
    let error = chain(&read_inputs_within(&folder.with("x.npz", two), &specs(), 3 << 19).unwrap_err());
    assert!(error.contains("what is left of the limit: 524288"), "{error}");
    // A size that the compressed bytes cannot hold: the central directory's field of the entry.
    let mut lie = bytes;
    let directory = lie.windows(4).rposition(|window| window == b"PK\x01\x02").unwrap();
    lie[directory + 24..directory + 28].copy_from_slice(&0x7fff_ffff_u32.to_le_bytes());
    refused(&folder.with("x.npz", &lie), &x, "compressed bytes cannot hold");
}
