//! NumPy arrays: reads their headers and writes whole arrays.

use std::io::Read;

use safetensors::Dtype;

use super::index::{Place, Stored, row_major};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// NumPy's name of JAX's bfloat16.
pub(super) const VOID: &str = "|V2";
/// Largest header text in bytes. A tensor's has about a hundred.
const MOST_HEADER: usize = 1 << 16;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Header {
    /// Bytes before the first value.
    pub(super) length: u64,
    /// NumPy's name of the type, such as `<f4`.
    pub(super) descr: String,
    pub(super) dtype: Option<Dtype>,
    pub(super) is_big_endian: bool,
    pub(super) shape: Vec<usize>,
    /// Whether the first dimension is fastest.
    pub(super) fortran: bool,
}

impl Header {
    /// Reads a header from the beginning of an array.
    ///
    /// # Errors
    /// The source is not an array, or has an unsupported form.
    pub(super) fn read(source: &mut impl Read) -> Result<Self, String> {
        let mut start = [0; 8];
        let cut = |error: std::io::Error| format!("it is cut short or damaged: {error}");
        source.read_exact(&mut start).map_err(cut)?;
        let [magic @ .., major, _] = start;
        if magic != *MAGIC {
            return Err("it is not a NumPy array".to_owned());
        }
        let mut length = [0; 4];
        let width = if major == 1 { 2 } else { 4 };
        source.read_exact(&mut length[..width]).map_err(cut)?;
        let bytes = u32::from_le_bytes(length);
        let text_len = usize::try_from(bytes).ok().filter(|&length| length <= MOST_HEADER);
        let text_len = text_len.ok_or_else(|| format!("its header claims {bytes} bytes"))?;
        let mut text = vec![0; text_len];
        source.read_exact(&mut text).map_err(cut)?;
        let text = String::from_utf8(text).map_err(|error| format!("its header is not text: {error}"))?;
        let before = (start.len() + width + text_len) as u64;
        Self::parse(&text, before).ok_or_else(|| format!("its header is not of a plain array: {}", text.trim()))
    }

    /// Parses a Python dict with three keys: `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`.
    fn parse(text: &str, length: u64) -> Option<Self> {
        let inside = text.trim().strip_prefix('{')?.strip_suffix('}')?;
        let after = |key: &str| {
            let (_, rest) = inside.split_once(&format!("'{key}':"))?;
            Some(rest.trim_start())
        };
        let descr = after("descr")?.strip_prefix('\'')?.split_once('\'')?.0.to_owned();
        let order = after("fortran_order")?;
        let fortran = if order.starts_with("True") { true } else { order.strip_prefix("False").map(|_| false)? };
        let sides = after("shape")?.strip_prefix('(')?.split_once(')')?.0;
        let sides = sides.split(',').map(str::trim).filter(|side| !side.is_empty());
        let shape = sides.map(|side| side.parse().ok()).collect::<Option<Vec<usize>>>()?;
        let dtype = match descr.trim_start_matches(['<', '>', '|', '=']) {
            "f2" => Some(Dtype::F16),
            "f4" => Some(Dtype::F32),
            "f8" => Some(Dtype::F64),
            // NumPy has no bfloat16 and calls JAX's two bytes without a meaning.
            "V2" => Some(Dtype::BF16),
            "u1" => Some(Dtype::U8),
            "u2" => Some(Dtype::U16),
            "u4" => Some(Dtype::U32),
            "u8" => Some(Dtype::U64),
            "b1" => Some(Dtype::BOOL),
            "i1" => Some(Dtype::I8),
            "i2" => Some(Dtype::I16),
            "i4" => Some(Dtype::I32),
            "i8" => Some(Dtype::I64),
            _ => None,
        };
        Some(Self { length, is_big_endian: descr.starts_with('>'), descr, dtype, shape, fortran })
    }

    /// Describes the array with this header. `length` is the entry's size in bytes, including the header.
    pub(super) fn stored(self, name: String, entry: usize, length: u64) -> Stored {
        let bytes = length.saturating_sub(self.length);
        Stored {
            name,
            strides: if self.fortran { column_major(&self.shape) } else { row_major(&self.shape) },
            available: bytes / self.dtype.map_or(1, size),
            dtype: self.dtype,
            is_big_endian: self.is_big_endian,
            shard: 0,
            type_name: self.descr,
            shape: self.shape,
            place: Place::Entry { entry, byte: self.length },
        }
    }
}

pub trait NpyNumber: Copy {
    /// NumPy's name of the type, with byte order.
    const DESCR: &'static str;

    /// Appends the little-endian bytes.
    fn append(self, bytes: &mut Vec<u8>);
}

impl NpyNumber for f32 {
    const DESCR: &'static str = "<f4";

    fn append(self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.to_le_bytes());
    }
}

impl NpyNumber for u8 {
    const DESCR: &'static str = "|u1";

    fn append(self, bytes: &mut Vec<u8>) {
        bytes.push(self);
    }
}

/// Returns a `.npy` file with `values` in this row-major shape, which must match their number.
pub fn encode_npy<T: NpyNumber>(shape: &[usize], values: &[T]) -> Vec<u8> {
    let sides: Vec<String> = shape.iter().map(ToString::to_string).collect();
    // A Python tuple with one element ends with a comma.
    let comma = if shape.len() == 1 { "," } else { "" };
    let mut text =
        format!("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{comma}), }}", T::DESCR, sides.join(", "));
    // As in NumPy's own files, values begin at a multiple of 64 bytes, so that they can be mapped.
    let before = MAGIC.len() + 4;
    let spaces = (before + text.len() + 1).next_multiple_of(64) - (before + text.len() + 1);
    text.extend(std::iter::repeat_n(' ', spaces));
    text.push('\n');
    let mut bytes = Vec::with_capacity(before + text.len() + size_of_val(values));
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&[1, 0]);
    bytes.extend_from_slice(&(text.len() as u16).to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
    values.iter().for_each(|value| value.append(&mut bytes));
    bytes
}

/// The bytes of a value, at least one.
pub(super) fn size(dtype: Dtype) -> u64 {
    (dtype.bitsize() / 8).max(1) as u64
}

/// Returns the strides of an array with the first dimension fastest.
fn column_major(shape: &[usize]) -> Vec<usize> {
    let mut stride = 1_usize;
    let step = |&side: &usize| {
        let next = stride.saturating_mul(side);
        std::mem::replace(&mut stride, next)
    };
    shape.iter().map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Vec<u8> {
        let length = u16::try_from(text.len()).unwrap().to_le_bytes();
        [MAGIC.as_slice(), &[1, 0], &length, text.as_bytes()].concat()
    }

    #[test]
    fn headers_say_type_order_and_shape() {
        let text = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n";
        let header = Header::read(&mut bytes(text).as_slice()).unwrap();
        assert_eq!((header.dtype, header.fortran, header.shape.as_slice()), (Some(Dtype::F32), false, &[2, 3][..]));
        assert_eq!(header.length, 10 + text.len() as u64);
        let text = "{'descr': '>f8', 'fortran_order': True, 'shape': (), }";
        let header = Header::read(&mut bytes(text).as_slice()).unwrap();
        assert_eq!((header.dtype, header.fortran, header.shape.len()), (Some(Dtype::F64), true, 0));
        assert!(header.is_big_endian);
        let complex = "{'descr': '<c8', 'fortran_order': True, 'shape': (), }";
        assert_eq!(Header::read(&mut bytes(complex).as_slice()).unwrap().dtype, None);
        assert_eq!(column_major(&[2, 3, 4]), [1, 2, 6]);
    }

    /// The bytes are identical to those of `numpy.save`.
    #[test]
    fn arrays_are_written_as_numpy_writes_them() {
        for (shape, sides) in [(&[2, 3][..], "(2, 3)"), (&[6], "(6,)"), (&[], "()")] {
            let count: usize = shape.iter().product();
            let values: Vec<f32> = (0..count).map(|value| value as f32).collect();
            let written = encode_npy(shape, &values);
            let text = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {sides}, }}");
            assert_eq!(&written[..8], b"\x93NUMPY\x01\x00");
            assert_eq!(written[8..10], 118_u16.to_le_bytes());
            assert_eq!(std::str::from_utf8(&written[10..128]).unwrap(), format!("{text:<117}\n"));
            assert_eq!(written[128..].len(), 4 * count);
            let header = Header::read(&mut written.as_slice()).unwrap();
            assert_eq!((header.length, header.shape.as_slice()), (128, shape));
        }
    }

    #[test]
    fn bytes_are_written_as_numpy_writes_them() {
        let written = encode_npy(&[2, 1], &[1_u8, 0]);
        let text = "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 1), }";
        assert_eq!(std::str::from_utf8(&written[10..128]).unwrap(), format!("{text:<117}\n"));
        assert_eq!(written[128..], [1, 0]);
    }

    #[test]
    fn what_is_no_header_is_refused() {
        for (bytes, reason) in [
            (b"\x93NUMP".to_vec(), "cut short"),
            (b"PK\x03\x04aaaaaaaa".to_vec(), "not a NumPy array"),
            (b"\x93NUMPY\x02\x00\xff\xff\xff\xff".to_vec(), "its header claims 4294967295 bytes"),
            (bytes("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}"), "not of a plain array"),
            (bytes("{'descr': '<f4', 'fortran_order': False, 'shape': (2, -3)}"), "not of a plain array"),
            (bytes("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}"), "not of a plain"),
            (bytes("import os"), "not of a plain array: import os"),
        ] {
            let refused = Header::read(&mut bytes.as_slice()).unwrap_err();
            assert!(refused.contains(reason), "{refused}");
        }
    }
}
