//! The content of a message: named records of arrays, metrics and settings.

use std::{collections::HashSet, fmt};

use bytes::{Bytes, BytesMut};
use prost::Message as _;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
};
use unmask_tensors::encode_npy;

use crate::{
    objects::{CHUNK, Deflated, Parsed, Store, open},
    protocol::{
        self, Config, ConfigItem, ConfigRecord, DoubleList, Metric, MetricItem, MetricRecord, ObjectTree, SintList,
    },
};

/// Named values in the sender's order.
pub type Named<T> = Vec<(String, T)>;

const MOST_DIMENSIONS: usize = 8;
/// Maximum bytes of memory for one encoded byte of names, metrics or settings.
const DECODED: usize = 32;
/// Flower's name for NumPy's array format.
const NUMPY: &str = "numpy.ndarray";

/// An array in the form of a `.npy` file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Array {
    /// NumPy's name of the type, such as `float32`; the `.npy` file takes precedence.
    pub dtype: String,
    /// The sender's claim; the `.npy` file takes precedence.
    pub shape: Vec<usize>,
    pub npy: Bytes,
}

impl Array {
    /// Returns an array of these values in this row-major shape.
    pub fn from_f32(shape: &[usize], values: &[f32]) -> Self {
        Self { dtype: "float32".to_owned(), shape: shape.to_vec(), npy: encode_npy(shape, values).into() }
    }

    /// Returns an array of bytes in this row-major shape, such as a mask of zeros and ones.
    pub fn from_u8(shape: &[usize], values: &[u8]) -> Self {
        Self { dtype: "uint8".to_owned(), shape: shape.to_vec(), npy: encode_npy(shape, values).into() }
    }
}

/// A number, or a list of numbers, that a node reports.
#[derive(Debug, Clone, PartialEq)]
pub enum MetricValue {
    Float(f64),
    Integer(i64),
    Floats(Vec<f64>),
    Integers(Vec<i64>),
}

/// A setting. Lists are dropped on reading, because no node here uses them.
#[derive(Debug, Clone, PartialEq)]
pub enum ConfigValue {
    Float(f64),
    Integer(i64),
    Bool(bool),
    Text(String),
    Bytes(Vec<u8>),
}

/// The content of a message: Flower's `RecordDict`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Records {
    pub arrays: Named<Named<Array>>,
    pub metrics: Named<Named<MetricValue>>,
    pub config: Named<Named<ConfigValue>>,
}

impl Records {
    pub fn setting(&self, name: &str) -> Option<&ConfigValue> {
        self.config.iter().flat_map(|(_, values)| values).find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Cuts the records into objects and returns their tree.
    pub(crate) fn deflate(&self, deflated: &mut Deflated) -> Result<ObjectTree, serde_json::Error> {
        let mut kids = Vec::new();
        let mut names = Ids::default();
        for (name, arrays) in &self.arrays {
            let tree = deflate_arrays(arrays, deflated)?;
            names.push(name, &mut kids, tree);
        }
        for (name, values) in &self.metrics {
            let items = values.iter().map(|(key, value)| MetricItem { key: key.clone(), value: Some(value.into()) });
            let body = MetricRecord { items: items.collect() }.encode_to_vec();
            names.push(name, &mut kids, deflated.add("MetricRecord", Vec::new(), &body));
        }
        for (name, values) in &self.config {
            let items = values.iter().map(|(key, value)| ConfigItem { key: key.clone(), value: Some(value.into()) });
            let body = ConfigRecord { items: items.collect() }.encode_to_vec();
            names.push(name, &mut kids, deflated.add("ConfigRecord", Vec::new(), &body));
        }
        Ok(deflated.add("RecordDict", kids, &serde_json::to_vec(&names)?))
    }

    /// Assembles records from received objects, with at most `most_bytes` of arrays, names and values.
    ///
    /// # Errors
    /// Fails with a message if the objects are not valid records.
    pub(crate) fn inflate(store: &Store, id: &str, most_bytes: usize) -> Result<Self, String> {
        let mut left = most_bytes;
        let names: Ids = json(&charged(store, id, "RecordDict", &mut left)?.body)?;
        let mut records = Self::default();
        for (name, id) in names.0 {
            let content = store.get(&id).ok_or_else(|| format!("its record {name:?} is missing"))?;
            match content.split(|byte| *byte == b' ').next().unwrap_or_default() {
                b"ArrayRecord" => records.arrays.push((name, inflate_arrays(store, &id, &mut left)?)),
                b"MetricRecord" => {
                    let record = MetricRecord::decode(charged(store, &id, "MetricRecord", &mut left)?.body);
                    let items = record.map_err(|error| format!("the metrics {name:?}: {error}"))?.items;
                    let values = items.into_iter().filter_map(|item| Some((item.key, item.value?.value?.into())));
                    records.metrics.push((name, values.collect()));
                }
                b"ConfigRecord" => {
                    let record = ConfigRecord::decode(charged(store, &id, "ConfigRecord", &mut left)?.body);
                    let items = record.map_err(|error| format!("the settings {name:?}: {error}"))?.items;
                    let values = items.into_iter().filter_map(|item| Some((item.key, item.value?.value?.into())));
                    records.config.push((name, values.collect()));
                }
                _ => return Err(format!("its record {name:?} is of an unknown class")),
            }
        }
        Ok(records)
    }
}

fn deflate_arrays(arrays: &Named<Array>, deflated: &mut Deflated) -> Result<ObjectTree, serde_json::Error> {
    let (mut kids, mut names) = (Vec::new(), Ids::default());
    for (name, array) in arrays {
        let chunks: Vec<ObjectTree> =
            array.npy.chunks(CHUNK).map(|chunk| deflated.add("ArrayChunk", Vec::new(), chunk)).collect();
        // Equal chunks, such as those of a large array of zeros, are one kid.
        let mut unique: Vec<&str> = Vec::new();
        let mut places = Vec::with_capacity(chunks.len());
        for chunk in &chunks {
            let id = chunk.object_id.as_str();
            let place = unique.iter().position(|known| *known == id).unwrap_or_else(|| {
                unique.push(id);
                unique.len() - 1
            });
            places.push(place);
        }
        let body = serde_json::to_vec(&ArrayBody {
            dtype: array.dtype.clone(),
            shape: array.shape.clone(),
            stype: NUMPY.to_owned(),
            arraychunk_ids: places,
        })?;
        names.push(name, &mut kids, deflated.add("Array", chunks, &body));
    }
    Ok(deflated.add("ArrayRecord", kids, &serde_json::to_vec(&names)?))
}

/// Assembles named arrays. `left` is the remaining budget in bytes.
fn inflate_arrays(store: &Store, id: &str, left: &mut usize) -> Result<Named<Array>, String> {
    let names: Ids = json(&charged(store, id, "ArrayRecord", left)?.body)?;
    let inflate = |(name, id): (String, String)| {
        let about = |reason: String| format!("the array {name:?}: {reason}");
        let array = charged(store, &id, "Array", left).map_err(about)?;
        let body: ArrayBody = json(&array.body).map_err(about)?;
        if body.stype != NUMPY {
            return Err(about(format!("it is serialized as {:?}, but only {NUMPY} is supported", body.stype)));
        }
        if body.shape.len() > MOST_DIMENSIONS {
            return Err(about(format!("it has {} dimensions; {MOST_DIMENSIONS} are the limit", body.shape.len())));
        }
        let mut chunks = Vec::with_capacity(body.arraychunk_ids.len());
        for place in body.arraychunk_ids {
            let id = array.kids.get(place).ok_or_else(|| about(format!("it has no piece {place}")))?;
            chunks.push(open(store, id, "ArrayChunk").map_err(about)?.body);
        }
        // A piece may be referenced many times, so an array can be longer than all received data.
        let length = chunks.iter().map(Bytes::len).fold(0_usize, usize::saturating_add);
        *left = left.checked_sub(length).ok_or_else(|| about("with it the arrays are too large".to_owned()))?;
        let npy = match chunks.as_mut_slice() {
            [only] => std::mem::take(only),
            chunks => {
                let mut npy = BytesMut::with_capacity(length);
                chunks.iter().for_each(|chunk| npy.extend_from_slice(chunk));
                npy.freeze()
            }
        };
        Ok((name, Array { dtype: body.dtype, shape: body.shape, npy }))
    };
    names.0.into_iter().map(inflate).collect()
}

/// Opens an object and charges its decoded size to `left`, once per reference.
fn charged(store: &Store, id: &str, class: &str, left: &mut usize) -> Result<Parsed, String> {
    let cost = store.get(id).map_or(0, Bytes::len).saturating_mul(DECODED);
    *left = left.checked_sub(cost).ok_or("its names and values are too many")?;
    open(store, id, class)
}

fn json<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| format!("an object's body is not as Flower writes it: {error}"))
}

#[derive(Debug, Serialize, Deserialize)]
struct ArrayBody {
    dtype: String,
    shape: Vec<usize>,
    stype: String,
    arraychunk_ids: Vec<usize>,
}

/// Names with object ids, in order, since Python keeps the order of a JSON object.
#[derive(Debug, Default)]
struct Ids(Vec<(String, String)>);

impl Ids {
    fn push(&mut self, name: &str, kids: &mut Vec<ObjectTree>, tree: ObjectTree) {
        self.0.push((name.to_owned(), tree.object_id.clone()));
        kids.push(tree);
    }
}

impl Serialize for Ids {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, id)| (name, id)))
    }
}

impl<'de> Deserialize<'de> for Ids {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Ids;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("names with ids")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ids, A::Error> {
                let mut ids = Vec::new();
                let mut seen = HashSet::new();
                while let Some((name, id)) = map.next_entry::<String, String>()? {
                    if !seen.insert(name.clone()) {
                        return Err(serde::de::Error::custom("a name is there twice"));
                    }
                    ids.push((name, id));
                }
                Ok(Ids(ids))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

impl From<&MetricValue> for protocol::MetricValue {
    fn from(value: &MetricValue) -> Self {
        let value = match value.clone() {
            MetricValue::Float(value) => Metric::Double(value),
            MetricValue::Integer(value) => Metric::Sint(value),
            MetricValue::Floats(values) => Metric::Doubles(DoubleList { values }),
            MetricValue::Integers(values) => Metric::Sints(SintList { values }),
        };
        Self { value: Some(value) }
    }
}

impl From<Metric> for MetricValue {
    fn from(value: Metric) -> Self {
        match value {
            Metric::Double(value) => Self::Float(value),
            Metric::Sint(value) => Self::Integer(value),
            Metric::Uint(value) => Self::Integer(i64::try_from(value).unwrap_or(i64::MAX)),
            Metric::Doubles(DoubleList { values }) => Self::Floats(values),
            Metric::Sints(SintList { values }) => Self::Integers(values),
        }
    }
}

impl From<&ConfigValue> for protocol::ConfigValue {
    fn from(value: &ConfigValue) -> Self {
        let value = match value.clone() {
            ConfigValue::Float(value) => Config::Double(value),
            ConfigValue::Integer(value) => Config::Sint(value),
            ConfigValue::Bool(value) => Config::Bool(value),
            ConfigValue::Text(value) => Config::Text(value),
            ConfigValue::Bytes(value) => Config::Bytes(value),
        };
        Self { value: Some(value) }
    }
}

impl From<Config> for ConfigValue {
    fn from(value: Config) -> Self {
        match value {
            Config::Double(value) => Self::Float(value),
            Config::Sint(value) => Self::Integer(value),
            Config::Uint(value) => Self::Integer(i64::try_from(value).unwrap_or(i64::MAX)),
            Config::Bool(value) => Self::Bool(value),
            Config::Text(value) => Self::Text(value),
            Config::Bytes(value) => Self::Bytes(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::Object;

    fn sent(records: &Records) -> (Store, String) {
        let mut deflated = Deflated::default();
        let tree = records.deflate(&mut deflated).unwrap();
        (deflated.objects().iter().map(|object| (object.id.clone(), object.content.clone())).collect(), tree.object_id)
    }

    fn records() -> Records {
        let arrays =
            vec![("z".to_owned(), Array::from_f32(&[2], &[1.0, -2.0])), ("a".to_owned(), Array::from_f32(&[], &[3.0]))];
        let metrics = vec![
            ("num-examples".to_owned(), MetricValue::Integer(7)),
            ("loss".to_owned(), MetricValue::Float(0.5)),
            ("losses".to_owned(), MetricValue::Floats(vec![1.0, 2.0])),
            ("counts".to_owned(), MetricValue::Integers(vec![-1, 2])),
        ];
        let config = vec![
            ("server-round".to_owned(), ConfigValue::Integer(3)),
            ("lr".to_owned(), ConfigValue::Float(0.1)),
            ("name".to_owned(), ConfigValue::Text("ä".to_owned())),
            ("on".to_owned(), ConfigValue::Bool(true)),
            ("raw".to_owned(), ConfigValue::Bytes(vec![0, 255])),
        ];
        Records {
            arrays: vec![("arrays".to_owned(), arrays)],
            metrics: vec![("metrics".to_owned(), metrics)],
            config: vec![("config".to_owned(), config)],
        }
    }

    #[test]
    fn records_come_back_in_their_order() {
        let records = records();
        let (store, id) = sent(&records);
        assert_eq!(Records::inflate(&store, &id, 1 << 30).unwrap(), records);
        assert_eq!(records.setting("server-round"), Some(&ConfigValue::Integer(3)));
    }

    /// The expected ids come from `testdata/records.py` with flwr 1.41.
    #[test]
    fn numbers_and_settings_are_encoded_as_flwr_does() {
        let (store, _) = sent(&records());
        for id in include_str!("../testdata/records.ids").lines() {
            assert!(store.contains_key(id), "{id} is not among {:?}", store.values().collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_array_of_zeros_is_one_piece_many_times() {
        let values = vec![0.0; 4 * CHUNK];
        let zeros = Array::from_f32(&[values.len()], &values);
        let records =
            Records { arrays: vec![(String::new(), vec![(String::new(), zeros.clone())])], ..Records::default() };
        let (store, id) = sent(&records);
        assert!(store.len() < 8, "{}", store.len());
        assert_eq!(Records::inflate(&store, &id, 1 << 30).unwrap().arrays[0].1[0].1, zeros);
    }

    #[test]
    fn pieces_cannot_be_repeated_without_end() {
        let mut deflated = Deflated::default();
        let chunk = deflated.add("ArrayChunk", Vec::new(), &[0; 4096]);
        let places = [0; 500];
        let body = format!(r#"{{"dtype":"float32","shape":[1],"stype":"numpy.ndarray","arraychunk_ids":{places:?}}}"#);
        let array = deflated.add("Array", vec![chunk], body.as_bytes());
        let names = format!(r#"{{"w":"{}"}}"#, array.object_id);
        let record = deflated.add("ArrayRecord", vec![array], names.as_bytes());
        let object = |object: &Object| (object.id.clone(), object.content.clone());
        let store: Store = deflated.objects().iter().map(object).collect();
        let refused = inflate_arrays(&store, &record.object_id, &mut 1_000_000).unwrap_err();
        assert_eq!(refused, "the array \"w\": with it the arrays are too large");
    }

    #[test]
    fn names_and_numbers_are_charged_each_time_they_are_named() {
        let mut deflated = Deflated::default();
        let numbers = deflated.add("MetricRecord", Vec::new(), &[0; 0]);
        let arrays = deflated.add("ArrayRecord", Vec::new(), b"{}");
        let refused = |names: &str, most| {
            let mut deflated = Deflated::default();
            deflated.add("MetricRecord", Vec::new(), &[0; 0]);
            deflated.add("ArrayRecord", Vec::new(), b"{}");
            let root = deflated.add("RecordDict", Vec::new(), names.as_bytes());
            let object = |object: &Object| (object.id.clone(), object.content.clone());
            let store: Store = deflated.objects().iter().map(object).collect();
            Records::inflate(&store, &root.object_id, most).err()
        };
        for id in [numbers.object_id, arrays.object_id] {
            let names: Vec<String> = (0..100).map(|name| format!(r#""{name}":"{id}""#)).collect();
            let names = format!("{{{}}}", names.join(","));
            let alone = DECODED * (names.len() + 100);
            assert_eq!(refused(&names, alone).unwrap(), "its names and values are too many");
            assert_eq!(refused(&names, 10 * alone), None);
            let twice = refused(&format!(r#"{{"a":"{id}","a":"{id}"}}"#), 1 << 30).unwrap();
            assert!(twice.contains("a name is there twice"), "{twice}");
        }
    }
}
