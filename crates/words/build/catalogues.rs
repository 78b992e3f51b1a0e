//! Turns Fluent catalogues into Rust functions, one for each message. The page parses nothing, and a message that lacks
//! a translation or uses other variables does not compile.
//!
//! Supported are text, variables, and choices by a number (`[1]` and a default). That suffices for three languages with
//! at most one plural form.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use fluent_syntax::{
    ast::{Entry, Expression, InlineExpression, Pattern, PatternElement, VariantKey},
    parser::parse,
};

enum Piece {
    Text(String),
    Variable(String),
    /// A choice by a variable: the messages for these numbers, and the default.
    Choice(String, Vec<(String, Message)>, Message),
}

type Message = Vec<Piece>;

/// The messages of one language, by name.
pub struct Catalogue {
    messages: BTreeMap<String, Message>,
}

impl Catalogue {
    /// Reads a catalogue.
    ///
    /// # Errors
    /// The parts that are not messages or use unsupported Fluent features.
    pub fn read(text: &str) -> Result<Self, String> {
        let resource = parse(text).map_err(|(_, errors)| format!("{errors:?}"))?;
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
                return Err(format!("{name} stands there twice"));
            }
        }
        Ok(Self { messages })
    }
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
        InlineExpression::VariableReference { id } => Ok(id.name.replace('-', "_")),
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
/// The differences between the catalogues.
pub fn code(all: &[(&str, Catalogue)]) -> Result<String, String> {
    let names: BTreeSet<&String> = all.iter().flat_map(|(_, catalogue)| catalogue.messages.keys()).collect();
    let mut modules: BTreeMap<&str, String> = BTreeMap::new();
    let (mut problems, mut functions) = (Vec::new(), Vec::new());
    for name in names {
        let Some((module, function)) = name.split_once('-') else {
            problems.push(format!("{name} has no module"));
            continue;
        };
        let function = function.replace('-', "_");
        let mut translations = Vec::new();
        for (tag, catalogue) in all {
            match catalogue.messages.get(name) {
                Some(message) => translations.push((*tag, message)),
                None => problems.push(format!("{name} is missing in {tag}.ftl")),
            }
        }
        let mut parameters = BTreeMap::new();
        for (_, message) in &translations {
            variables(message, &mut parameters);
        }
        for (tag, message) in &translations {
            let mut own = BTreeMap::new();
            variables(message, &mut own);
            if !own.keys().eq(parameters.keys()) {
                problems.push(format!("{name} has not all of its variables in {tag}.ftl"));
            }
        }
        let order = order(translations.first().map(|(_, message)| *message));
        let messages: Vec<&Message> = translations.iter().map(|(_, message)| *message).collect();
        let code = modules.entry(module).or_default();
        function_code(code, &function, &messages, &order, &parameters).map_err(|error| error.to_string())?;
        functions.push(format!("{module}::{function}"));
    }
    if !problems.is_empty() {
        return Err(format!("the catalogues in crates/words/catalogues do not agree:\n{}", problems.join("\n")));
    }
    let mut text = String::new();
    for (module, functions) in modules {
        writeln!(text, "pub mod {module} {{\n    use crate::Language;\n{functions}}}")
            .map_err(|error| error.to_string())?;
    }
    writeln!(text, "#[cfg(test)]\npub const FUNCTIONS: &[&str] = &{functions:?};")
        .map_err(|error| error.to_string())?;
    Ok(text)
}

/// The variables in order of appearance in the English message, which is the order of the parameters.
fn order(message: Option<&Message>) -> Vec<String> {
    fn add(message: &Message, names: &mut Vec<String>) {
        for piece in message {
            match piece {
                Piece::Text(_) => {}
                Piece::Variable(name) if names.contains(name) => {}
                Piece::Variable(name) => names.push(name.clone()),
                Piece::Choice(name, numbers, others) => {
                    if !names.contains(name) {
                        names.push(name.clone());
                    }
                    numbers.iter().map(|(_, said)| said).chain([others]).for_each(|said| add(said, names));
                }
            }
        }
    }
    let mut names = Vec::new();
    message.into_iter().for_each(|message| add(message, &mut names));
    names
}

fn function_code(
    code: &mut String,
    function: &str,
    messages: &[&Message],
    order: &[String],
    parameters: &BTreeMap<String, bool>,
) -> std::fmt::Result {
    let is_plain = parameters.is_empty();
    if is_plain {
        let texts: Vec<String> = messages.iter().map(|message| plain(message)).collect();
        return writeln!(
            code,
            "    pub fn {function}() -> &'static str {{\n        Language::now().choose({texts:?})\n    }}"
        );
    }
    let list = order.iter().map(|name| {
        let kind = if parameters.get(name) == Some(&true) { "u32" } else { "impl std::fmt::Display" };
        format!("{name}: {kind}")
    });
    writeln!(code, "    pub fn {function}({}) -> String {{", list.collect::<Vec<_>>().join(", "))?;
    writeln!(code, "        match Language::now() {{")?;
    for (message, language) in messages.iter().zip(["English", "German", "Japanese"]) {
        writeln!(code, "            Language::{language} => {},", expression(message))?;
    }
    writeln!(code, "        }}\n    }}")
}

fn plain(message: &Message) -> String {
    let text = |piece: &Piece| match piece {
        Piece::Text(text) => text.clone(),
        Piece::Variable(_) | Piece::Choice(..) => String::new(),
    };
    message.iter().map(text).collect()
}

/// A message as an expression of type `String`.
fn expression(message: &Message) -> String {
    let (mut format, mut arguments) = (String::new(), Vec::new());
    for piece in message {
        match piece {
            Piece::Text(text) => format.push_str(&text.replace('{', "{{").replace('}', "}}")),
            Piece::Variable(name) => {
                let _ = write!(format, "{{{name}}}");
            }
            Piece::Choice(name, numbers, others) => {
                format.push_str("{}");
                let mut arms = String::new();
                for (number, said) in numbers {
                    let _ = write!(arms, "{number} => {}, ", expression(said));
                }
                // A language without a plural has one text for all numbers.
                arguments.push(match arms.as_str() {
                    "" => format!("{{ let _ = {name}; {} }}", expression(others)),
                    arms => format!("match {name} {{ {arms}_ => {} }}", expression(others)),
                });
            }
        }
    }
    match (message.as_slice(), arguments.as_slice()) {
        ([Piece::Choice(..)], [choice]) => choice.clone(),
        _ if format.contains('{') => {
            let arguments: String = arguments.iter().map(|argument| format!(", {argument}")).collect();
            format!("format!({format:?}{arguments})")
        }
        _ => format!("{format:?}.to_owned()"),
    }
}
