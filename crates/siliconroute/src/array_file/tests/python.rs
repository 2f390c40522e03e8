//! The same files under NumPy itself; needs `python3` with NumPy, or the one that `SRCI_PYTHON` names.

use std::process::Command;

use super::round_trip::{every_type, specs_of};
use super::*;

#[track_caller]
fn python(folder: &Folder, script: &str) {
    let program = std::env::var_os("SRCI_PYTHON").unwrap_or_else(|| "python3".into());
    let output = Command::new(program).current_dir(folder.0.path()).args(["-c", script]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn numpy_reads_what_is_written() {
    let folder = Folder::new();
    write_outputs(&folder.file("x.npz"), &every_type()).unwrap();
    python(
        &folder,
        "import numpy as np\n\
         a = np.load('x.npz')\n\
         assert len(a.files) == 17, a.files\n\
         for name in ('float32 float64 float16 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool').split():\n\
         \x20   assert a[name].dtype == np.dtype(name), name\n\
         assert a['bfloat16'].dtype == np.float32 and a['bfloat16'][0, 2] == 1.5\n\
         assert a['int64'].tolist() == [-2**63, 2**63 - 1] and a['uint64'].tolist() == [0, 2**64 - 1]\n\
         assert a['float32'].shape == (2, 3) and a['float32'][0, 0] == np.float32(0.1)\n\
         assert a['string'].tolist() == [['', 'a b'], ['gr\u{f6}\u{df}er \u{1f600}', '\"\\\\\\n']]\n\
         assert a['/scalar/out:0'].shape == () and a['/scalar/out:0'] == -2.5\n\
         assert a['empty'].shape == (0, 3) and a['no texts'].shape == (0,)\n",
    );
}

#[test]
fn what_numpy_writes_is_read() {
    let folder = Folder::new();
    write_outputs(&folder.file("ours.npz"), &every_type()).unwrap();
    python(
        &folder,
        "import numpy as np\n\
         a = dict(np.load('ours.npz'))\n\
         np.savez('plain.npz', **a)\n\
         np.savez_compressed('packed.npz', **a)\n\
         np.savez('swapped.npz', **{k: v.astype(v.dtype.newbyteorder('>')) for k, v in a.items()})\n\
         np.savez('columns.npz', **{k: np.asfortranarray(v) for k, v in a.items() if v.ndim})\n\
         np.save('objects.npy', np.array([{}], dtype=object))\n\
         np.save('records.npy', np.zeros(1, dtype=[('a', 'i4')]))\n\
         np.save('bytes.npy', np.array([b'ab', b'c']))\n",
    );
    let expected = every_type();
    for name in ["plain.npz", "packed.npz", "swapped.npz"] {
        assert_eq!(read_inputs(&folder.file(name), &specs_of(&expected)).unwrap(), expected, "{name}");
    }
    let with_axes: Vec<NamedTensor> =
        expected.into_iter().filter(|named| !named.tensor.shape().is_empty()).collect();
    assert_eq!(read_inputs(&folder.file("columns.npz"), &specs_of(&with_axes)).unwrap(), with_axes);
    let x = [spec("x", ElementType::String, &[free("N")])];
    refused(&folder.file("objects.npy"), &x, "Python objects");
    refused(&folder.file("records.npy"), &x, "records");
    let texts = TensorData::String(vec!["ab".to_owned(), "c".to_owned()]);
    assert_eq!(read_inputs(&folder.file("bytes.npy"), &x).unwrap(), [tensor("x", &[2], texts)]);
}
