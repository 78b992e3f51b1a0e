//! Flower's object store. Messages are cut into objects, which are named by their SHA-256.
//!
//! An object is `"CLASS KIDS LENGTH\0BODY"`. KIDS are the comma-separated ids of its child objects, LENGTH is the
//! length of the body in bytes.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::protocol::ObjectTree;

/// Maximum bytes of an array's file in one object.
pub(crate) const CHUNK: usize = 5 << 20;

/// Size limits of one message from the SuperLink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum bytes of all its objects.
    pub bytes: usize,
    /// Maximum number of its objects.
    pub objects: usize,
}

impl Default for Limits {
    /// 1 GiB, ten times the size of 22 million `f32` parameters, in 20,000 objects; a ViT needs about 300.
    fn default() -> Self {
        Self { bytes: 1 << 30, objects: 20_000 }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Object {
    pub(crate) id: String,
    pub(crate) content: Bytes,
}

impl Object {
    fn new(class: &str, kids: &[&str], body: &[u8]) -> Self {
        let head = format!("{class} {} {}\0", kids.join(","), body.len());
        let content = Bytes::from([head.as_bytes(), body].concat());
        Self { id: id_of(&content), content }
    }
}

pub(crate) fn id_of(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The distinct objects of a message to be sent.
#[derive(Debug, Default)]
pub(crate) struct Deflated {
    objects: Vec<Object>,
    known: HashSet<String>,
}

impl Deflated {
    /// Adds an object of this class and returns its tree. Equal kids are merged.
    pub(crate) fn add(&mut self, class: &str, kids: Vec<ObjectTree>, body: &[u8]) -> ObjectTree {
        let mut seen = HashSet::new();
        let kids: Vec<ObjectTree> = kids.into_iter().filter(|kid| seen.insert(kid.object_id.clone())).collect();
        let ids: Vec<&str> = kids.iter().map(|kid| kid.object_id.as_str()).collect();
        let object = Object::new(class, &ids, body);
        let tree = ObjectTree { object_id: object.id.clone(), children: kids };
        if self.known.insert(object.id.clone()) {
            self.objects.push(object);
        }
        tree
    }

    pub(crate) fn objects(&self) -> &[Object] {
        &self.objects
    }
}

/// Returns the distinct ids in a tree.
///
/// # Errors
/// Fails if the tree is too large or contains an invalid id.
pub(crate) fn ids(tree: &ObjectTree, limits: Limits) -> Result<Vec<String>, String> {
    let mut seen = HashSet::new();
    let mut ids = Vec::new();
    let mut open = vec![tree];
    let mut nodes = 0;
    while let Some(tree) = open.pop() {
        nodes += 1;
        if nodes > limits.objects {
            return Err(format!("it is made of more than {} objects", limits.objects));
        }
        if !is_id(&tree.object_id) {
            return Err("it names an object by something that is not a SHA-256".to_owned());
        }
        if seen.insert(tree.object_id.as_str()) {
            ids.push(tree.object_id.clone());
        }
        open.extend(&tree.children);
    }
    Ok(ids)
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Parsed {
    pub(crate) class: String,
    pub(crate) kids: Vec<String>,
    pub(crate) body: Bytes,
}

impl Parsed {
    /// Parses an object.
    ///
    /// # Errors
    /// Fails if the object is malformed.
    pub(crate) fn new(content: &Bytes) -> Result<Self, String> {
        let end = content.iter().position(|byte| *byte == 0).ok_or("an object has no head")?;
        let head =
            std::str::from_utf8(&content[..end]).map_err(|error| format!("an object's head is not text: {error}"))?;
        let body = content.slice(end + 1..);
        let words: Vec<&str> = head.split(' ').collect();
        let [class, kids, length] = words.as_slice() else {
            return Err(format!("an object's head has {} words instead of 3", words.len()));
        };
        if length.parse() != Ok(body.len()) {
            return Err(format!("an object claims {length} bytes but has {}", body.len()));
        }
        let kids: Vec<String> = kids.split(',').filter(|kid| !kid.is_empty()).map(str::to_owned).collect();
        Ok(Self { class: (*class).to_owned(), kids, body })
    }
}

pub(crate) type Store = HashMap<String, Bytes>;

/// Parses the object with this id.
///
/// # Errors
/// Fails if the object is missing or of another class.
pub(crate) fn open(store: &Store, id: &str, class: &str) -> Result<Parsed, String> {
    let content = store.get(id).ok_or_else(|| format!("it refers to an object that its tree lacks, {id:?}"))?;
    let parsed = Parsed::new(content)?;
    if parsed.class != class {
        return Err(format!("an object is of class {:?} instead of {class}", parsed.class));
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Expected values from flwr 1.41: `ArrayChunk(memoryview(b"abc")).deflate()` and its `object_id`.
    #[test]
    fn objects_are_those_of_flwr() {
        let object = Object::new("ArrayChunk", &[], b"abc");
        assert_eq!(object.content, b"ArrayChunk  3\0abc".as_slice());
        assert_eq!(object.id, include_str!("../testdata/chunk.id").trim());
        let parent = Object::new("Array", &["aa", "bb"], b"{}");
        assert_eq!(parent.content, b"Array aa,bb 2\0{}".as_slice());
    }

    #[test]
    fn equal_objects_travel_once() {
        let mut deflated = Deflated::default();
        let chunks = vec![deflated.add("ArrayChunk", Vec::new(), b"0"), deflated.add("ArrayChunk", Vec::new(), b"0")];
        let tree = deflated.add("Array", chunks, b"{}");
        assert_eq!((deflated.objects().len(), tree.children.len()), (2, 1));
        assert_eq!(ids(&tree, Limits::default()).unwrap().len(), 2);
    }

    #[test]
    fn trees_are_bounded() {
        let leaf = ObjectTree { object_id: id_of(b"leaf"), children: Vec::new() };
        let tree = ObjectTree { object_id: id_of(b"root"), children: vec![leaf; 10] };
        let limits = Limits { objects: 10, ..Limits::default() };
        assert_eq!(ids(&tree, limits).unwrap_err(), "it is made of more than 10 objects");
        let odd = ObjectTree { object_id: "../../etc".to_owned(), children: Vec::new() };
        assert!(ids(&odd, limits).unwrap_err().contains("not a SHA-256"));
    }

    proptest! {
        #[test]
        fn any_body_comes_back(body: Vec<u8>) {
            let object = Object::new("ArrayChunk", &["k"], &body);
            let parsed = Parsed::new(&object.content).unwrap();
            prop_assert_eq!((parsed.class.as_str(), &parsed.body[..]), ("ArrayChunk", &body[..]));
            prop_assert_eq!(parsed.kids, ["k"]);
        }

        #[test]
        fn any_bytes_are_an_object_or_an_error(bytes: Vec<u8>) {
            let _ = Parsed::new(&Bytes::from(bytes));
        }
    }
}
