"""Small networks by the structures that they are made of, as graphs for tests of blocks.

net = Network()
x = net.input("1x3x32x32 f32")
x = net.residual(net.conv(x, "16x32x32"))
"""

from __future__ import annotations

from explorer.results import Graph, GraphEdge, GraphNode

_FAMILIES = {
    "conv": "convolution",
    "depthwise": "convolution",
    "matmul": "convolution",
    "softmax": "normalization",
    "layer": "normalization",
    "batch": "normalization",
    "average": "pooling",
    "max": "pooling",
    "reduce": "reduction",
    "concat": "movement",
    "slice": "movement",
    "reshape": "movement",
    "transpose": "movement",
    "gather": "movement",
    "shape": "movement",
}


class Network:
    def __init__(self) -> None:
        self.nodes: list[GraphNode] = []
        self.edges: list[GraphEdge] = []

    def graph(self) -> Graph:
        return Graph(tuple(self.nodes), tuple(self.edges))

    def add(self, label: str, *inputs: str, shape: str = "", family: str = "") -> str:
        """An operation; without a shape it has that of its first input."""
        shapes = {node.id: node.shape for node in self.nodes}
        word = label.split()[0]
        name = f"{word}{len(self.nodes)}"
        self.nodes.append(
            GraphNode(
                id=name,
                operation=f"top.{word}",
                label=label,
                family=family or _FAMILIES.get(word, "elementwise"),
                shape=shape or shapes[inputs[0]],
                sources=(name,),
                device="",
            )
        )
        self.edges += [GraphEdge(i, name, i, "") for i in inputs]
        return name

    def input(self, shape: str) -> str:
        return self.add("input", shape=shape, family="input")

    def output(self, x: str) -> str:
        return self.add("output", x, family="output")

    def conv(self, x: str, sizes: str = "", label: str = "conv 3x3") -> str:
        """Convolution and activation; `sizes` as in `16x32x32`."""
        return self.add("relu", self.add(label, x, shape=f"1x{sizes} f32" if sizes else ""))

    def residual(self, x: str, sizes: str = "") -> str:
        inner = self.add("conv 3x3", self.conv(x, sizes))
        short = self.add("conv 1x1", x, shape=f"1x{sizes} f32") if sizes else x
        return self.add("relu", self.add("add", inner, short))

    def inverted(self, x: str, sizes: str = "", squeezed: bool = False) -> str:
        wide = self.conv(self.conv(x, sizes, "conv 1x1"), label="depthwise 3x3")
        if squeezed:
            gate = self.conv(self.add("reduce mean", wide, shape="1x16x1x1 f32"), label="conv 1x1")
            gate = self.add("sigmoid", self.add("conv 1x1", gate))
            wide = self.add("mul", wide, gate)
        narrow = self.add("conv 1x1", wide)
        return narrow if sizes else self.add("add", narrow, x)

    def fire(self, x: str) -> str:
        x = self.conv(x, label="conv 1x1")
        return self.add("concat", self.conv(x, label="conv 1x1"), self.conv(x))

    def inception(self, x: str) -> str:
        reduced = self.conv(x, label="conv 1x1")
        return self.add(
            "concat",
            self.conv(x, label="conv 1x1"),
            self.conv(self.conv(x, label="conv 1x1")),
            self.conv(reduced, label="conv 5x5"),
            self.conv(self.add("max pool 3x3", x), label="conv 1x1"),
        )

    def dense(self, x: str) -> str:
        return self.add("concat", x, self.conv(self.conv(x, label="conv 1x1")))

    def attention(self, x: str, mask: str = "") -> str:
        query, key, value = (
            self.add("transpose", self.add("reshape", self.add("matmul", x), shape="1x2x8x4 f32"))
            for _ in range(3)
        )
        scores = self.add("matmul", query, key, shape="1x2x8x8 f32")
        if mask:
            scores = self.add("add", scores, mask)
        mixed = self.add("matmul", self.add("softmax", scores), value, shape="1x2x8x4 f32")
        joined = self.add("reshape", self.add("transpose", mixed), shape="1x8x8 f32")
        return self.add("layer norm", self.add("add", self.add("matmul", joined), x))

    def feed_forward(self, x: str) -> str:
        inner = self.add("matmul", self.add("gelu", self.add("matmul", x)))
        return self.add("layer norm", self.add("add", inner, x))
