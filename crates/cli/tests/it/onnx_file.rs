//! Small model files, written byte by byte: models that no generator would write.
//!
//! Invariant: field numbers are those of `onnx.proto`; <https://protobuf.dev/programming-guides/encoding/>.

/// An unfinished message of the protobuf encoding.
#[derive(Default, Clone)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    fn bytes(mut self, field: u64, value: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    fn text(self, field: u64, value: &str) -> Self {
        self.bytes(field, value.as_bytes())
    }

    fn message(self, field: u64, value: &Self) -> Self {
        self.bytes(field, &value.0)
    }
}

/// A model with one node, `output = OPERATOR(input, weight…)`, of float32 vectors with four elements.
pub(crate) struct OneNode<'a> {
    pub(crate) operator: &'a str,
    pub(crate) opset: u64,
    /// Where the one weight lies outside of the model; no weight when absent.
    pub(crate) weight_at: Option<&'a str>,
    /// Inputs of the model; the first is the node's.
    pub(crate) inputs: &'a [&'a str],
    /// Outputs of the model; the node gives `y`.
    pub(crate) outputs: &'a [&'a str],
}

impl Default for OneNode<'_> {
    fn default() -> Self {
        Self { operator: "Relu", opset: 17, weight_at: None, inputs: &["x"], outputs: &["y"] }
    }
}

impl OneNode<'_> {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut node = Message::default();
        for input in self.inputs {
            node = node.text(1, input);
        }
        if self.weight_at.is_some() {
            node = node.text(1, "w");
        }
        node = node.text(2, "y").text(3, "only").text(4, self.operator);
        let mut graph = Message::default().message(1, &node).text(2, "g");
        if let Some(location) = self.weight_at {
            let mut tensor = Message::default().number(1, 4).number(2, 1).text(8, "w");
            for (key, value) in [("location", location), ("offset", "0"), ("length", "16")] {
                tensor = tensor.message(13, &Message::default().text(1, key).text(2, value));
            }
            graph = graph.message(5, &tensor.number(14, 1));
        }
        for input in self.inputs {
            graph = graph.message(11, &vector(input));
        }
        for output in self.outputs {
            graph = graph.message(12, &vector(output));
        }
        let opset = Message::default().text(1, "").number(2, self.opset);
        Message::default().number(1, 9).message(7, &graph).message(8, &opset).0
    }
}

/// A value of the graph: float32 with four elements.
fn vector(name: &str) -> Message {
    let size = Message::default().number(1, 4);
    let shape = Message::default().message(1, &size);
    let tensor = Message::default().number(1, 1).message(2, &shape);
    Message::default().text(1, name).message(2, &Message::default().message(1, &tensor))
}
