"""Facts of public networks, counted from their architectures: writes board_models.csv.

One inference of one image, as a graph without training operators: a batch normalisation is part of the
convolution before it, an activation is a node of its own, a sigmoid-weighted one two, a hard one four. Sources of
the architectures, and what the columns mean: README.md beside this file.
"""

from dataclasses import dataclass

# Nodes of an activation function.
NONE, RELU, SWISH, HARD_SWISH = 0, 1, 2, 4


@dataclass
class Layer:
    """A node: its class, multiply-adds, weights, and the values that it reads (weights apart) and writes.

    `window` is the side of the square of places that a convolution makes a value from, 1 of any other node; `pack` the
    channels that engines compute side by side: 8 where those read and those written fill packs of so many, else 1.
    """

    kind: str
    window: int
    pack: int
    multiply_adds: int
    weights: int
    read: int
    written: int

    @property
    def sort(self):
        """Class, window, pack; binary logarithms, rounded down, of multiply-adds for each value and of values."""
        each = max(self.multiply_adds // self.written, 1)
        return self.kind, self.window, self.pack, each.bit_length() - 1, self.written.bit_length() - 1

    @property
    def bytes(self):
        """Read and written, each value once, in fp32."""
        return 4 * (self.weights + self.read + self.written)


class Network:
    """Layers in order, and the shape of the values that the next one reads: channels, height, width."""

    def __init__(self, size):
        self.input = size
        self.shape = (3, size, size)
        self.parameters = 0
        self.layers = []

    @property
    def channels(self):
        return self.shape[0]

    @property
    def values(self):
        channels, height, width = self.shape
        return channels * height * width

    def node(self, kind, shape=None, multiply_adds=0, weights=0, biases=0, inputs=1, window=1, groups=1):
        """Adds a node that writes `shape`, or what it reads if there is none; packs are of one of its `groups`."""
        read, channels = self.values * inputs, self.channels
        self.shape = shape or self.shape
        self.parameters += weights + biases
        pack = 8 if all(count // groups % 8 == 0 for count in (channels, self.channels)) else 1
        self.layers.append(Layer(kind, window, pack, multiply_adds, weights, read, self.values))
        return self

    def at(self, channels, height, width=None):
        """Goes on from values of another shape."""
        self.shape = (channels, height, width or height)
        return self

    def convolution(self, outputs, kernel=1, stride=1, groups=1, activation=RELU, padding=None):
        channels, height, width = self.shape
        padding = kernel // 2 if padding is None else padding
        height, width = ((side + 2 * padding - kernel) // stride + 1 for side in (height, width))
        weights = outputs * (channels // groups) * kernel * kernel
        kind = "depthwise_conv" if groups == channels > 1 else "conv"
        # Channels of a depthwise convolution stand side by side.
        apart = 1 if kind == "depthwise_conv" else groups
        shape = outputs, height, width
        self.node(kind, shape, height * width * weights, weights, outputs, window=kernel, groups=apart)
        return self.element_wise(activation)

    def depthwise(self, kernel=3, stride=1, activation=RELU):
        return self.convolution(self.channels, kernel, stride, self.channels, activation)

    def linear(self, outputs, activation=NONE):
        weights = self.values * outputs
        return self.node("mat_mul", (outputs, 1, 1), weights, weights, outputs).element_wise(activation)

    def pool(self, kernel=2, stride=2, padding=0, round_up=False):
        channels, height, width = self.shape
        up = stride - 1 if round_up else 0
        height, width = ((side + 2 * padding - kernel + up) // stride + 1 for side in (height, width))
        return self.node("pooling", (channels, height, width))

    def global_pool(self):
        return self.node("pooling", (self.channels, 1, 1))

    def element_wise(self, count=1):
        for _ in range(count):
            self.node("element_wise")
        return self

    def move(self, count=1):
        for _ in range(count):
            self.node("data_movement")
        return self

    def normalise(self):
        return self.node("normalisation")

    def squeeze_excite(self, channels, gate=RELU):
        """A weight for each channel from the channels' means, and its product with the values."""
        shape = self.shape
        self.global_pool().convolution(channels).convolution(shape[0], activation=gate)
        return self.at(*shape).element_wise()

    def branches(self, *branches):
        """Branches from one point, each a list of convolutions (`None`: a pooling); joined along the channels."""
        start, channels = self.shape, 0
        for branch in branches:
            self.at(*start)
            for step in branch:
                self.convolution(*step) if step else self.pool(3, 1, 1)
            channels += self.channels
        return self.at(channels, *self.shape[1:]).move()

    def classify(self, classes=1000):
        return self.global_pool().linear(classes).normalise()


def inverted_residual(net, outputs, inner, stride, kernel=3, activation=RELU, squeezed=0, gate=RELU):
    """The block of MobileNet v2 and its followers; `inner` channels in between, all of them if there are no more."""
    start, channels = net.shape, net.channels
    if inner != channels:
        net.convolution(inner, activation=activation)
    net.depthwise(kernel, stride, activation)
    if squeezed:
        net.squeeze_excite(squeezed, gate)
    net.convolution(outputs, activation=NONE)
    return net.element_wise() if stride == 1 and start[0] == outputs else net


def inverted_residuals(net, stages, activation=RELU, squeeze=0):
    """Stages of (expansion, outputs, blocks, stride, kernel); squeezed to a part of the block's inputs."""
    for expansion, outputs, blocks, stride, kernel in stages:
        for block in range(blocks):
            squeezed = net.channels // squeeze if squeeze else 0
            inner = net.channels * expansion
            inverted_residual(net, outputs, inner, 1 if block else stride, kernel, activation, squeezed)
    return net


def ssd_heads(net, shapes, boxes, kernel):
    """Boxes and classes (20 and a background) from each of `shapes`, joined."""
    for shape, count in zip(shapes, boxes):
        for outputs in (4 * count, 21 * count):
            net.at(*shape).convolution(outputs, kernel, activation=NONE).move(2)
        net.move()
    return net.move(3).normalise()


def alexnet(net):
    net.convolution(96, 11, 4, padding=0).normalise().pool(3).convolution(256, 5, groups=2).normalise().pool(3)
    net.convolution(384, 3).convolution(384, 3, groups=2).convolution(256, 3, groups=2).pool(3)
    return net.linear(4096, RELU).linear(4096, RELU).linear(1000).normalise()


def blazeface(net):
    net.move().convolution(24, 5, 2)
    for outputs in (24, 28, 32, 36, 42, 48, 56, 64, 72, 80, 88, 96, 96, 96, 96, 96):
        stride = 2 if outputs in (32, 48) or (outputs == 96 and net.channels == 88) else 1
        net.move(stride).depthwise(3, stride, NONE).convolution(outputs, activation=NONE).element_wise(2)
        if stride == 2:
            net.node("pooling")
    return net


def efficientnet_b0(net):
    net.convolution(32, 3, 2, activation=SWISH)
    inverted_residuals(net, [(1, 16, 1, 1, 3)], SWISH, 4)
    stages = [(6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5), (6, 192, 4, 2, 5)]
    inverted_residuals(net, [*stages, (6, 320, 1, 1, 3)], SWISH, 4)
    return net.convolution(1280, activation=SWISH).classify()


def efficientnetv2_b0(net):
    net.convolution(32, 3, 2, activation=SWISH).convolution(16, 3, activation=SWISH)
    for outputs in (32, 48):
        for stride in (2, 1):
            net.convolution(4 * net.channels, 3, stride, activation=SWISH)
            net.convolution(outputs, activation=NONE).element_wise(2 - stride)
    inverted_residuals(net, [(4, 96, 3, 2, 3), (6, 112, 5, 1, 3), (6, 192, 8, 2, 3)], SWISH, 4)
    return net.convolution(1280, activation=SWISH).classify()


def googlenet(net):
    net.convolution(64, 7, 2).pool(3, round_up=True).normalise().convolution(64).convolution(192, 3)
    net.normalise()
    stages = [
        [(64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64)],
        [(192, 96, 208, 16, 48, 64), (160, 112, 224, 24, 64, 64), (128, 128, 256, 24, 64, 64)]
        + [(112, 144, 288, 32, 64, 64), (256, 160, 320, 32, 128, 128)],
        [(256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)],
    ]
    for stage in stages:
        net.pool(3, round_up=True)
        for a, b, c, d, e, f in stage:
            net.branches([(a,)], [(b,), (c, 3)], [(d,), (e, 5)], [None, (f,)])
    return net.classify()


def mnasnet(net):
    net.convolution(32, 3, 2).depthwise().convolution(16, activation=NONE)
    stages = [(3, 24, 3, 2, 3), (3, 40, 3, 2, 5), (6, 80, 3, 2, 5), (6, 96, 2, 1, 3), (6, 192, 4, 2, 5)]
    return inverted_residuals(net, [*stages, (6, 320, 1, 1, 3)]).convolution(1280).classify()


def mobilenet_body(net):
    """The 13 blocks of MobileNet v1; the shape after the eleventh is that of the finer detections."""
    net.convolution(32, 3, 2)
    for block, outputs in enumerate((64, 128, 128, 256, 256, *[512] * 6, 1024, 1024)):
        net.depthwise(3, 2 if outputs > net.channels > 32 else 1).convolution(outputs)
        if block == 10:
            finer = net.shape
    return finer


def mobilenet(net):
    mobilenet_body(net)
    return net.classify()


def mobilenet_ssd(net):
    shapes = [mobilenet_body(net), net.shape]
    for inner, outputs in ((256, 512), (128, 256), (128, 256), (64, 128)):
        net.convolution(inner).convolution(outputs, 3, 2)
        shapes.append(net.shape)
    return ssd_heads(net, shapes, (3, 6, 6, 6, 6, 6), 1)


def mobilenet_v2_body(net):
    net.convolution(32, 3, 2)
    stages = [(1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 32, 3, 2, 3), (6, 64, 4, 2, 3), (6, 96, 3, 1, 3)]
    return inverted_residuals(net, [*stages, (6, 160, 3, 2, 3), (6, 320, 1, 1, 3)]).convolution(1280)


def mobilenet_v2(net):
    return mobilenet_v2_body(net).classify()


def mobilenet_v3(net):
    net.convolution(16, 3, 2, activation=HARD_SWISH)
    # kernel, inner channels, outputs, whether channels are weighted, activation, stride, blocks
    for kernel, inner, outputs, weighted, activation, stride, blocks in [
        (3, 16, 16, False, RELU, 1, 1),
        (3, 64, 24, False, RELU, 2, 1),
        (3, 72, 24, False, RELU, 1, 1),
        (5, 72, 40, True, RELU, 2, 1),
        (5, 120, 40, True, RELU, 1, 2),
        (3, 240, 80, False, HARD_SWISH, 2, 1),
        (3, 200, 80, False, HARD_SWISH, 1, 1),
        (3, 184, 80, False, HARD_SWISH, 1, 2),
        (3, 480, 112, True, HARD_SWISH, 1, 1),
        (3, 672, 112, True, HARD_SWISH, 1, 1),
        (5, 672, 160, True, HARD_SWISH, 2, 1),
        (5, 960, 160, True, HARD_SWISH, 1, 2),
    ]:
        for _ in range(blocks):
            squeezed = inner // 4 if weighted else 0
            inverted_residual(net, outputs, inner, stride, kernel, activation, squeezed, HARD_SWISH)
    net.convolution(960, activation=HARD_SWISH).global_pool().linear(1280, RELU)
    return net.linear(1000).normalise()


def mobilenet_yolo(net):
    mobilenet_body(net)
    net.convolution(256).convolution(1024, 3)
    coarse = net.shape
    net.convolution(125, activation=NONE).at(*coarse)
    # A transposed convolution of each channel of the 256 of the step before.
    net.node("depthwise_conv", (256, 26, 26), 26 * 26 * 256 * 16, window=4)
    net.convolution(1024, 3).convolution(256).convolution(1024, 3).convolution(125, activation=NONE)
    return net.move()


def mobilenetv2_yolov3(net):
    mobilenet_v2_body(net)
    net.depthwise().convolution(576)
    coarse = net.shape
    net.convolution(75, activation=NONE).at(*coarse).move().pool(1, 1).at(576, 22).move()
    net.depthwise().convolution(576).element_wise().depthwise().convolution(576)
    return net.convolution(75, activation=NONE).move()


def shuffle_stages(net, stem, widths):
    """The stages of ShuffleNet v2 with 4, 8 and 4 blocks; returns the shape after each."""
    net.convolution(stem, 3, 2).pool(3, 2, 1)
    shapes = []
    for outputs, blocks in zip(widths, (4, 8, 4)):
        half, start = outputs // 2, net.shape
        net.depthwise(3, 2, NONE).convolution(half)
        net.at(*start).convolution(half).depthwise(3, 2, NONE).convolution(half)
        net.at(outputs, *net.shape[1:]).move(2)
        for _ in range(blocks - 1):
            net.at(half, *net.shape[1:]).move().convolution(half).depthwise(3, 1, NONE).convolution(half)
            net.at(outputs, *net.shape[1:]).move(2)
        shapes.append(net.shape)
    return shapes


def nanodet_m(net):
    for shape in shuffle_stages(net, 24, (116, 232, 464)):
        net.at(*shape).convolution(96, activation=NONE)
    for side in (20, 40, 20, 10):
        net.at(96, side).move().element_wise()
    for side in (40, 20, 10):
        net.at(96, side)
        for _ in range(2):
            net.depthwise().convolution(96)
        net.convolution(112, activation=NONE).normalise().move(3)
    return net


def proxylessnasnet(net):
    net.convolution(32, 3, 2).depthwise().convolution(16, activation=NONE)
    # outputs, stride, and each block's expansion and kernel
    for outputs, stride, blocks in [
        (32, 2, [(3, 5), (3, 3)]),
        (40, 2, [(3, 7), (3, 3), (3, 5), (3, 5)]),
        (80, 2, [(6, 7), (3, 5), (3, 5), (3, 5)]),
        (96, 1, [(6, 5), (3, 5), (3, 5), (3, 5)]),
        (192, 2, [(6, 7), (6, 7), (3, 7), (3, 7)]),
        (320, 1, [(6, 7)]),
    ]:
        for block, (expansion, kernel) in enumerate(blocks):
            inverted_residuals(net, [(expansion, outputs, 1, 1 if block else stride, kernel)])
    return net.convolution(1280).classify()


def regnety_400m(net):
    net.convolution(32, 3, 2)
    for outputs, blocks in ((48, 1), (104, 3), (208, 6), (440, 6)):
        for block in range(blocks):
            start, stride = net.shape, 1 if block else 2
            if block == 0:
                net.convolution(outputs, 1, 2, activation=NONE).at(*start)
            net.convolution(outputs).convolution(outputs, 3, stride, groups=outputs // 8)
            net.squeeze_excite(max(8, start[0] // 4)).convolution(outputs, activation=NONE).element_wise(2)
    return net.classify()


def resnet(net, stages):
    """Stages of (blocks, convolutions of a block as (outputs, kernel)); the first of a stage halves the sides."""
    net.convolution(64, 7, 2).pool(3, 2, 1)
    for stage, (blocks, convolutions) in enumerate(stages):
        for block in range(blocks):
            start, outputs = net.shape, convolutions[-1][0]
            stride = 2 if stage and not block else 1
            if start[0] != outputs:
                net.convolution(outputs, 1, stride, activation=NONE).at(*start)
            for position, (channels, kernel) in enumerate(convolutions):
                last = position == len(convolutions) - 1
                net.convolution(channels, kernel, 1 if position else stride, activation=NONE if last else RELU)
            net.element_wise(2)
    return net.classify()


def resnet18(net):
    return resnet(net, [(2, [(width, 3)] * 2) for width in (64, 128, 256, 512)])


def resnet50(net):
    widths = zip((3, 4, 6, 3), (64, 128, 256, 512))
    return resnet(net, [(blocks, [(width, 1), (width, 3), (4 * width, 1)]) for blocks, width in widths])


def shufflenet(net):
    net.convolution(24, 3, 2).pool(3, 2, 1)
    for outputs, blocks in ((240, 4), (480, 8), (960, 4)):
        for block in range(blocks):
            start, stride = net.shape, 1 if block else 2
            if block == 0:
                net.pool(3, 2, 1).at(*start)
            net.convolution(outputs // 4, groups=1 if start[0] == 24 else 3).move().depthwise(3, stride, NONE)
            net.convolution(outputs if block else outputs - start[0], groups=3, activation=NONE)
            net.at(outputs, *net.shape[1:])
            net.element_wise(2) if block else net.move().element_wise()
    return net.classify()


def shufflenet_v2(net):
    shuffle_stages(net, 24, (116, 232, 464))
    return net.convolution(1024).classify()


def fires(net, widths, pooled):
    """Fire modules of SqueezeNet 1.1; a pooling after those in `pooled`. Returns the shape after each module."""
    net.convolution(64, 3, 2, padding=0).pool(3)
    shapes = []
    for position, (squeezed, expanded) in enumerate(widths):
        net.convolution(squeezed).branches([(expanded,)], [(expanded, 3)])
        shapes.append(net.shape)
        if position in pooled:
            net.pool(3)
    return shapes


FIRES = [(16, 64)] * 2 + [(32, 128)] * 2 + [(48, 192)] * 2 + [(64, 256)] * 2


def squeezenet(net):
    fires(net, FIRES, (1, 3))
    return net.convolution(1000).global_pool().normalise()


def squeezenet_ssd(net):
    shapes = fires(net, [*FIRES, (96, 384), (96, 384)], (1, 3, 7, 8))
    shapes = [shapes[position] for position in (3, 7, 8, 9)]
    for inner, outputs in ((128, 256), (64, 128)):
        net.convolution(inner).convolution(outputs, 3, 2)
        shapes.append(net.shape)
    return ssd_heads(net.normalise(), shapes, (4, 6, 6, 6, 6, 4), 3)


def vgg16(net):
    for outputs, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            net.convolution(outputs, 3)
        net.pool()
    return net.linear(4096, RELU).linear(4096, RELU).linear(1000).normalise()


def vision_transformer(net):
    net.convolution(768, 32, 32, padding=0, activation=NONE).move(3)
    width, tokens, heads = 768, 145, 12

    def product(outputs):
        weights = net.channels * outputs
        return net.node("mat_mul", (outputs, tokens, 1), tokens * weights, weights, outputs)

    net.at(width, tokens, 1).element_wise()
    for _ in range(12):
        net.normalise()
        for _ in range(4):
            product(width).element_wise().move()
        for _ in range(2):
            net.node("mat_mul", multiply_adds=tokens * tokens * width, inputs=2)
        net.at(heads, tokens, tokens).normalise().at(width, tokens, 1).element_wise().normalise()
        product(4 * width)
        inner = net.shape
        product(width).at(*inner).element_wise(4).at(width, tokens, 1).element_wise()
    net.normalise().move().at(width, 1)
    return net.linear(1000).normalise()


def yolo_fastest(net):
    net.convolution(8, 3, 2).convolution(8).depthwise().convolution(4, activation=NONE)
    inverted_residual(net, 4, 8, 1)
    # inner channels of the first block, outputs, stride, further blocks and their inner channels
    for first, outputs, stride, blocks, inner in [
        (24, 8, 2, 2, 32),
        (32, 8, 2, 2, 48),
        (48, 16, 1, 4, 96),
        (96, 24, 2, 4, 136),
        (136, 48, 2, 5, 224),
    ]:
        inverted_residual(net, outputs, first, stride)
        for _ in range(blocks):
            inverted_residual(net, outputs, inner, 1)

    def head():
        net.move().convolution(96).depthwise(5).convolution(96, activation=NONE)
        return net.depthwise(5).convolution(96, activation=NONE).convolution(255, activation=NONE).move()

    net.pool(3, 1, 1).pool(5, 1, 2).pool(9, 1, 4).at(192, *net.shape[1:])
    head().at(96, 20).move().at(232, 20)
    return head()


def yolo_fastestv2(net):
    shuffle_stages(net, 24, (48, 96, 192))
    net.convolution(72)
    for side in (11, 22):
        net.at(72, side)
        if side == 22:
            net.move().at(288, 22).move().convolution(72)
        for _ in range(4):
            net.at(72, side).depthwise(5).convolution(72, activation=NONE)
        for outputs in (12, 3, 80):
            net.at(72, side).convolution(outputs, activation=NONE)
        net.at(95, side).normalise().move(3)
    return net


def fastest_det(net):
    shuffle_stages(net, 24, (48, 96, 192))
    net.at(48, 22).pool(1, 1).at(192, 22).move().at(336, 22).move().convolution(96)
    for _ in range(6):
        net.at(96, 22).depthwise(5)
    net.at(288, 22).move().convolution(96, activation=NONE).element_wise(2).convolution(96)
    for outputs in (80, 4, 1):
        net.at(96, 22).depthwise(5).convolution(outputs, activation=NONE)
    return net.at(85, 22).normalise().move()


def yolov4_tiny(net):
    net.convolution(32, 3, 2).convolution(64, 3, 2)
    for width in (64, 128, 256):
        net.convolution(width, 3).move().at(width // 2, *net.shape[1:])
        net.convolution(width // 2, 3).convolution(width // 2, 3)
        net.at(width, *net.shape[1:]).move().convolution(width)
        net.at(2 * width, *net.shape[1:]).move().pool()
    net.convolution(512, 3).convolution(256).convolution(512, 3).convolution(255, activation=NONE)
    net.at(256, 13).convolution(128).at(128, 26).move().at(384, 26).move()
    return net.convolution(256, 3).convolution(255, activation=NONE)


# Name in the boards' table, side of the input, architecture.
NETWORKS = [
    ("alexnet", 227, alexnet),
    ("blazeface", 128, blazeface),
    ("efficientnet_b0", 224, efficientnet_b0),
    ("efficientnetv2_b0", 224, efficientnetv2_b0),
    ("FastestDet", 352, fastest_det),
    ("googlenet", 224, googlenet),
    ("mnasnet", 224, mnasnet),
    ("mobilenet", 224, mobilenet),
    ("mobilenet_ssd", 300, mobilenet_ssd),
    ("mobilenet_v2", 224, mobilenet_v2),
    ("mobilenet_v3", 224, mobilenet_v3),
    ("mobilenet_yolo", 416, mobilenet_yolo),
    ("mobilenetv2_yolov3", 352, mobilenetv2_yolov3),
    ("nanodet_m", 320, nanodet_m),
    ("proxylessnasnet", 224, proxylessnasnet),
    ("regnety_400m", 224, regnety_400m),
    ("resnet18", 224, resnet18),
    ("resnet50", 224, resnet50),
    ("shufflenet", 224, shufflenet),
    ("shufflenet_v2", 224, shufflenet_v2),
    ("squeezenet", 227, squeezenet),
    ("squeezenet_ssd", 300, squeezenet_ssd),
    ("vgg16", 224, vgg16),
    ("vision_transformer", 384, vision_transformer),
    ("yolo-fastest-1.1", 320, yolo_fastest),
    ("yolo-fastestv2", 352, yolo_fastestv2),
    ("yolov4-tiny", 416, yolov4_tiny),
]


def work_by_sort(net):
    """Multiply-adds and bytes of the nodes of each sort, in order."""
    work = {}
    for layer in net.layers:
        multiply_adds, moved = work.get(layer.sort, (0, 0))
        work[layer.sort] = (multiply_adds + layer.multiply_adds, moved + layer.bytes)
    return sorted(work.items())


def facts(name, size, architecture):
    """The columns of one network, in order."""
    net = Network(size)
    architecture(net)
    multiply_adds = sum(layer.multiply_adds for layer in net.layers)
    of_kind = lambda kind: [layer for layer in net.layers if layer.kind == kind]
    share_of_work = lambda kind: sum(layer.multiply_adds for layer in of_kind(kind)) / multiply_adds
    share_of_nodes = lambda kind: len(of_kind(kind)) / len(net.layers)
    return {
        "model": name,
        "gmacs": f"{multiply_adds / 1e9:.4f}",
        "params_m": f"{net.parameters / 1e6:.4f}",
        "input": f"{size}x{size}x3",
        "nodes": str(len(net.layers)),
        "activations_m": f"{sum(layer.written for layer in net.layers) / 1e6:.3f}",
        "depthwise_share": f"{share_of_work('depthwise_conv'):.4f}",
        "matrix_share": f"{share_of_work('mat_mul'):.4f}",
        "movement_share": f"{share_of_nodes('data_movement'):.4f}",
        "element_wise_share": f"{share_of_nodes('element_wise'):.4f}",
        "normalisation_share": f"{share_of_nodes('normalisation'):.4f}",
        "work": " ".join(
            f"{kind}:{window}:{pack}:{each}:{written}:{multiply_adds / 1e6:.4f}:{moved / 1e6:.4f}"
            for (kind, window, pack, each, written), (multiply_adds, moved) in work_by_sort(net)
        ),
    }


if __name__ == "__main__":
    rows = [facts(*network) for network in NETWORKS]
    print(",".join(rows[0]))
    for row in rows:
        print(",".join(row.values()))
