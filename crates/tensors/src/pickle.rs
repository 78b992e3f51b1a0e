//! Reads state dicts from `torch.save` without running their code.
//!
//! A pickle is a program for a stack machine. Its main danger is one instruction that calls any function by name. This
//! machine runs no function at all: it knows the few names from which tensors are built, and takes a call of any other
//! name for data that it does not understand, such as a `Namespace` or a `torch.Size` beside the tensors. If there are
//! no tensors, the error shows the first such name. All objects are in one arena, so that deep nesting cannot overflow
//! the stack on drop. Each instruction creates at most one object.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use safetensors::Dtype;

use super::{
    Role,
    index::{MOST_DIMENSIONS, MOST_TENSORS},
};

/// The names that a state dict of tensors needs.
const NAMES: [(&str, Global); 16] = [
    ("collections.OrderedDict", Global::Dict),
    ("collections.defaultdict", Global::Dict),
    ("torch._utils._rebuild_parameter_with_state", Global::Parameter),
    ("torch._tensor._rebuild_from_type_v2", Global::Subclass),
    ("torch._utils._rebuild_tensor_v2", Global::Tensor),
    ("torch._utils._rebuild_parameter", Global::Parameter),
    ("torch.DoubleStorage", Global::Storage(Dtype::F64)),
    ("torch.FloatStorage", Global::Storage(Dtype::F32)),
    ("torch.HalfStorage", Global::Storage(Dtype::F16)),
    ("torch.BFloat16Storage", Global::Storage(Dtype::BF16)),
    ("torch.LongStorage", Global::Storage(Dtype::I64)),
    ("torch.IntStorage", Global::Storage(Dtype::I32)),
    ("torch.ShortStorage", Global::Storage(Dtype::I16)),
    ("torch.CharStorage", Global::Storage(Dtype::I8)),
    ("torch.ByteStorage", Global::Storage(Dtype::U8)),
    ("torch.BoolStorage", Global::Storage(Dtype::BOOL)),
];

/// Longest name of a tensor or storage, in bytes.
const LONGEST: usize = 512;
/// Longest name shown in an error.
const SHOWN: usize = 80;
/// Most names shown in an error.
const MOST_SHOWN: usize = 8;
/// Most items of lists that dicts are made of.
const MOST_COPIED: usize = 1_000_000;
/// How deeply the dict of tensors may be nested.
const DEEPEST: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Global {
    /// An ordered dict, or one with default values.
    Dict,
    Tensor,
    Parameter,
    /// A tensor of a subclass, which is rebuilt by one of these functions.
    Subclass,
    Storage(Dtype),
}

#[derive(Debug, Clone, Copy)]
enum Value {
    None,
    Int(i64),
    /// A number, a boolean or any object that tensors do not need.
    Plain,
    Text(usize),
    /// Tuple, list, dict, storage or tensor, by its index in the arena.
    Object(usize),
    Global(Global),
    Mark,
}

#[derive(Debug)]
enum Object {
    Tuple(Vec<Value>),
    List(Vec<Value>),
    Dict(Vec<(Value, Value)>),
    Storage { key: String, dtype: Dtype },
    Tensor(SavedTensor),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct SavedTensor {
    /// Name of its storage in the archive.
    pub(super) storage: String,
    pub(super) dtype: Dtype,
    /// In values, from the start of the storage.
    pub(super) offset: usize,
    pub(super) shape: Vec<usize>,
    pub(super) strides: Vec<usize>,
}

/// The tensors that a program saves.
#[derive(Debug)]
pub(super) struct Saved {
    /// In order. Tensors of a list have their positions as names.
    pub(super) tensors: Vec<(String, SavedTensor)>,
    /// Which of several sets they are, in a sentence.
    pub(super) note: Option<String>,
}

/// Returns the tensors in `program`: of a dict, of a list, or of the one within a dict that is for `role`.
///
/// # Errors
/// The program is cut short, is no plain pickle, or saves no tensors.
pub(super) fn saved(program: &[u8], role: Role) -> Result<Saved, String> {
    let mut machine = Machine::default();
    let saved = machine.run(program)?;
    machine.tensors(saved, role, DEEPEST, &mut Seen::default()).map_err(|reason| match &machine.unknown {
        Some(name) => format!(
            "it asks to run {name:?}, but code from files is never run; save a dict of plain tensors: torch.save(model.\
             state_dict(), ...), or {{name: p.grad for name, p in model.named_parameters()}}"
        ),
        None => reason,
    })
}

#[derive(Debug, Default)]
struct Machine {
    stack: Vec<Value>,
    memo: HashMap<u32, Value>,
    texts: Vec<String>,
    arena: Vec<Object>,
    /// The first name of a function or class that is not known.
    unknown: Option<String>,
    /// Items that were read to copy one object to another.
    copied: usize,
}

/// What a search for tensors has seen.
#[derive(Debug, Default)]
struct Seen {
    objects: HashSet<usize>,
    tensors: usize,
}

/// The remaining program.
struct Code<'a>(&'a [u8]);

impl<'a> Code<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or("it ends in the middle of an instruction")?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }

    fn byte(&mut self) -> Result<u8, String> {
        Ok(self.array::<1>()?[0])
    }

    fn length(&mut self) -> Result<usize, String> {
        usize::try_from(u32::from_le_bytes(self.array()?)).map_err(|error| error.to_string())
    }

    fn line(&mut self) -> Result<String, String> {
        let end = self.0.iter().position(|&byte| byte == b'\n').ok_or("it ends in the middle of a name")?;
        let line = text(self.bytes(end)?);
        self.bytes(1)?;
        line
    }
}

fn text(bytes: &[u8]) -> Result<String, String> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|error| format!("a string in it is not UTF-8: {error}"))
}

impl Machine {
    fn run(&mut self, program: &[u8]) -> Result<Value, String> {
        let mut code = Code(program);
        loop {
            match code.byte()? {
                0x80 => match code.byte()? {
                    2..=5 => {}
                    version => return Err(format!("it is a pickle of protocol {version}; 2 to 5 are read")),
                },
                // FRAME: the length is not needed.
                0x95 => drop(code.array::<8>()?),
                b'.' => return self.pop(),
                b'(' => self.stack.push(Value::Mark),
                b'N' => self.stack.push(Value::None),
                0x88 | 0x89 => self.stack.push(Value::Plain),
                b'J' => {
                    let number = i32::from_le_bytes(code.array()?);
                    self.stack.push(Value::Int(number.into()));
                }
                b'K' => {
                    let number = code.byte()?;
                    self.stack.push(Value::Int(number.into()));
                }
                b'M' => {
                    let number = u16::from_le_bytes(code.array()?);
                    self.stack.push(Value::Int(number.into()));
                }
                0x8a => {
                    let length = code.byte()?.into();
                    let long = long(code.bytes(length)?);
                    self.stack.push(long.map_or(Value::Plain, Value::Int));
                }
                b'G' => {
                    code.array::<8>()?;
                    self.stack.push(Value::Plain);
                }
                b'X' => {
                    let length = code.length()?;
                    self.say(text(code.bytes(length)?)?);
                }
                0x8c => {
                    let length = code.byte()?.into();
                    self.say(text(code.bytes(length)?)?);
                }
                b'c' => {
                    let (module, name) = (code.line()?, code.line()?);
                    self.global(known(&module, &name));
                }
                0x93 => {
                    let (name, module) = (self.pop()?, self.pop()?);
                    let known = known(self.text(module)?, self.text(name)?);
                    self.global(known);
                }
                b'q' => {
                    let place = code.byte()?.into();
                    self.remember(place)?;
                }
                b'r' => {
                    let place = u32::from_le_bytes(code.array()?);
                    self.remember(place)?;
                }
                0x94 => {
                    let place = u32::try_from(self.memo.len()).map_err(|error| error.to_string())?;
                    self.remember(place)?;
                }
                b'h' => {
                    let place = code.byte()?.into();
                    self.recall(place)?;
                }
                b'j' => {
                    let place = u32::from_le_bytes(code.array()?);
                    self.recall(place)?;
                }
                b')' => self.make(Object::Tuple(Vec::new())),
                count @ 0x85..=0x87 => {
                    let items = self.top(usize::from(count - 0x84))?;
                    self.make(Object::Tuple(items));
                }
                b't' => {
                    let items = self.above_mark()?;
                    self.make(Object::Tuple(items));
                }
                b'}' => self.make(Object::Dict(Vec::new())),
                b']' => self.make(Object::List(Vec::new())),
                b's' => {
                    let items = self.top(2)?;
                    self.set(items)?;
                }
                b'u' => {
                    let items = self.above_mark()?;
                    self.set(items)?;
                }
                b'a' => {
                    let items = self.top(1)?;
                    self.append(items)?;
                }
                b'e' => {
                    let items = self.above_mark()?;
                    self.append(items)?;
                }
                b'Q' => {
                    let id = self.pop()?;
                    self.storage(id)?;
                }
                // A call, and a new object of a class.
                b'R' | 0x81 => {
                    let (arguments, function) = (self.pop()?, self.pop()?);
                    self.call(function, arguments)?;
                }
                0x92 => {
                    let (_, arguments, class) = (self.pop()?, self.pop()?, self.pop()?);
                    self.call(class, arguments)?;
                }
                // Attributes of an object, such as an OrderedDict's `_metadata`.
                b'b' => drop((self.pop()?, self.last()?)),
                b'0' => drop(self.pop()?),
                b'1' => drop(self.above_mark()?),
                b'2' => {
                    let last = self.last()?;
                    self.stack.push(last);
                }
                // Sets.
                0x8f => self.stack.push(Value::Plain),
                0x90 => drop((self.above_mark()?, self.last()?)),
                0x91 => {
                    self.above_mark()?;
                    self.stack.push(Value::Plain);
                }
                // Bytes, strings of bytes, and long numbers.
                b'B' | b'T' | 0x8b => {
                    let length = code.length()?;
                    code.bytes(length)?;
                    self.stack.push(Value::Plain);
                }
                b'C' | b'U' => {
                    let length = code.byte()?.into();
                    code.bytes(length)?;
                    self.stack.push(Value::Plain);
                }
                other => {
                    return Err(format!(
                        "its pickle has the instruction {other:#04x} ({:?}), which no state dict of tensors needs",
                        char::from(other)
                    ));
                }
            }
        }
    }

    fn pop(&mut self) -> Result<Value, String> {
        self.stack.pop().ok_or_else(|| "its pickle takes from an empty stack".to_owned())
    }

    fn last(&self) -> Result<Value, String> {
        self.stack.last().copied().ok_or_else(|| "its pickle looks at an empty stack".to_owned())
    }

    /// Pops the topmost values; the topmost comes last.
    fn top(&mut self, count: usize) -> Result<Vec<Value>, String> {
        let start = self.stack.len().checked_sub(count).ok_or("its pickle takes from an empty stack")?;
        Ok(self.stack.split_off(start))
    }

    fn above_mark(&mut self) -> Result<Vec<Value>, String> {
        let mark =
            self.stack.iter().rposition(|value| matches!(value, Value::Mark)).ok_or("its pickle lacks a mark")?;
        let items = self.stack.split_off(mark + 1);
        self.stack.pop();
        Ok(items)
    }

    fn make(&mut self, object: Object) {
        self.arena.push(object);
        self.stack.push(Value::Object(self.arena.len() - 1));
    }

    fn say(&mut self, text: String) {
        self.texts.push(text);
        self.stack.push(Value::Text(self.texts.len() - 1));
    }

    fn remember(&mut self, place: u32) -> Result<(), String> {
        let value = self.last()?;
        self.memo.insert(place, value);
        Ok(())
    }

    fn recall(&mut self, place: u32) -> Result<(), String> {
        let value =
            self.memo.get(&place).ok_or_else(|| format!("its pickle recalls {place}, which it never stored"))?;
        self.stack.push(*value);
        Ok(())
    }

    fn text(&self, value: Value) -> Result<&str, String> {
        match value {
            Value::Text(place) => self.texts.get(place).map(String::as_str),
            _ => None,
        }
        .ok_or_else(|| "its pickle has something else where a string belongs".to_owned())
    }

    fn tuple(&self, value: Value) -> Result<&[Value], String> {
        if let Value::Object(place) = value
            && let Some(Object::Tuple(items)) = self.arena.get(place)
        {
            return Ok(items);
        }
        Err("its pickle has something else where a tuple belongs".to_owned())
    }

    fn sizes(&self, value: Value) -> Result<Vec<usize>, String> {
        let size = |value: &Value| match value {
            Value::Int(number) => usize::try_from(*number).map_err(|_| format!("a tensor in it has the size {number}")),
            _ => Err("a tensor in it has a size that is not a number".to_owned()),
        };
        let sizes = self.tuple(value)?;
        if sizes.len() > MOST_DIMENSIONS {
            return Err(format!("a tensor in it has {} dimensions", sizes.len()));
        }
        sizes.iter().map(size).collect()
    }

    /// Pushes a function or class, or notes the name of one that is not known.
    fn global(&mut self, known: Result<Global, String>) {
        self.stack.push(match known {
            Ok(global) => Value::Global(global),
            Err(name) => {
                self.unknown.get_or_insert(name);
                Value::Plain
            }
        });
    }

    /// Sets alternating keys and values on the dict below.
    fn set(&mut self, items: Vec<Value>) -> Result<(), String> {
        let (pairs, rest) = items.as_chunks::<2>();
        if let Value::Object(place) = self.last()?
            && let Some(Object::Dict(dict)) = self.arena.get_mut(place)
            && rest.is_empty()
        {
            dict.extend(pairs.iter().map(|[key, value]| (*key, *value)));
            return Ok(());
        }
        if matches!(self.last()?, Value::Plain) {
            return Ok(());
        }
        Err("it sets an item of something that is not a dict, or a key without a value".to_owned())
    }

    fn append(&mut self, items: Vec<Value>) -> Result<(), String> {
        if let Value::Object(place) = self.last()?
            && let Some(Object::List(list)) = self.arena.get_mut(place)
        {
            list.extend(items);
            return Ok(());
        }
        if matches!(self.last()?, Value::Plain) {
            return Ok(());
        }
        Err("it appends to something that is not a list".to_owned())
    }

    /// `('storage', torch.FloatStorage, key, device, number of values)`
    fn storage(&mut self, id: Value) -> Result<(), String> {
        let &[word, Value::Global(Global::Storage(dtype)), key, _, _] = self.tuple(id)? else {
            return Err("it refers to something that is not a tensor's storage".to_owned());
        };
        if self.text(word)? != "storage" {
            return Err("it refers to something that is not a tensor's storage".to_owned());
        }
        let key = self.text(key)?;
        if key.len() > LONGEST {
            return Err(format!("it names a storage in {} bytes", key.len()));
        }
        let key = key.to_owned();
        self.make(Object::Storage { key, dtype });
        Ok(())
    }

    fn call(&mut self, function: Value, arguments: Value) -> Result<(), String> {
        let arguments = self.tuple(arguments)?;
        match (function, arguments) {
            (Value::Plain, _) => self.stack.push(Value::Plain),
            (Value::Global(Global::Dict), &[Value::Object(items)]) => {
                // Those that are no pairs also take time.
                self.copied += self.items(items).len();
                if self.copied > MOST_COPIED {
                    return Err("it copies its lists over and over".to_owned());
                }
                self.make(Object::Dict(self.pairs(items)));
            }
            (Value::Global(Global::Dict), _) => self.make(Object::Dict(Vec::new())),
            (Value::Global(Global::Subclass), &[function @ Value::Global(Global::Tensor), _, arguments, ..]) => {
                self.call(function, arguments)?;
            }
            (Value::Global(Global::Tensor), &[Value::Object(storage), Value::Int(offset), shape, strides, ..]) => {
                let Some(Object::Storage { key, dtype }) = self.arena.get(storage) else {
                    return Err("a tensor in it has no storage".to_owned());
                };
                let offset = usize::try_from(offset).map_err(|_| format!("a tensor in it begins at {offset}"))?;
                let (storage, dtype) = (key.clone(), *dtype);
                let (shape, strides) = (self.sizes(shape)?, self.sizes(strides)?);
                self.make(Object::Tensor(SavedTensor { storage, dtype, offset, shape, strides }));
            }
            (Value::Global(Global::Parameter), &[tensor, ..]) => self.stack.push(tensor),
            _ => return Err("it calls a function that tensors do not need".to_owned()),
        }
        Ok(())
    }

    fn items(&self, list: usize) -> &[Value] {
        match self.arena.get(list) {
            Some(Object::List(items) | Object::Tuple(items)) => items,
            _ => &[],
        }
    }

    /// The pairs of a list of pairs.
    fn pairs(&self, list: usize) -> Vec<(Value, Value)> {
        let pair = |item: &Value| match self.tuple(*item) {
            Ok(&[key, value]) => Some((key, value)),
            _ => None,
        };
        self.items(list).iter().filter_map(pair).collect()
    }

    /// Returns the tensors of the dict or list `saved`, or of the one inside it that is for `role`. Visits each object
    /// once, even if it is nested several times.
    fn tensors(&self, saved: Value, role: Role, depth: usize, seen: &mut Seen) -> Result<Saved, String> {
        let Value::Object(place) = saved else { return Err(NO_TENSORS.to_owned()) };
        if !seen.objects.insert(place) {
            return Err(NO_TENSORS.to_owned());
        }
        let named: Vec<(Cow<'_, str>, Value)> = match self.arena.get(place) {
            Some(Object::Dict(dict)) => {
                let named = |&(key, value): &(Value, Value)| Some((self.key(key)?, value));
                dict.iter().filter_map(named).collect()
            }
            Some(Object::List(items) | Object::Tuple(items)) => {
                items.iter().enumerate().map(|(position, item)| (Cow::Owned(position.to_string()), *item)).collect()
            }
            Some(Object::Tensor(_)) => return Err(format!("it is a single tensor; {NAMED}")),
            _ => return Err(NO_TENSORS.to_owned()),
        };
        let mut tensors = Vec::new();
        for (name, value) in &named {
            let &Value::Object(place) = value else { continue };
            let Some(Object::Tensor(tensor)) = self.arena.get(place) else { continue };
            if name.len() > LONGEST || seen.tensors == MOST_TENSORS {
                return Err(format!(
                    "it holds more than {MOST_TENSORS} tensors, or names of more than {LONGEST} bytes"
                ));
            }
            seen.tensors += 1;
            tensors.push((name.to_string(), tensor.clone()));
        }
        let is_preferred = |name: &str| preferred(role).contains(&name);
        // Beside a set with a telling name, single tensors are labels and the like.
        let has_set = named.iter().any(|(name, value)| is_preferred(name) && self.is_set(*value));
        if !tensors.is_empty() && !has_set {
            return Ok(Saved { tensors, note: None });
        }
        let mut inner = Vec::new();
        for (name, value) in named.into_iter().filter(|_| depth > 0) {
            // An optimiser's state also has tensors, but not under a model's names.
            if let Ok(saved) = self.tensors(value, role, depth - 1, seen) {
                inner.push((name, saved));
            }
        }
        let place = preferred(role).iter().find_map(|wanted| inner.iter().position(|(name, _)| name == wanted));
        let names = || shown(inner.iter().map(|(name, _)| &**name));
        match (inner.len(), place) {
            (0, _) => Err(NO_TENSORS.to_owned()),
            (1, _) => Ok(inner.swap_remove(0).1),
            (_, Some(place)) => {
                let note = format!("It holds the sets of tensors {}; {} was read.", names(), inner[place].0);
                Ok(Saved { note: Some(note), ..inner.swap_remove(place).1 })
            }
            _ => Err(format!("it holds several sets of tensors, {}; save one of them", names())),
        }
    }

    fn is_set(&self, value: Value) -> bool {
        let Value::Object(place) = value else { return false };
        matches!(self.arena.get(place), Some(Object::Dict(_) | Object::List(_) | Object::Tuple(_)))
    }

    /// A key of a dict as text. An optimiser numbers its tensors.
    fn key(&self, key: Value) -> Option<Cow<'_, str>> {
        match key {
            Value::Text(place) => self.texts.get(place).map(|text| Cow::Borrowed(text.as_str())),
            Value::Int(number) => Some(Cow::Owned(number.to_string())),
            _ => None,
        }
    }
}

/// Names of sets of tensors in a checkpoint, the best one first.
fn preferred(role: Role) -> &'static [&'static str] {
    match role {
        Role::Gradients => &["gradients", "gradient", "grads", "grad", "update", "delta", "state_dict", "model"],
        Role::Weights => {
            &["state_dict", "model_state_dict", "model", "weights", "params", "parameters", "net", "model_state"]
        }
        Role::Any => &["state_dict", "model", "model_state_dict", "gradients", "grads"],
    }
}

const NO_TENSORS: &str = "it holds no dict and no list of tensors; save {name: tensor}, as model.state_dict() is";
const NAMED: &str = "save a dict with the tensors' names: {name: p.grad for name, p in model.named_parameters()}";

/// The function or class of this name, or the beginning of its name. Copies no more of it, because a program can repeat
/// a long one.
fn known(module: &str, name: &str) -> Result<Global, String> {
    let is_named = |known: &str| known.strip_prefix(module).and_then(|rest| rest.strip_prefix('.')) == Some(name);
    match NAMES.into_iter().find(|(known, _)| is_named(known)) {
        Some((_, global)) => Ok(global),
        None => Err([module, ".", name].into_iter().flat_map(str::chars).take(SHOWN).collect()),
    }
}

/// The first names, shortened. Many sets can share one long name.
fn shown<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = names.len().saturating_sub(MOST_SHOWN);
    let first: Vec<String> = names.take(MOST_SHOWN).map(|name| name.chars().take(SHOWN).collect()).collect();
    let first = first.join(", ");
    if more > 0 { format!("{first} and {more} more") } else { first }
}

/// Parses a little-endian two's complement number, if it fits.
fn long(bytes: &[u8]) -> Option<i64> {
    let mut number = match bytes.last() {
        Some(high) if high & 0x80 != 0 => [0xff; 8],
        _ => [0; 8],
    };
    number.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(i64::from_le_bytes(number))
}
