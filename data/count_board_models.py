"""Facts of public networks, counted from their architectures: writes board_models.csv.

One inference of one image, as a graph without training operators: a batch normalisation is part of the
convolution before it, an activation is a node of its own, a sigmoid-weighted one two, a hard one four. Sources of
the architectures: README.md beside this file.
"""

from collections import defaultdict


class N:
    def __init__(s, h, c=3, w=None):
        s.c, s.h, s.w = c, h, w or h
        s.input = h
        s.mac = defaultdict(float)
        s.par = 0
        s.act = 0.0
        s.n = defaultdict(int)
        s.wt = defaultdict(float)
        s.cact = defaultdict(float)

    def _out(s, kind, c, h, w):
        s.n[kind] += 1
        s.act += c * h * w
        s.cact[kind] += c * h * w

    def conv(s, o, k=1, st=1, g=1, act=1, p=None, keep=False, cin=None):
        c = cin or s.c
        p = (k // 2) if p is None else p
        h = (s.h + 2 * p - k) // st + 1
        w = (s.w + 2 * p - k) // st + 1
        kind = "dw" if g == c and g > 1 else ("conv" if k > 1 else "pw")
        s.mac[kind] += h * w * o * c * k * k / g
        wts = o * c * k * k / g
        s.par += wts + o
        s._out(kind, o, h, w)
        s.wt[kind] += wts
        if act:
            s._out("act", o, h, w)
        if act == 2:
            s._out("act", o, h, w)  # swish = sigmoid + mul
        if act == 3:
            s._out("act", o, h, w)
            s._out("act", o, h, w)
            s._out("act", o, h, w)  # hard swish add clip mul div
        if not keep:
            s.c, s.h, s.w = o, h, w
        return s

    def dw(s, k=3, st=1, act=1, p=None):
        return s.conv(s.c, k, st, s.c, act, p)

    def pool(s, k=2, st=2, p=0, ceil=False):
        f = lambda x: (x + 2 * p - k + (st - 1 if ceil else 0)) // st + 1
        s.h, s.w = f(s.h), f(s.w)
        s._out("pool", s.c, s.h, s.w)
        return s

    def gap(s):
        s.h = s.w = 1
        s._out("pool", s.c, 1, 1)
        return s

    def fc(s, o, act=0):
        i = s.c * s.h * s.w
        s.mac["fc"] += i * o
        s.par += i * o + o
        s._out("fc", o, 1, 1)
        s.wt["fc"] += i * o
        if act:
            s._out("act", o, 1, 1)
        s.c, s.h, s.w = o, 1, 1
        return s

    def ew(s, n=1):
        for _ in range(n):
            s._out("act", s.c, s.h, s.w)
        return s

    def mv(s, n=1):
        for _ in range(n):
            s._out("move", s.c, s.h, s.w)
        return s

    def norm(s):
        s._out("norm", s.c, s.h, s.w)
        return s

    def se(s, r, act2=1):
        c, h, w = s.c, s.h, s.w
        s.gap()
        s.conv(r)
        s.conv(c, act=act2)
        s.c, s.h, s.w = c, h, w
        return s.ew()

    def at(s, c, h):
        s.c, s.h, s.w = c, h, h
        return s


nets = {}


def net(f):
    nets[f.__name__] = f
    return f


@net
def alexnet():
    s = N(227)
    s.conv(96, 11, 4, p=0).norm().pool(3, 2).conv(256, 5, g=2).norm().pool(3, 2).conv(384, 3).conv(
        384, 3, g=2
    ).conv(256, 3, g=2).pool(3, 2).fc(4096, 1).fc(4096, 1).fc(1000).norm()
    return s


def ir(s, o, t, st, k=3, act=1, se=0, se2=1):
    c0, h0 = s.c, s.h
    if t != c0:
        s.conv(t, 1, act=act)
    s.dw(k, st, act=act)
    if se:
        s.se(se, se2)
    s.conv(o, 1, act=0)
    if st == 1 and c0 == o:
        s.ew()
    return s


@net
def blazeface():
    s = N(128)
    s.mv().conv(24, 5, 2, p=2)
    for o, st in [
        (24, 1),
        (28, 1),
        (32, 2),
        (36, 1),
        (42, 1),
        (48, 2),
        (56, 1),
        (64, 1),
        (72, 1),
        (80, 1),
        (88, 1),
        (96, 2),
        (96, 1),
        (96, 1),
        (96, 1),
        (96, 1),
    ]:
        s.mv()
        if st == 2:
            s.mv()
        s.dw(3, st, act=0).conv(o, 1, act=0)
        s.ew(2)
        if st == 2:
            s._out("pool", s.c, s.h, s.w)
    return s


@net
def efficientnet_b0():
    s = N(224)
    s.conv(32, 3, 2, act=2)
    for t, o, n, st, k in [
        (1, 16, 1, 1, 3),
        (6, 24, 2, 2, 3),
        (6, 40, 2, 2, 5),
        (6, 80, 3, 2, 3),
        (6, 112, 3, 1, 5),
        (6, 192, 4, 2, 5),
        (6, 320, 1, 1, 3),
    ]:
        for i in range(n):
            ir(s, o, s.c * t, st if i == 0 else 1, k, 2, max(1, s.c // 4))
    s.conv(1280, 1, act=2).gap().fc(1000).norm()
    return s


@net
def efficientnetv2_b0():
    s = N(224)
    s.conv(32, 3, 2, act=2)
    for t, o, n, st, fused in [
        (1, 16, 1, 1, 1),
        (4, 32, 2, 2, 1),
        (4, 48, 2, 2, 1),
        (4, 96, 3, 2, 0),
        (6, 112, 5, 1, 0),
        (6, 192, 8, 2, 0),
    ]:
        for i in range(n):
            ss = st if i == 0 else 1
            if fused:
                c0 = s.c
                if t == 1:
                    s.conv(o, 3, ss, act=2)
                else:
                    s.conv(c0 * t, 3, ss, act=2).conv(o, 1, act=0)
                if ss == 1 and c0 == o:
                    s.ew()
            else:
                ir(s, o, s.c * t, ss, 3, 2, max(1, s.c // 4))
    s.conv(1280, 1, act=2).gap().fc(1000).norm()
    return s


def branches(s, specs, pool=None):
    c, h, w = s.c, s.h, s.w
    tot = 0
    for b in specs:
        s.c, s.h, s.w = c, h, w
        for op in b:
            if op == "p":
                s.pool(3, 1, 1)
            else:
                s.conv(*op)
        tot += s.c
    s.c = tot
    s.mv()
    return s


@net
def googlenet():
    s = N(224)
    s.conv(64, 7, 2).pool(3, 2, ceil=True).norm().conv(64).conv(192, 3).norm().pool(3, 2, ceil=True)

    def inc(a, b, c, d, e, f):
        branches(s, [[(a,)], [(b,), (c, 3)], [(d,), (e, 5)], ["p", (f,)]])

    inc(64, 96, 128, 16, 32, 32)
    inc(128, 128, 192, 32, 96, 64)
    s.pool(3, 2, ceil=True)
    inc(192, 96, 208, 16, 48, 64)
    inc(160, 112, 224, 24, 64, 64)
    inc(128, 128, 256, 24, 64, 64)
    inc(112, 144, 288, 32, 64, 64)
    inc(256, 160, 320, 32, 128, 128)
    s.pool(3, 2, ceil=True)
    inc(256, 160, 320, 32, 128, 128)
    inc(384, 192, 384, 48, 128, 128)
    s.gap().fc(1000).norm()
    return s


@net
def mnasnet():
    s = N(224)
    s.conv(32, 3, 2).dw().conv(16, 1, act=0)
    for t, o, n, st, k in [
        (3, 24, 3, 2, 3),
        (3, 40, 3, 2, 5),
        (6, 80, 3, 2, 5),
        (6, 96, 2, 1, 3),
        (6, 192, 4, 2, 5),
        (6, 320, 1, 1, 3),
    ]:
        for i in range(n):
            ir(s, o, s.c * t, st if i == 0 else 1, k)
    s.conv(1280).gap().fc(1000).norm()
    return s


def mb1(s, upto=13):
    s.conv(32, 3, 2)
    for i, (o, st) in enumerate(
        [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)] + [(512, 1)] * 5 + [(1024, 2), (1024, 1)]
    ):
        s.dw(3, st).conv(o)
        if i == 10:
            s.feat = (s.c, s.h)
    return s


@net
def mobilenet():
    return mb1(N(224)).gap().fc(1000).norm()


@net
def mobilenet_ssd():
    s = mb1(N(300))
    fs = [s.feat, (s.c, s.h)]
    for a, b in [(256, 512), (128, 256), (128, 256), (64, 128)]:
        s.conv(a).conv(b, 3, 2)
        fs.append((s.c, s.h))
    for i, (c, h) in enumerate(fs):
        k = 3 if i == 0 else 6
        for o in (4 * k, 21 * k):
            s.at(c, h).conv(o, 1, act=0).mv(2)
        s.mv()
    s.mv(3).norm()
    return s


@net
def mobilenet_v2():
    s = N(224)
    s.conv(32, 3, 2)
    for t, o, n, st in [
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ]:
        for i in range(n):
            ir(s, o, s.c * t, st if i == 0 else 1)
    s.conv(1280).gap().fc(1000).norm()
    return s


@net
def mobilenet_v3():
    s = N(224)
    s.conv(16, 3, 2, act=3)
    for k, t, o, se, a, st in [
        (3, 16, 16, 0, 1, 1),
        (3, 64, 24, 0, 1, 2),
        (3, 72, 24, 0, 1, 1),
        (5, 72, 40, 1, 1, 2),
        (5, 120, 40, 1, 1, 1),
        (5, 120, 40, 1, 1, 1),
        (3, 240, 80, 0, 3, 2),
        (3, 200, 80, 0, 3, 1),
        (3, 184, 80, 0, 3, 1),
        (3, 184, 80, 0, 3, 1),
        (3, 480, 112, 1, 3, 1),
        (3, 672, 112, 1, 3, 1),
        (5, 672, 160, 1, 3, 2),
        (5, 960, 160, 1, 3, 1),
        (5, 960, 160, 1, 3, 1),
    ]:
        ir(s, o, t, st, k, a, t // 4 if se else 0, 3)
    s.conv(960, 1, act=3).gap().fc(1280, 1).fc(1000).norm()
    return s


@net
def mobilenet_yolo():
    s = mb1(N(416))
    s.conv(256).conv(1024, 3)
    c, h = s.c, s.h
    s.conv(125, act=0, keep=True)
    s.mac["dw"] += 26 * 26 * 256 * 16
    s.c, s.h, s.w = 256, 26, 26
    s._out("dw", 256, 26, 26)
    s.conv(1024, 3).conv(256).conv(1024, 3).conv(125, act=0)
    s.mv()
    return s


@net
def mobilenetv2_yolov3():
    s = N(352)
    s.conv(32, 3, 2)
    for t, o, n, st in [
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ]:
        for i in range(n):
            ir(s, o, s.c * t, st if i == 0 else 1)
    s.conv(1280).dw().conv(576)
    s.conv(75, act=0, keep=True)
    s.mv().pool(1, 1).at(576, 22).mv()
    s.dw().conv(576).ew().dw().conv(576).conv(75, act=0).mv()
    return s


def shuf2(s, outs, reps, stem=24):
    s.conv(stem, 3, 2).pool(3, 2, 1)
    fs = []
    for o, n in zip(outs, reps):
        b = o // 2
        c, h, w = s.c, s.h, s.w
        s.dw(3, 2, act=0).conv(b)
        s.c, s.h, s.w = c, h, w
        s.conv(b).dw(3, 2, act=0).conv(b)
        s.c = o
        s.mv(2)
        for _ in range(n):
            s.c = b
            s.mv().conv(b).dw(3, 1, act=0).conv(b)
            s.c = o
            s.mv(2)
        fs.append((s.c, s.h))
    s.fs = fs
    return s


@net
def nanodet_m():
    s = shuf2(N(320), [116, 232, 464], [3, 7, 3])
    for c, h in s.fs:
        s.at(c, h).conv(96, act=0)
    for h in (20, 40, 20, 10):
        s.at(96, h).mv().ew()
    for h in (40, 20, 10):
        s.at(96, h)
        for _ in range(2):
            s.dw(3).conv(96)
        s.conv(112, act=0).norm().mv(3)
    return s


@net
def proxylessnasnet():
    s = N(224)
    s.conv(32, 3, 2).dw().conv(16, 1, act=0)
    for o, st, blocks in [
        (32, 2, [(3, 5), (3, 3)]),
        (40, 2, [(3, 7), (3, 3), (3, 5), (3, 5)]),
        (80, 2, [(6, 7), (3, 5), (3, 5), (3, 5)]),
        (96, 1, [(6, 5), (3, 5), (3, 5), (3, 5)]),
        (192, 2, [(6, 7), (6, 7), (3, 7), (3, 7)]),
        (320, 1, [(6, 7)]),
    ]:
        for i, (t, k) in enumerate(blocks):
            ir(s, o, s.c * t, st if i == 0 else 1, k)
    s.conv(1280).gap().fc(1000).norm()
    return s


@net
def regnety_400m():
    s = N(224)
    s.conv(32, 3, 2)
    for o, n in [(48, 1), (104, 3), (208, 6), (440, 6)]:
        for i in range(n):
            c0, h0 = s.c, s.h
            st = 2 if i == 0 else 1
            if i == 0:
                s.conv(o, 1, 2, act=0, keep=True)
            s.conv(o).conv(o, 3, st, g=o // 8).se(max(8, c0 // 4)).conv(o, act=0)
            s.ew(2)
    s.gap().fc(1000).norm()
    return s


@net
def resnet18():
    s = N(224)
    s.conv(64, 7, 2).pool(3, 2, 1)
    for o, n, st in [(64, 2, 1), (128, 2, 2), (256, 2, 2), (512, 2, 2)]:
        for i in range(n):
            a = st if i == 0 else 1
            if a == 2:
                s.conv(o, 1, 2, act=0, keep=True)
            s.conv(o, 3, a).conv(o, 3, act=0).ew(2)
    return s.gap().fc(1000).norm()


@net
def resnet50():
    s = N(224)
    s.conv(64, 7, 2).pool(3, 2, 1)
    for o, n, st in [(64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)]:
        for i in range(n):
            a = st if i == 0 else 1
            if i == 0:
                s.conv(4 * o, 1, a, act=0, keep=True)
            s.conv(o, 1, a).conv(o, 3).conv(4 * o, act=0).ew(2)
    return s.gap().fc(1000).norm()


@net
def shufflenet():
    s = N(224)
    s.conv(24, 3, 2).pool(3, 2, 1)
    for o, n in [(240, 4), (480, 8), (960, 4)]:
        for i in range(n):
            c0, h0, w0 = s.c, s.h, s.w
            st = 2 if i == 0 else 1
            g = 3 if c0 != 24 else 1
            if i == 0:
                s.pool(3, 2, 1)
                s.c, s.h, s.w = c0, h0, w0
            s.conv(o // 4, 1, g=g).mv().dw(3, st, act=0).conv(o - c0 if i == 0 else o, 1, g=3, act=0)
            s.c = o
            if i == 0:
                s.mv().ew()
            else:
                s.ew(2)
    return s.gap().fc(1000).norm()


@net
def shufflenet_v2():
    return shuf2(N(224), [116, 232, 464], [3, 7, 3]).conv(1024).gap().fc(1000).norm()


def fire(s, a, b):
    s.conv(a)
    branches(s, [[(b,)], [(b, 3)]])


@net
def squeezenet():
    s = N(227)
    s.conv(64, 3, 2, p=0).pool(3, 2)
    for a, b, p in [
        (16, 64, 0),
        (16, 64, 1),
        (32, 128, 0),
        (32, 128, 1),
        (48, 192, 0),
        (48, 192, 0),
        (64, 256, 0),
        (64, 256, 0),
    ]:
        fire(s, a, b)
        if p:
            s.pool(3, 2)
    return s.conv(1000).gap().norm()


@net
def squeezenet_ssd():
    s = N(300)
    s.conv(64, 3, 2, p=0).pool(3, 2)
    fs = []
    for i, (a, b, p) in enumerate(
        [
            (16, 64, 0),
            (16, 64, 1),
            (32, 128, 0),
            (32, 128, 1),
            (48, 192, 0),
            (48, 192, 0),
            (64, 256, 0),
            (64, 256, 1),
            (96, 384, 1),
            (96, 384, 0),
        ]
    ):
        fire(s, a, b)
        if i in (3, 7, 8, 9):
            fs.append((s.c, s.h))
        if p:
            s.pool(3, 2)
    s.conv(128).conv(256, 3, 2)
    fs.append((s.c, s.h))
    s.conv(64).conv(128, 3, 2)
    fs.append((s.c, s.h))
    s.norm()
    for i, (c, h) in enumerate(fs):
        k = 4 if i in (0, 5) else 6
        for o in (4 * k, 21 * k):
            s.at(c, h).conv(o, 3, act=0).mv(2)
        s.mv()
    return s.mv(3).norm()


@net
def vgg16():
    s = N(224)
    for o, n in [(64, 2), (128, 2), (256, 3), (512, 3), (512, 3)]:
        for _ in range(n):
            s.conv(o, 3)
        s.pool()
    return s.fc(4096, 1).fc(4096, 1).fc(1000).norm()


@net
def vision_transformer():
    s = N(384)
    s.conv(768, 32, 32, p=0, act=0).mv(3)
    T = 145
    d = 768
    s.c, s.h, s.w = d, T, 1
    s.ew()
    for _ in range(12):
        s.norm()
        for _ in range(4):
            s.mac["fc"] += T * d * d
            s.par += d * d + d
            s._out("fc", d, T, 1)
            s.ew()
            s.mv()
            s.wt["fc"] += d * d
        for _ in range(2):
            s.mac["fc"] += T * T * d
            s._out("fc", d, T, 1)
        s._out("norm", 12, T, T)
        s.ew().norm()
        for a, b in ((d, 4 * d), (4 * d, d)):
            s.mac["fc"] += T * a * b
            s.par += a * b + b
            s._out("fc", b, T, 1)
            s.wt["fc"] += a * b
        s.c = 4 * d
        s.ew(4)
        s.c = d
        s.ew()
    s.norm().mv()
    s.c, s.h = d, 1
    return s.fc(1000).norm()


@net
def yolo_fastest():
    s = N(320)
    s.conv(8, 3, 2).conv(8)
    s.dw().conv(4, act=0)
    ir(s, 4, 8, 1)
    for t, o, st, n, t2 in [
        (24, 8, 2, 2, 32),
        (32, 8, 2, 2, 48),
        (48, 16, 1, 4, 96),
        (96, 24, 2, 4, 136),
        (136, 48, 2, 5, 224),
    ]:
        ir(s, o, t, st)
        for _ in range(n):
            ir(s, o, t2, 1)
        if o == 24:
            f = (136, 20)
    s.pool(3, 1, 1).pool(5, 1, 2).pool(9, 1, 4)
    s.c = 192
    s.mv().conv(96)
    s.dw(5).conv(96, act=0).dw(5).conv(96, act=0).conv(255, act=0).mv()
    s.at(96, 20).mv()
    s.at(232, 20).mv().conv(96).dw(5).conv(96, act=0).dw(5).conv(96, act=0).conv(255, act=0).mv()
    return s


@net
def yolo_fastestv2():
    s = shuf2(N(352), [48, 96, 192], [3, 7, 3])
    s.conv(72)
    for h, first in ((11, 0), (22, 1)):
        s.at(72, h)
        if first:
            s.mv()
            s.at(288, 22).mv().conv(72)
        for _ in range(4):
            s.at(72, h).dw(5).conv(72, act=0)
        for o in (12, 3, 80):
            s.at(72, h).conv(o, act=0, keep=True)
        s.at(95, h).norm().mv(3)
    return s


@net
def FastestDet():
    s = shuf2(N(352), [48, 96, 192], [3, 7, 3])
    s.at(48, 22).pool(1, 1)
    s.at(192, 22).mv()
    s.at(336, 22).mv().conv(96)
    for _ in range(6):
        s.at(96, 22).dw(5)
    s.at(288, 22).mv().conv(96, act=0).ew(2).conv(96)
    for o in (80, 4, 1):
        s.at(96, 22).dw(5).conv(o, act=0)
    s.at(85, 22).norm().mv()
    return s


@net
def yolov4_tiny():
    s = N(416)
    s.conv(32, 3, 2).conv(64, 3, 2)
    fs = []
    for c in (64, 128, 256):
        s.conv(c, 3)
        h = s.h
        s.mv()
        s.c = c // 2
        s.conv(c // 2, 3).conv(c // 2, 3)
        s.c = c
        s.mv().conv(c)
        fs.append((s.c, s.h))
        s.c = 2 * c
        s.mv().pool()
    s.conv(512, 3).conv(256)
    s.conv(512, 3).conv(255, act=0)
    s.at(256, 13).conv(128)
    s.at(128, 26).mv()
    s.at(384, 26).mv().conv(256, 3).conv(255, act=0)
    return s


NAMES = {"yolo_fastest": "yolo-fastest-1.1", "yolo_fastestv2": "yolo-fastestv2", "yolov4_tiny": "yolov4-tiny"}
COLUMNS = [
    "model",
    "gmacs",
    "params_m",
    "input",
    "nodes",
    "activations_m",
    "depthwise_share",
    "matrix_share",
    "movement_share",
    "element_wise_share",
    "normalisation_share",
]

print(",".join(COLUMNS))
for key, build in sorted(nets.items(), key=lambda item: NAMES.get(item[0], item[0]).lower()):
    s = build()
    macs, nodes = sum(s.mac.values()), sum(s.n.values())
    print(
        ",".join(
            [
                NAMES.get(key, key),
                f"{macs / 1e9:.4f}",
                f"{s.par / 1e6:.4f}",
                f"{s.input}x{s.input}x3",
                str(nodes),
                f"{s.act / 1e6:.3f}",
                f"{s.mac['dw'] / macs:.4f}",
                f"{s.mac['fc'] / macs:.4f}",
                f"{s.n['move'] / nodes:.4f}",
                f"{s.n['act'] / nodes:.4f}",
                f"{s.n['norm'] / nodes:.4f}",
            ]
        )
    )
