//! Whether a model is one that all engines would read alike, before any of them sees it.
//!
//! Invariant: what ONNX Runtime loads is accepted, so where it waives a rule of the format, so does this check:
//! the main graph may be unsorted, and a value stored twice is only noted. Model-local functions are left to the
//! engines. Rules: <https://github.com/onnx/onnx/blob/main/docs/IR.md>.

#[cfg(test)]
mod tests;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use crate::evaluate::sorted;
use crate::graph::{canonical_domain, node_label};
use crate::proto::{GraphProto, ModelProto, NodeProto};

/// The newest operator set of the default domain that a release of ONNX defines: that of ONNX 1.23.
///
/// Source: the table of versions in <https://github.com/onnx/onnx/blob/main/docs/Versioning.md>.
const NEWEST_RELEASED_OPSET: i64 = 28;

/// The newest version of the intermediate representation that a release of ONNX defines: that of ONNX 1.23.
const NEWEST_RELEASED_IR: i64 = 14;

/// Checks versions and graphs; gives what is odd but read alike by all engines, in sentences.
///
/// # Errors
/// A clause on the model, "it", that says what is wrong first.
pub(crate) fn validate(model: &ModelProto) -> Result<Vec<String>, String> {
    check_versions(model)?;
    let mut notes = Vec::new();
    if let Some(graph) = &model.graph
        && let Some((name, reader)) = check_graph(graph, None, &mut notes)?.into_iter().min_by_key(|r| r.0)
    {
        return Err(format!("nothing defines `{name}`, which {} reads", node_label(reader)));
    }
    Ok(notes)
}

fn check_versions(model: &ModelProto) -> Result<(), String> {
    let ir = model.ir_version;
    if ir > NEWEST_RELEASED_IR {
        return Err(format!(
            "it states version {ir} of the intermediate representation, and the newest is {NEWEST_RELEASED_IR}"
        ));
    }
    if model.opset_import.is_empty() {
        return Err("it imports no operator set, so what its operators mean is not known".to_owned());
    }
    let mut default = model.opset_import.iter().filter(|import| canonical_domain(&import.domain).is_empty());
    match default.find(|import| !(1..=NEWEST_RELEASED_OPSET).contains(&import.version)) {
        Some(import) => Err(format!(
            "it imports operator set {}, and there are those from 1 to {NEWEST_RELEASED_OPSET}",
            import.version
        )),
        None => Ok(()),
    }
}

/// What defines a value of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Definition {
    Input,
    /// An initializer or a `Constant` node, which engines treat alike.
    Stored,
    /// The node of this index.
    Node(usize),
}

/// The values of a graph, and of those around it.
struct Scope<'p, 'm> {
    values: HashMap<&'m str, Definition>,
    parent: Option<&'p Scope<'p, 'm>>,
}

impl Scope<'_, '_> {
    /// Whether a graph around this one has an input or a stored value of that name.
    fn hides(&self, name: &str) -> bool {
        let Some(parent) = self.parent else { return false };
        matches!(parent.values.get(name), Some(Definition::Input | Definition::Stored)) || parent.hides(name)
    }
}

/// Names that a graph takes from outside, each with a node that reads it.
type Reads<'m> = HashMap<&'m str, &'m NodeProto>;

/// Checks a graph and its bodies; gives the names that it reads and does not define.
///
/// The recursion ends: decoding has refused messages nested over a hundred deep.
fn check_graph<'m>(
    graph: &'m GraphProto,
    parent: Option<&Scope<'_, 'm>>,
    notes: &mut Vec<String>,
) -> Result<Reads<'m>, String> {
    let mut scope = Scope { values: HashMap::new(), parent };
    define_values(graph, &mut scope, notes)?;
    check_names(&graph.node)?;
    let mut outside = Reads::new();
    let mut needed = vec![Vec::new(); graph.node.len()];
    for (index, node) in graph.node.iter().enumerate() {
        let mut reads: Reads<'m> = HashMap::new();
        for body in node.attribute.iter().flat_map(|a| a.g.as_deref().into_iter().chain(&a.graphs)) {
            reads.extend(check_graph(body, Some(&scope), notes)?);
        }
        reads.extend(node.input.iter().filter(|name| !name.is_empty()).map(|name| (name.as_str(), node)));
        for (name, reader) in reads {
            match scope.values.get(name) {
                Some(Definition::Node(source)) if *source == index => {
                    return Err(format!("{} reads `{name}`, its own output", node_label(node)));
                }
                // ONNX Runtime sorts the main graph itself, but no body.
                Some(Definition::Node(source)) if parent.is_some() && *source > index => {
                    return Err(format!(
                        "{} reads `{name}`, which a later node of the same body gives",
                        node_label(reader)
                    ));
                }
                Some(Definition::Node(source)) => needed[index].push(*source),
                Some(Definition::Input | Definition::Stored) => {}
                None => {
                    outside.insert(name, reader);
                }
            }
        }
    }
    let order = sorted(&needed);
    if order.len() < graph.node.len() {
        let placed: HashSet<usize> = order.into_iter().collect();
        let node = graph.node.iter().enumerate().find(|(index, _)| !placed.contains(index));
        let node = node.map(|(_, node)| node_label(node)).unwrap_or_default();
        return Err(format!("its nodes form a cycle, on which {node} depends"));
    }
    match graph.output.iter().find(|output| !scope.values.contains_key(output.name.as_str())) {
        Some(output) if parent.is_some() => {
            Err(format!("nothing in the body `{}` gives its output `{}`", graph.name, output.name))
        }
        Some(output) => Err(format!("nothing gives its output `{}`", output.name)),
        None => Ok(outside),
    }
}

/// Fills the scope of a graph; a value may have one definition alone.
fn define_values<'m>(
    graph: &'m GraphProto,
    scope: &mut Scope<'_, 'm>,
    notes: &mut Vec<String>,
) -> Result<(), String> {
    for input in graph.input.iter().map(|info| info.name.as_str()).filter(|name| !name.is_empty()) {
        if scope.values.insert(input, Definition::Input).is_some() {
            return Err(format!("it declares the input `{input}` twice"));
        }
    }
    let main = scope.parent.is_none();
    let mut store = |values: &mut HashMap<&'m str, Definition>, name: &'m str| {
        match values.insert(name, Definition::Stored) {
            // ONNX Runtime warns of it in the main graph and refuses it in bodies.
            Some(Definition::Stored) if main => {
                let note = format!("`{name}` is stored more than once; the last one counts");
                if !notes.contains(&note) && notes.len() < NOTE_LIMIT {
                    notes.push(note);
                }
                true
            }
            // An initializer may be the default of an input.
            Some(Definition::Input) | None => true,
            Some(Definition::Stored | Definition::Node(_)) => false,
        }
    };
    let sparse = graph.sparse_initializer.iter().filter_map(|tensor| tensor.values.as_ref());
    for tensor in graph.initializer.iter().chain(sparse).filter(|tensor| !tensor.name.is_empty()) {
        if !store(&mut scope.values, &tensor.name) {
            return Err(format!("the body `{}` stores `{}` twice", graph.name, tensor.name));
        }
    }
    for (index, node) in graph.node.iter().enumerate() {
        for output in node.output.iter().map(String::as_str).filter(|name| !name.is_empty()) {
            let alone = if is_constant(node) {
                store(&mut scope.values, output)
            } else {
                match scope.values.entry(output) {
                    Entry::Vacant(free) => {
                        free.insert(Definition::Node(index));
                        true
                    }
                    Entry::Occupied(_) => false,
                }
            };
            if !alone {
                return Err(format!(
                    "{} gives `{output}`, which is defined already; a value may be defined once",
                    node_label(node)
                ));
            }
            if scope.hides(output) {
                return Err(format!(
                    "{} in a body gives `{output}`, the name of a value of the graph around it",
                    node_label(node)
                ));
            }
        }
    }
    Ok(())
}

/// More notes than this help nobody.
const NOTE_LIMIT: usize = 8;

/// Checks what nodes say of themselves: their operator, and that names are unique where they must be.
fn check_names(nodes: &[NodeProto]) -> Result<(), String> {
    let mut names = HashSet::new();
    for node in nodes {
        if node.op_type.is_empty() {
            let output = node.output.first().map_or("", String::as_str);
            return Err(format!("the node that gives `{output}` names no operator"));
        }
        // ONNX Runtime turns constants into stored values and forgets their names.
        if !node.name.is_empty() && !is_constant(node) && !names.insert(node.name.as_str()) {
            return Err(format!("two nodes have the name `{}`", node.name));
        }
        let mut attributes = HashSet::new();
        if let Some(twice) = node.attribute.iter().find(|a| !attributes.insert(a.name.as_str())) {
            return Err(format!("{} has the attribute `{}` twice", node_label(node), twice.name));
        }
    }
    Ok(())
}

fn is_constant(node: &NodeProto) -> bool {
    node.op_type == "Constant" && canonical_domain(&node.domain).is_empty()
}
