//! Turns Fluent catalogues into Rust functions, one for each message. A message that lacks a translation or uses other
//! variables does not compile.
//!
//! Supported are text, variables, and choices by a number (`[1]` and a default). That suffices for three languages with
//! at most one plural form.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{Display, Write},
};

use fluent_syntax::{
    ast::{Entry, Expression, InlineExpression, Pattern, PatternElement, VariantKey},
    parser::parse,
};

use crate::catalogue;

/// Numbers that the languages may treat differently.
const NUMBERS: [u32; 4] = [0, 1, 2, 11];

enum Piece {
    Text(String),
    Variable(String),
    /// A choice by a variable: the messages for these numbers, and the default.
    Choice(String, Vec<(String, Message)>, Message),
}

type Message = Vec<Piece>;

/// The messages of one language, by name.
pub struct Catalogue {
    text: String,
    messages: BTreeMap<String, Message>,
}

impl Catalogue {
    /// Reads a catalogue.
    ///
    /// # Errors
    /// The parts that are not messages, use unsupported Fluent features, or are not what a page reads.
    pub fn read(text: String) -> Result<Self, String> {
        let resource = parse(text.as_str()).map_err(|(_, errors)| format!("{errors:?}"))?;
        let mut messages = BTreeMap::new();
        for entry in resource.body {
            let message = match entry {
                Entry::Message(message) => message,
                Entry::Comment(_) | Entry::GroupComment(_) | Entry::ResourceComment(_) => continue,
                other => return Err(format!("{other:?} is no message")),
            };
            let name = message.id.name.to_owned();
            let pattern = message.value.ok_or_else(|| format!("{name} says nothing"))?;
            let read = pieces(&pattern).map_err(|problem| format!("{name}: {problem}"))?;
            if messages.insert(name.clone(), read).is_some() {
                return Err(format!("{name} appears twice"));
            }
        }
        let written = catalogue::read(&text);
        if !written.keys().copied().eq(messages.keys()) {
            return Err("a page finds other messages in it than Fluent".to_owned());
        }
        for (message, (name, written)) in messages.values().zip(&written) {
            is_read_alike(message, written).map_err(|problem| format!("{name}: {problem}"))?;
        }
        Ok(Self { text, messages })
    }
}

/// Checks that a page fills the message as Fluent would.
fn is_read_alike(message: &Message, written: &str) -> Result<(), String> {
    let mut chosen_by = BTreeMap::new();
    variables(message, &mut chosen_by);
    let names = catalogue::variables(written);
    if names.iter().any(|name| !chosen_by.contains_key(*name)) || names.len() != chosen_by.len() {
        return Err(format!("a page finds the variables {names:?} in it"));
    }
    for number in NUMBERS {
        let value = |name: &&str| if chosen_by[*name] { number.to_string() } else { format!("<{name}>") };
        let values: Vec<(&str, String)> = names.iter().map(|name| (*name, value(name))).collect();
        let shown: Vec<&dyn Display> = values.iter().map(|(_, value)| value as &dyn Display).collect();
        let (ours, fluents) = (catalogue::fill(written, &names, &shown), said(message, &values));
        if ours != fluents {
            return Err(format!("a page reads {ours:?}, and Fluent {fluents:?}"));
        }
    }
    Ok(())
}

/// The message with these values, as Fluent defines it.
fn said(message: &Message, values: &[(&str, String)]) -> String {
    let value = |name: &str| values.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value.as_str());
    let piece = |piece: &Piece| match piece {
        Piece::Text(text) => text.clone(),
        Piece::Variable(name) => value(name).to_owned(),
        Piece::Choice(name, numbers, others) => {
            let chosen = numbers.iter().find(|(number, _)| number == value(name));
            said(chosen.map_or(others, |(_, message)| message), values)
        }
    };
    message.iter().map(piece).collect()
}

fn pieces(pattern: &Pattern<&str>) -> Result<Message, String> {
    let piece = |element: &PatternElement<&str>| match element {
        PatternElement::TextElement { value } => Ok(Piece::Text((*value).to_owned())),
        PatternElement::Placeable { expression } => match expression {
            Expression::Inline(inline) => Ok(Piece::Variable(variable(inline)?)),
            Expression::Select { selector, variants } => {
                let (mut numbers, mut others) = (Vec::new(), None);
                for variant in variants {
                    let said = pieces(&variant.value)?;
                    match variant.key {
                        _ if variant.default => others = Some(said),
                        VariantKey::NumberLiteral { value } => numbers.push((value.to_owned(), said)),
                        VariantKey::Identifier { name } => return Err(format!("[{name}] is no number")),
                    }
                }
                Ok(Piece::Choice(variable(selector)?, numbers, others.ok_or("a choice needs a default")?))
            }
        },
    };
    pattern.elements.iter().map(piece).collect()
}

fn variable(expression: &InlineExpression<&str>) -> Result<String, String> {
    match expression {
        InlineExpression::VariableReference { id } => Ok(id.name.to_owned()),
        other => Err(format!("{other:?} is no variable")),
    }
}

/// Collects the variables of a message, each with whether the message chooses by it.
fn variables(message: &Message, found: &mut BTreeMap<String, bool>) {
    for piece in message {
        match piece {
            Piece::Text(_) => {}
            Piece::Variable(name) => {
                found.entry(name.clone()).or_default();
            }
            Piece::Choice(name, numbers, others) => {
                found.insert(name.clone(), true);
                numbers.iter().map(|(_, said)| said).chain([others]).for_each(|said| variables(said, found));
            }
        }
    }
}

/// Generates the functions, in a module for the first word of each message's name.
///
/// # Errors
/// The differences between the catalogues, of which the first is the English one.
pub fn code(all: &[(&str, Catalogue)]) -> Result<String, String> {
    let names: BTreeSet<&String> = all.iter().flat_map(|(_, catalogue)| catalogue.messages.keys()).collect();
    let english = all.first().map(|(_, english)| catalogue::read(&english.text)).unwrap_or_default();
    let mut modules: BTreeMap<&str, String> = BTreeMap::new();
    let (mut problems, mut functions) = (Vec::new(), Vec::new());
    for (number, name) in names.into_iter().enumerate() {
        let Some((module, function)) = name.split_once('-') else {
            problems.push(format!("{name} has no module"));
            continue;
        };
        let function = function.replace('-', "_");
        let mut translations = Vec::new();
        for (path, catalogue) in all {
            match catalogue.messages.get(name) {
                Some(message) => translations.push((*path, message)),
                None => problems.push(format!("{name} is missing in {path}")),
            }
        }
        let mut parameters = BTreeMap::new();
        for (_, message) in &translations {
            variables(message, &mut parameters);
        }
        for (path, message) in &translations {
            let mut own = BTreeMap::new();
            variables(message, &mut own);
            if !own.keys().eq(parameters.keys()) {
                problems.push(format!("{name} has not all of its variables in {path}"));
            }
        }
        let code = modules.entry(module).or_default();
        let english = english.get(name.as_str()).map_or("", String::as_str);
        function_code(code, &function, number, english, &parameters).map_err(|error| error.to_string())?;
        functions.push(format!("{module}::{function}"));
    }
    if !problems.is_empty() {
        return Err(format!("the catalogues in crates/words do not agree:\n{}", problems.join("\n")));
    }
    let mut text = String::new();
    let mut add = |part: String| writeln!(text, "{part}").map_err(|error| error.to_string());
    add(format!("pub const IDENTITY: u64 = {};", catalogue::identity(&english)))?;
    for (module, functions) in modules {
        add(format!("pub mod {module} {{\n{functions}}}"))?;
    }
    add(format!("#[cfg(test)]\npub const FUNCTIONS: &[&str] = &{functions:?};"))?;
    Ok(text)
}

fn function_code(
    code: &mut String,
    function: &str,
    number: usize,
    english: &str,
    parameters: &BTreeMap<String, bool>,
) -> std::fmt::Result {
    let names = catalogue::variables(english);
    if names.is_empty() {
        return writeln!(
            code,
            "    pub fn {function}() -> &'static str {{\n        crate::language::message({number}, {english:?})\n    }}"
        );
    }
    let (mut list, mut values) = (Vec::new(), Vec::new());
    for name in names {
        let kind = if parameters.get(name) == Some(&true) { "u32" } else { "impl std::fmt::Display" };
        let name = name.replace('-', "_");
        list.push(format!("{name}: {kind}"));
        values.push(format!("&{name}"));
    }
    let (list, values) = (list.join(", "), values.join(", "));
    writeln!(code, "    pub fn {function}({list}) -> String {{")?;
    writeln!(code, "        crate::language::filled({number}, {english:?}, &[{values}])\n    }}")
}
